"""Nonsense in a node, as somebody's hand may leave it: a running broker goes on."""

import logging

import pytest

from odradek.config import parse_listener
from odradek.metadata import (
    Create,
    MetadataCache,
    Set,
    node_values,
    paths,
    store_setup,
    topic_operations,
)
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.memory import MemoryMetadata, MemorySession
from odradek.metadata.store import EVERYTHING
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId

STATE = paths.partition_state_path("t", 0)
EVERY_NODE = [
    paths.CLUSTER_ID,
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.broker_path(1),
    paths.topic_path("t"),
    STATE,
    paths.topic_config_path("t"),
    paths.broker_config_path(1),
]


async def filled() -> MemorySession:
    store = MemoryMetadata().connect()
    await store_setup.prepare_store(store, "cluster")
    registration = node_values.BrokerRegistration(
        (parse_listener("PLAINTEXT://h:1"),), {"PLAINTEXT": "PLAINTEXT"}, "rack", 5, 3
    )
    await store.multi(
        Create(paths.CONTROLLER, node_values.Controller(BrokerId(1)).encode(), True),
        Create(paths.CONTROLLER_EPOCH, node_values.encode_controller_epoch(7)),
        Create(paths.broker_path(1), registration.encode(), True),
        Create(paths.broker_config_path(1), node_values.ConfigOverrides({"a": "1"}).encode()),
        *topic_operations.create_topic(
            "t",
            node_values.TopicAssignment(
                TopicId(bytes(15) + b"1"),
                ((BrokerId(1), BrokerId(2)),),
                {0: (BrokerId(2),)},
                {0: (BrokerId(1),)},
            ),
            [
                node_values.PartitionState(
                    BrokerId(1), LeaderEpoch(4), (BrokerId(1), BrokerId(2)), 7, True
                )
            ],
            {"retention.ms": "5"},
            None,
        ),
    )
    return store


@pytest.mark.parametrize("value", [b"", b"nonsense", b"{}", b"[]"])
@pytest.mark.parametrize("path", EVERY_NODE)
async def test_a_running_broker_keeps_what_it_knew(
    path: str, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = MetadataCache(await filled())
    before = await keeper.load()
    await keeper.write(Set(path, value))
    await keeper.catch_up(EVERYTHING)
    after = keeper.image
    # Versions are the present ones, so that the next change puts the node right.
    topic, partition = after.topics["t"], after.topics["t"].partitions[0]
    assert topic.version == (path == paths.topic_path("t"))
    assert partition.version == (path == STATE)
    assert after.controller_epoch_version == (path == paths.CONTROLLER_EPOCH)
    topic = topic._replace(version=0, partitions=(partition._replace(version=0),))
    assert topic == before.topics["t"]
    assert after.brokers == before.brokers
    assert after.broker_configs == before.broker_configs
    assert (after.controller_id, after.controller_epoch) == (1, 7)
    assert after.cluster_id == "cluster"
    complaints = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(complaints) == 1
    assert path in complaints[0].message


async def test_nonsense_that_is_new_counts_as_missing() -> None:
    store = await filled()
    keeper = MetadataCache(store)
    await keeper.load()
    await keeper.write(
        Create(paths.topic_path("new"), b"nonsense"),
        Create(paths.broker_path(9), b"nonsense"),
        Create(paths.topic_config_path("new"), b"nonsense"),
    )
    assert list(keeper.image.topics) == ["t"]
    assert list(keeper.image.brokers) == [1]
    assert (await keeper.catch_up(EVERYTHING)).topics.keys() == {"t"}


@pytest.mark.parametrize("path", EVERY_NODE)
async def test_a_broker_that_starts_says_what_it_cannot_do_without(path: str) -> None:
    store = await filled()
    await store.multi(Set(path, b"nonsense"))
    keeper = MetadataCache(store)
    if path in (paths.CONTROLLER, paths.broker_path(1)):
        image = await keeper.load()
        assert image.controller_id == (-1 if path == paths.CONTROLLER else 1)
    else:
        with pytest.raises(MalformedNode, match=path):
            await keeper.load()
