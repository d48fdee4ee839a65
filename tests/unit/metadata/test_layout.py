"""Values as Kafka writes them to ZooKeeper, read from bytes as Kafka wrote them."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config import Listener
from odradek.metadata import BadVersion, Create, Delete, NodeExists, Set
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.node_values import (
    BrokerRegistration,
    ClusterId,
    ConfigOverrides,
    Controller,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
    decode_controller_epoch,
    encode_controller_epoch,
    parse_topic_id,
)
from odradek.metadata.paths import (
    CLUSTER_ID,
    GROUP_CONFIGS,
    group_config_path,
    group_of_config_path,
    partition_state_path,
    topic_config_path,
    topic_id_text,
    topic_path,
)
from odradek.metadata.store_setup import ForeignCluster, prepare_store
from odradek.metadata.topic_operations import create_partitions, create_topic, delete_topic
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId

TOPIC_ID = TopicId(bytes(range(16)))
STATE = PartitionState(BrokerId(1), LeaderEpoch(0), (BrokerId(1),), 1)
ASSIGNMENT = TopicAssignment(TOPIC_ID, ((BrokerId(1),), (BrokerId(1),)))


def test_a_brokers_registration_as_kafka_writes_it() -> None:
    written = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","OUT":"SSL"},'
        b'"endpoints":["PLAINTEXT://host:9092","OUT://[::1]:9093"],"jmx_port":-1,"port":9092,'
        b'"host":"host","version":5,"timestamp":"1700000000000","rack":"r1"}'
    )
    registration = BrokerRegistration.decode("/brokers/ids/1", written)
    assert registration == BrokerRegistration(
        (Listener("PLAINTEXT", "host", 9092), Listener("OUT", "::1", 9093)),
        {"PLAINTEXT": "PLAINTEXT", "OUT": "SSL"},
        "r1",
        1700000000000,
    )
    assert json.loads(registration.encode()) == json.loads(written)


def test_a_registration_has_the_session_timeout_and_an_older_one_has_none() -> None:
    registration = BrokerRegistration(
        (Listener("PLAINTEXT", "host", 9092),), {"PLAINTEXT": "PLAINTEXT"}, session_timeout_ms=6000
    )
    assert BrokerRegistration.decode("/brokers/ids/1", registration.encode()) == registration
    unknown = registration._replace(session_timeout_ms=0)
    assert b"session_timeout_ms" not in unknown.encode()
    assert BrokerRegistration.decode("/brokers/ids/1", unknown.encode()) == unknown


def test_a_topics_assignment_as_kafka_writes_it() -> None:
    written = (
        b'{"removing_replicas":{"1":[3]},"partitions":{"1":[2,3],"0":[1,2]},'
        b'"topic_id":"AAECAwQFBgcICQoLDA0ODw","adding_replicas":{},"version":3}'
    )
    assignment = TopicAssignment.decode("/brokers/topics/t", written)
    assert assignment == TopicAssignment(
        TOPIC_ID, ((BrokerId(1), BrokerId(2)), (BrokerId(2), BrokerId(3))), {}, {1: (BrokerId(3),)}
    )
    assert json.loads(assignment.encode()) == json.loads(written)


def test_an_assignment_from_before_topic_ids() -> None:
    assignment = TopicAssignment.decode("/x", b'{"version":1,"partitions":{"0":[1]}}')
    assert assignment == TopicAssignment(NO_TOPIC_ID, ((BrokerId(1),),))


def test_a_partitions_state_as_kafka_writes_it() -> None:
    written = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,1]}'
    state = PartitionState.decode("/x", written)
    assert state == PartitionState(BrokerId(2), LeaderEpoch(7), (BrokerId(2), BrokerId(1)), 4)
    assert json.loads(state.encode()) == json.loads(written)
    recovering = state._replace(is_recovering=True)
    assert PartitionState.decode("/x", recovering.encode()) == recovering


def test_the_smaller_values() -> None:
    assert json.loads(ClusterId("abc").encode()) == {"version": "1", "id": "abc"}
    assert ClusterId.decode(b'{"version":"1","id":"abc"}') == ClusterId("abc")
    controller = b'{"version":2,"brokerid":3,"timestamp":"17","kraftControllerEpoch":-1}'
    assert Controller.decode(controller) == Controller(BrokerId(3), 17)
    assert json.loads(Controller(BrokerId(3), 17).encode()) == json.loads(controller)
    block = b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'
    assert ProducerIdBlock.decode(block) == ProducerIdBlock(BrokerId(1), 1000, 1999)
    assert json.loads(ProducerIdBlock(BrokerId(1), 1000, 1999).encode()) == json.loads(block)
    overrides = ConfigOverrides({"retention.ms": "1"})
    assert ConfigOverrides.decode("/x", overrides.encode()) == overrides
    assert decode_controller_epoch(encode_controller_epoch(12)) == 12


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[1]", "it is not a JSON object"),
        (b"{}", "leader is not a whole number"),
        (b'{"leader":true,"leader_epoch":0,"isr":[]}', "leader is not a whole number"),
        (b'{"leader":1,"leader_epoch":0,"isr":{}}', "isr is not a list"),
        (b'{"leader":1,"leader_epoch":0,"isr":["1"]}', "isr is not a list of whole numbers"),
    ],
)
def test_a_malformed_node_is_named(value: bytes, reason: str) -> None:
    with pytest.raises(MalformedNode) as caught:
        PartitionState.decode("/the/path", value)
    assert str(caught.value) == (
        f"the metadata store holds something unexpected at /the/path: {reason}"
    )


@pytest.mark.parametrize(
    "value",
    [
        b'{"partitions":{"0":[1],"2":[1]}}',
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":[1]}',
        b'{"adding_replicas":{}}',
        b'{"partitions":{"0":[1]},"topic_id":"short"}',
        b'{"partitions":{"0":[1]},"topic_id":"AAECAwQFBgcICQoLDA0O!!"}',
        b'{"partitions":{"0":[1]},"topic_id":7}',
    ],
)
def test_a_malformed_assignment_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedNode):
        TopicAssignment.decode("/x", value)


def test_a_malformed_registration_and_epoch_are_refused() -> None:
    broken = b'{"endpoints":["nowhere"],"listener_security_protocol_map":{},"timestamp":"1"}'
    with pytest.raises(MalformedNode, match="nowhere"):
        BrokerRegistration.decode("/x", broken)
    with pytest.raises(MalformedNode):
        decode_controller_epoch(b"one")


@pytest.mark.parametrize("timestamp", ["true", '"1_000"', '"\u0661"', '""', "null", "1.5"])
def test_a_timestamp_is_an_integer_or_its_digits(timestamp: str) -> None:
    with pytest.raises(MalformedNode, match="timestamp is not a whole number"):
        Controller.decode(f'{{"brokerid":1,"timestamp":{timestamp}}}'.encode())


@pytest.mark.parametrize("value", ["null", "1", "true", "[]"])
def test_texts_are_not_made_from_other_values(value: str) -> None:
    """A null became the text "None", which a broker would have used as a setting."""
    with pytest.raises(MalformedNode, match="config is not an object of texts"):
        ConfigOverrides.decode("/x", f'{{"config":{{"retention.ms":{value}}}}}'.encode())
    with pytest.raises(MalformedNode, match="endpoints is not a list of texts"):
        BrokerRegistration.decode("/x", f'{{"endpoints":[{value}]}}'.encode())


@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_come_back(raw: bytes) -> None:
    text = topic_id_text(TopicId(raw))
    assert len(text) == 22
    assert parse_topic_id("/x", text) == raw


def test_a_new_store_takes_the_cluster_id_and_keeps_it() -> None:
    async def scenario() -> None:
        metadata = MemoryMetadata()
        assert await prepare_store(metadata.connect(), "first") == "first"
        assert await prepare_store(metadata.connect(), "second") == "first"
        assert metadata.tree.get(CLUSTER_ID) is not None

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/controller", "/brokers/ids/9"])
def test_a_store_of_live_kafka_brokers_is_refused(path: str) -> None:
    async def main() -> None:
        store = MemoryMetadata().connect()
        await store.multi(Create("/brokers"), Create("/brokers/ids"), Create(path, b"{}"))
        with pytest.raises(ForeignCluster, match=r"zookeeper\.connect=host:2181/odradek"):
            await prepare_store(store, "cluster")
        assert await store.read("/odradek") is None
        # Once they are gone, what they left is taken over.
        await store.multi(Delete(path, 0))
        assert await prepare_store(store, "cluster") == "cluster"
        await store.multi(Create(path, b"{}"))
        assert await prepare_store(store, "another") == "cluster"

    asyncio.run(main())


def test_a_topic_is_made_and_removed_whole() -> None:
    async def scenario() -> None:
        store = MemoryMetadata().connect()
        await prepare_store(store, "cluster")
        before = await store.read_tree("/")
        await store.multi(
            *create_topic("t", ASSIGNMENT, [STATE, STATE], {"retention.ms": "1"}, None)
        )
        with pytest.raises(NodeExists):
            await store.multi(*create_topic("t", ASSIGNMENT, [STATE, STATE], {}, None))
        assert await store.read(partition_state_path("t", 1)) is not None
        tree = await store.read_tree(topic_path("t"))
        config = await store.read(topic_config_path("t"))
        grown = ASSIGNMENT._replace(replicas=((BrokerId(1),), (BrokerId(1),), (BrokerId(1),)))
        await store.multi(Set(topic_path("t"), grown.encode()), *create_partitions("t", 2, [STATE]))
        with pytest.raises(BadVersion):
            await store.multi(*delete_topic("t", tree, config))
        tree = await store.read_tree(topic_path("t"))
        await store.multi(*delete_topic("t", tree, config))
        assert await store.read_tree("/") == before

    asyncio.run(scenario())


@pytest.mark.parametrize("overrides", [{}, {"retention.ms": "1"}])
def test_a_topic_is_removed_in_any_two_parts(overrides: dict[str, str]) -> None:
    async def scenario(first: int) -> int:
        store = MemoryMetadata().connect()
        await prepare_store(store, "cluster")
        before = await store.read_tree("/")
        await store.multi(*create_topic("t", ASSIGNMENT, [STATE, STATE], overrides, None))
        tree = await store.read_tree(topic_path("t"))
        config = await store.read(topic_config_path("t"))
        operations = delete_topic("t", tree, config)
        await store.multi(*operations[:first])
        config = await store.read(topic_config_path("t"))
        if config is not None:
            decoded = ConfigOverrides.decode(topic_config_path("t"), config.value)
            assert decoded.settings == overrides
        if tree := await store.read_tree(topic_path("t")):
            await store.multi(*delete_topic("t", tree, config))
        assert await store.read_tree("/") == before
        return len(operations)

    for first in range(asyncio.run(scenario(0)) + 1):
        asyncio.run(scenario(first))


@pytest.mark.parametrize("group_id", ["g", "a/b", "/", ".", "..", "...", "%2E", "ü \0\n*+"])
def test_a_group_of_any_name_has_a_node_for_its_settings(group_id: str) -> None:
    path = group_config_path(group_id)
    name = path.removeprefix(GROUP_CONFIGS + "/")
    assert name not in ("", ".", "..")
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name
    assert group_of_config_path(path) == group_id
