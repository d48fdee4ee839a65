"""How a broker joins again: after it may have lost its tail, and in the same run."""

import asyncio
from collections.abc import Callable

import pytest

from odradek.cluster.membership import Membership, PreviousRun
from odradek.config import parse_listener
from odradek.config.broker_settings import BrokerSettings
from odradek.metadata import (
    Create,
    MetadataCache,
    MetadataStore,
    Operation,
    OutcomeUnknown,
    Set,
    node_values,
    paths,
    store_setup,
)
from odradek.metadata.memory import MemoryMetadata, MemorySession, StoreFaults
from odradek.metadata.topic_operations import create_topic
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId
from odradek.storage import LogManager
from odradek.world import World
from odradek.world.memory_disk import MemoryDisk

STATE = paths.partition_state_path("t", 0)


def _registration(epoch: int) -> node_values.BrokerRegistration:
    listeners = (parse_listener("PLAINTEXT://h:1"),)
    return node_values.BrokerRegistration(listeners, {"PLAINTEXT": "PLAINTEXT"}, None, 0, epoch)


def _state(*in_sync: BrokerId) -> node_values.PartitionState:
    return node_values.PartitionState(BrokerId(1), LeaderEpoch(0), in_sync, 0)


async def _membership(store: MetadataStore) -> Membership:
    images = MetadataCache(store)
    await images.load()
    settings = BrokerSettings.from_properties({"node.id": "2", "log.dirs": "/data"})
    disk = MemoryDisk()
    disk.make_directories("/data")
    logs = LogManager(settings, World(disk=disk), cluster_id="c", node_id=BrokerId(2), run_id="r")
    return Membership(BrokerId(2), store, images, _registration, logs)


async def _in_sync(store: MetadataStore) -> tuple[BrokerId, ...]:
    node = await store.read(STATE)
    assert node is not None
    return node_values.PartitionState.decode(STATE, node.value).isr


async def test_it_leaves_a_set_that_it_entered_before_its_epoch_ended() -> None:
    """The leader's write comes after the starting broker drew its image, and the store is slow to
    tell it. Its old epoch is still the current one, so the write is right; but the broker has
    lost its page cache since, so it must not stay in the set when it registers."""
    metadata = MemoryMetadata(StoreFaults(max_notification_delay_s=1_000_000))
    leader, starting = metadata.connect(), metadata.connect()
    await store_setup.prepare_store(leader, "cluster")
    assignment = node_values.TopicAssignment(
        TopicId(bytes(15) + b"1"), ((BrokerId(1), BrokerId(2)),), {}, {}
    )
    await leader.multi(
        Create(paths.broker_path(1), _registration(0).encode(), True),
        Create(paths.broker_epoch_path(2), b""),
        *create_topic("t", assignment, [_state(BrokerId(1))], {}, None),
    )
    membership = await _membership(starting)

    await leader.multi(Set(STATE, _state(BrokerId(1), BrokerId(2)).encode(), 0))
    await membership.join(PreviousRun(clean_stop=None), patience_s=1.0)

    assert await _in_sync(leader) == (1,)


async def test_a_lost_reply_to_its_registration_does_not_cost_it_the_last_place_in_sync(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that had registered again, and did not hear of it, took itself for one whose tail
    may be lost. It left the ISR to a replica that really had lost its tail (seed 9000546 of
    `roles`)."""
    metadata = MemoryMetadata()
    other, store = metadata.connect(), metadata.connect()
    await store_setup.prepare_store(other, "cluster")
    assignment = node_values.TopicAssignment(
        TopicId(bytes(15) + b"1"), ((BrokerId(1), BrokerId(2)),), {}, {}
    )
    alone = node_values.PartitionState(
        BrokerId(2), LeaderEpoch(0), (BrokerId(2),), 0, eligible=(BrokerId(1),)
    )
    membership = await _membership(store)
    await membership.join(PreviousRun(clean_stop=None), patience_s=1.0)
    await other.multi(*create_topic("t", assignment, [alone], {}, None))
    registered, lost = asyncio.Event(), asyncio.Event()
    multi = store.multi

    async def lose_one_reply(*operations: Operation) -> list[int]:
        versions = await multi(*operations)
        is_registration = any(one.path == paths.broker_path(2) for one in operations)
        if is_registration and not lost.is_set():
            lost.set()
            store.cut()
            raise OutcomeUnknown
        return versions

    monkeypatch.setattr(store, "multi", lose_one_reply)
    running = asyncio.create_task(
        membership.run(1.0, on_loss=registered.clear, on_return=registered.set)
    )
    async with asyncio.timeout(5):
        store.expire()
        await lost.wait()
        while "cannot register again yet" not in caplog.text:  # noqa: ASYNC110 - a log line
            await asyncio.sleep(0.01)
        store.expire()
        store.reconnect()
        await registered.wait()
    running.cancel()
    assert await _in_sync(other) == (2,)


async def _in_sync_with_another(metadata: MemoryMetadata) -> tuple[MemorySession, Membership]:
    """Broker 2 is registered, and in sync with the leader, broker 1."""
    other, store = metadata.connect(), metadata.connect()
    await store_setup.prepare_store(other, "cluster")
    assignment = node_values.TopicAssignment(
        TopicId(bytes(15) + b"1"), ((BrokerId(1), BrokerId(2)),), {}, {}
    )
    membership = await _membership(store)
    await membership.join(PreviousRun(None), patience_s=1.0)
    await other.multi(
        Create(paths.broker_path(1), _registration(0).encode(), True),
        *create_topic("t", assignment, [_state(BrokerId(1), BrokerId(2))], {}, None),
    )
    return store, membership


async def _take_epoch(other: MetadataStore) -> None:
    """Another process registers as broker 2, and is gone again."""
    path = paths.broker_epoch_path(2)
    node = await other.read(path)
    assert node is not None
    await other.multi(Set(path, b"", node.version))


async def _register_again(membership: Membership, interrupt: Callable[[], object]) -> None:
    registered = asyncio.Event()
    running = asyncio.create_task(
        membership.run(1.0, on_loss=registered.clear, on_return=registered.set)
    )
    async with asyncio.timeout(5):
        interrupt()
        await registered.wait()
    running.cancel()


async def test_it_leaves_the_set_even_if_the_store_goes_away_after_it_ended_its_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process had the id meanwhile, so the broker ends the epoch of that process. When it
    found its own epoch in the store then, it took its logs for complete."""
    metadata = MemoryMetadata()
    other = metadata.connect()
    store, membership = await _in_sync_with_another(metadata)
    multi, interrupted = store.multi, asyncio.Event()

    async def go_away(*operations: Operation) -> list[int]:
        versions = await multi(*operations)
        ends_epoch = [one.path for one in operations] == [paths.broker_epoch_path(2)]
        if ends_epoch and not interrupted.is_set():
            interrupted.set()
            store.cut()
            asyncio.get_running_loop().call_later(0.1, store.expire)
            asyncio.get_running_loop().call_later(0.1, store.reconnect)
        return versions

    monkeypatch.setattr(store, "multi", go_away)
    await _take_epoch(other)
    await _register_again(membership, store.expire)
    assert interrupted.is_set()
    assert await _in_sync(other) == (1,)


async def test_it_leaves_the_set_if_another_process_registers_just_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = MemoryMetadata()
    other = metadata.connect()
    store, membership = await _in_sync_with_another(metadata)
    multi, overtaken = store.multi, asyncio.Event()

    async def come_late(*operations: Operation) -> list[int]:
        is_registration = any(one.path == paths.broker_path(2) for one in operations)
        if is_registration and not overtaken.is_set():
            overtaken.set()
            await _take_epoch(other)
        return await multi(*operations)

    monkeypatch.setattr(store, "multi", come_late)
    await _register_again(membership, store.expire)
    assert overtaken.is_set()
    assert await _in_sync(other) == (1,)
