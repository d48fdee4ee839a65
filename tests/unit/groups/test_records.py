"""The records of `__consumer_offsets`, byte for byte as Kafka writes them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.groups.records import (
    CLASSIC_GROUP,
    OFFSET,
    CommittedOffset,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    group_key,
    group_record,
    kind_of,
    offset_key,
    offset_record,
    offset_tombstone,
    read_group,
    read_group_key,
    read_offset,
    read_offset_key,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import encode_versioned
from odradek.protocol.types import NO_TOPIC_ID, Offset, TopicId, TopicPartition
from odradek.statemachine.machine import LogRecord, Written
from tests.unit.groups.driver import GROUP, T0, Coordinator

PARTITION = TopicPartition("topic", 258)
KEY = bytes.fromhex("0001 0005") + b"group" + bytes.fromhex("0005") + b"topic" + b"\0\0\1\2"
COMMITTED = CommittedOffset(10, 3, "note", 1_000)
PLACED = COMMITTED._replace(log_offset=9)


def test_the_key_of_an_offset() -> None:
    assert offset_key("group", PARTITION) == KEY
    assert kind_of(KEY) == OFFSET
    assert read_offset_key(KEY) == ("group", PARTITION)
    named = TopicPartition("tópico", 1)
    assert read_offset_key(offset_key("grüße", named)) == ("grüße", named)


def test_an_offset() -> None:
    record = offset_record("group", PARTITION, COMMITTED)
    value = "0004" + "000000000000000a" + "00000003" + "05" + b"note".hex() + "00000000000003e8"
    assert record == LogRecord(KEY, bytes.fromhex(value + "00"))
    assert read_offset(bytes.fromhex(value + "00"), 9) == PLACED


def test_an_offset_with_a_topic_id() -> None:
    committed = COMMITTED._replace(topic_id=TopicId(b"i" * 16))
    record = offset_record("group", PARTITION, committed)
    assert record.value is not None
    assert record.value.endswith(bytes.fromhex("01 00 10") + b"i" * 16)
    assert read_offset(record.value, 9) == committed._replace(log_offset=9)


def test_an_offset_that_expires() -> None:
    committed = COMMITTED._replace(expire_timestamp_ms=2_000, leader_epoch=-1)
    record = offset_record("group", PARTITION, committed)
    value = "0001" + "000000000000000a" + "0004" + b"note".hex()
    value += "00000000000003e8" + "00000000000007d0"
    assert record.value == bytes.fromhex(value)
    assert read_offset(bytes.fromhex(value), 9) == committed._replace(log_offset=9)


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version_are_read(version: int) -> None:
    value = OffsetCommitValue(offset=10, leader_epoch=3, metadata="note", commit_timestamp=1_000)
    read = read_offset(encode_versioned(value, version), 9)
    assert read == PLACED._replace(leader_epoch=3 if version >= 3 else -1)


def test_a_forgotten_offset() -> None:
    assert offset_tombstone("group", PARTITION) == LogRecord(KEY, None)


def test_a_group() -> None:
    key = bytes.fromhex("0002 0005") + b"group"
    assert group_key("group") == key
    assert (kind_of(key), read_group_key(key)) == (CLASSIC_GROUP, "group")
    empty = group_record("group", GroupMetadataValue(current_state_timestamp=1_000))
    value = "0003" + "0000" + "00000000" + "ffff" + "ffff" + "00000000000003e8" + "00000000"
    assert empty == LogRecord(key, bytes.fromhex(value))


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol="range", leader="m", members=[member]
    )
    if version >= 1:
        member.rebalance_timeout = 20
    if version >= 2:
        value.current_state_timestamp = 1_000
    if version >= 3:
        member.group_instance_id = "i"
    written = encode_versioned(value, version)
    assert read_group(written) == value
    coordinator = Coordinator()
    coordinator.machine.apply(Written(LogRecord(group_key(GROUP), written), Offset(0)))
    loaded = coordinator.group().members["m"]
    assert loaded.rebalance_timeout_ms == (20 if version >= 1 else 10)
    assert coordinator.group().generation_id == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00", None),
        (b"\x00\x01", b"\x00\x04"),
        (KEY, b""),
        (KEY, b"\x00\x04\x00"),
        (b"\x00\x02\x00\x05group", b"\x00\x03broken"),
        (b"\x00\x03\x00\x05group", b"\x00\x00\x00\x00\x00\x01"),
        (b"\x00\x10\x00\x05group\x00\x01.", None),
        (b"\x7f\xff", b"from the future"),
        (b"\xff\xff", b"from nowhere"),
    ],
)
def test_a_record_nobody_can_read_is_skipped(key: bytes, value: bytes | None) -> None:
    coordinator = Coordinator()
    coordinator.commit(7)
    coordinator.machine.apply(Written(LogRecord(key, value), Offset(1)))
    assert list(coordinator.machine.groups) == [GROUP]
    assert coordinator.fetch(T0)[0].offset == 7


@given(
    st.builds(
        CommittedOffset,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.text(max_size=200),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from([-1, 0, 5]),
        st.sampled_from([NO_TOPIC_ID, TopicId(b"i" * 16)]),
    )
)
def test_what_is_written_by_hand_is_what_is_declared(committed: CommittedOffset) -> None:
    if committed.expire_timestamp_ms >= 0:
        committed = committed._replace(topic_id=NO_TOPIC_ID, leader_epoch=-1)
    version = 4 if committed.expire_timestamp_ms < 0 else 1
    declared = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    written = offset_record("g", PARTITION, committed).value
    assert written == encode_versioned(declared, version)
    assert read_offset(written, 9) == committed._replace(log_offset=9)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(start: bytes, end: bytes) -> None:
    for value in (start, b"\x00\x04" + start + end, start + b"\x00"):
        with suppress(MalformedMessage):
            read = read_offset(value, 9)
            version = min(int.from_bytes(value[:2], "big", signed=True), 4)
            declared = OffsetCommitValue.decode(value, version, 2, allow_trailing=True)
            assert (read.offset, read.metadata) == (declared.offset, declared.metadata)
            assert (read.commit_timestamp_ms, read.topic_id) == (
                declared.commit_timestamp,
                declared.topic_id,
            )
        for key in (value, b"\x00\x01" + value):
            with suppress(MalformedMessage):
                group, partition = read_offset_key(key)
                assert offset_key(group, partition)[2:] == key[2:]


def test_a_key_without_a_kind() -> None:
    with pytest.raises(MalformedMessage):
        kind_of(b"\x01")
