"""Records of the internal topics, in the words of Kafka's definitions."""

import json

from odradek.cli.dump_log.state_records import show_group_record, show_transaction_record
from odradek.groups import records as groups
from odradek.groups.consumer import records as consumer_groups
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_versioned,
)
from odradek.protocol.messages.consumer_protocol import (
    TopicPartition as Assigned,
)
from odradek.protocol.records import Record
from odradek.protocol.types import Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from odradek.statemachine.machine import LogRecord
from odradek.transactions.records import record_of
from odradek.transactions.transaction import Status, Transaction

T0 = TopicPartition("t", 0)
ID = TopicId(bytes(range(16)))


def stored(key: bytes | None, value: bytes | None) -> Record:
    return Record(Offset(7), 0, key, value, [])


def shown(record: LogRecord) -> tuple[object, object]:
    key, value = show_group_record(stored(record.key, record.value))
    assert value is not None
    return json.loads(key), json.loads(value)


def test_an_offset() -> None:
    committed = groups.CommittedOffset(5, 2, "ü", 9, topic_id=ID)
    key, value = shown(groups.offset_record("g", T0, committed))
    assert key == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert value == {
        "version": "4",
        "data": {
            "offset": 5,
            "leaderEpoch": 2,
            "metadata": "ü",
            "commitTimestamp": 9,
            "topicId": "AAECAwQFBgcICQoLDA0ODw",
        },
    }


def test_fields_that_a_version_lacks_are_left_out() -> None:
    expiring = groups.CommittedOffset(5, 2, "", 9, expire_timestamp_ms=10)
    _, value = shown(groups.offset_record("g", T0, expiring))
    assert value == {
        "version": "1",
        "data": {"offset": 5, "metadata": "", "commitTimestamp": 9, "expireTimestamp": 10},
    }


def test_a_tombstone() -> None:
    record = groups.offset_tombstone("g", T0)
    assert show_group_record(stored(record.key, record.value))[1] == "<DELETE>"


def test_members_of_a_classic_group_are_opened() -> None:
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 0)
    assignment = encode_versioned(
        ConsumerProtocolAssignment(assigned_partitions=[Assigned(topic="t", partitions=[0])]), 1
    )
    member = groups.MemberMetadata(
        member_id="m", client_id="c", subscription=subscription, assignment=assignment
    )
    value = groups.GroupMetadataValue(protocol_type="consumer", members=[member])
    data = shown(groups.group_record("g", value))[1]
    assert isinstance(data, dict)
    (told,) = data["data"]["members"]
    assert told["subscription"] == {"topics": ["t"], "userData": None}
    assert told["assignment"]["assignedPartitions"] == [{"topic": "t", "partitions": [0]}]

    odd = groups.MemberMetadata(subscription=b"\x00", assignment=b"ab")
    value = groups.GroupMetadataValue(protocol_type="consumer", members=[odd])
    data = shown(groups.group_record("g", value))[1]
    assert isinstance(data, dict)
    (told,) = data["data"]["members"]
    assert (told["subscription"], told["assignment"]) == ("AA==", "YWI=")


def test_a_member_that_apache_kafka_wrote() -> None:
    """It says that there is no classic metadata, where an absent tag would be a default one."""
    key = consumer_groups.key_of(consumer_groups.MEMBER, "g", "m")
    written = bytes.fromhex(
        "00000000036d650b2f3132372e302e302e3102076f726465727301000493e00001000100"
    )
    shown_key, value = show_group_record(stored(key, written))
    assert json.loads(shown_key) == {"type": "5", "data": {"groupId": "g", "memberId": "m"}}
    assert value is not None
    data = json.loads(value)["data"]
    assert data["subscribedTopicNames"] == ["orders"]
    assert data["classicMemberMetadata"] is None
    message = consumer_groups.ConsumerGroupMemberMetadataValue(
        client_id="me", client_host="/127.0.0.1", subscribed_topic_names=["orders"],
        subscribed_topic_regex="", rebalance_timeout_ms=300_000,
    )  # fmt: skip
    assert encode_versioned(message, 0) == written


def test_a_transaction() -> None:
    transaction = Transaction(
        "tx", ProducerId(4), ProducerEpoch(1), 60_000, Status.ONGOING, frozenset({T0}), 10, 11
    )
    record = record_of(transaction)
    key, value = show_transaction_record(stored(record.key, record.value))
    assert json.loads(key) == {"type": "0", "data": {"transactionalId": "tx"}}
    assert value is not None
    data = json.loads(value)["data"]
    assert data["transactionPartitions"] == [{"topic": "t", "partitionIds": [0]}]
    assert data["transactionStatus"] == Status.ONGOING
    assert "lastProducerEpoch" not in data


def test_what_cannot_be_read_is_told_and_passed_over() -> None:
    assert show_group_record(stored(b"\x00\x63x", b"")) == (
        "Unknown record type 99 at offset 7, skipping.",
        None,
    )
    for key, value in ((None, b""), (b"\x00", b""), (b"\x00\x02\xff", b""), (b"\0\2\0\1g", b"\0")):
        told, nothing = show_group_record(stored(key, value))
        assert told.startswith("Error at offset 7, skipping. ")
        assert nothing is None
