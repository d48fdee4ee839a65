"""Changes of the ISR while the store goes away or refuses them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.metadata import MetadataCache, Set
from odradek.metadata.node_values import PartitionState
from odradek.metadata.paths import partition_state_path
from odradek.metadata.store import Operation, StoreUnavailable
from odradek.protocol.errors import ErrorCode
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster


class Outage:
    """The store goes away for a broker right after it has stored an ISR of two."""

    def __init__(self) -> None:
        self.away: list[MetadataCache] = []
        self.on_stored: Callable[[], None] | None = None

    def note(self, cache: MetadataCache, operations: tuple[Operation, ...]) -> None:
        path = partition_state_path(TOPIC, 0)
        for operation in operations:
            if isinstance(operation, Set) and operation.path == path:
                state = PartitionState.decode(path, operation.value)
                if sorted(state.isr) == [1, 2] and self.on_stored is not None:
                    self.away.append(cache)
                    self.on_stored()


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    found = Outage()
    read_again = MetadataCache._read_again

    async def read_or_fail(self: MetadataCache, *arguments: Any) -> None:
        if self in found.away:
            raise StoreUnavailable("the connection was lost")
        await read_again(self, *arguments)

    write = MetadataCache.write

    async def write_then_lose(self: MetadataCache, *operations: Operation) -> list[int]:
        multi = self._store.multi

        async def multi_then_lose(*given: Operation) -> list[int]:
            versions = await multi(*given)
            found.note(self, given)
            return versions

        monkeypatch.setattr(self._store, "multi", multi_then_lose, raising=False)
        try:
            return await write(self, *operations)
        finally:
            monkeypatch.setattr(self._store, "multi", multi, raising=False)

    monkeypatch.setattr(MetadataCache, "_read_again", read_or_fail)
    monkeypatch.setattr(MetadataCache, "write", write_then_lose)
    return found


@on_cluster(brokers=2, min_insync_replicas="1")
async def test_an_isr_that_is_stored_and_not_read_again_holds_back_the_high_watermark(
    cluster: Cluster, outage: Outage
) -> None:
    """Else the leader acknowledges a record that it has alone, and the other replica is elected."""
    await cluster.create_topic([1, 2])
    assert (await cluster.produce(1, b"before")).error_code == 0
    cluster.brokers[2].kill()
    await cluster.until(lambda state: state.isr == (1,))
    outage.on_stored = lambda: cluster.simulation.network.cut("broker-1", "broker-2")
    cluster.brokers[2].start()
    await cluster.until(lambda state: sorted(state.isr) == [1, 2])
    assert outage.away
    answer = await cluster.produce(1, b"alone", acks=-1, timeout_ms=2_000)
    assert ErrorCode(answer.error_code) is not ErrorCode.NONE
    outage.away.clear()
    cluster.simulation.network.heal_all()
    await cluster.until_read(1, [b"before", b"alone"])


@on_cluster(brokers=2, min_insync_replicas="1")
async def test_a_change_that_the_store_refuses_is_tried_with_pauses_and_holds_back_no_other(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZooKeeper does, for example, if an ACL forbids the node. Without pauses the broker would ask
    it, and write a line into its log, some hundred times a second."""
    await cluster.create_topic([1, 2], name="refused")
    await cluster.create_topic([1, 2])
    tries = 0
    write = MetadataCache.write

    async def refuse(self: MetadataCache, *operations: Operation) -> list[int]:
        nonlocal tries
        if any(
            isinstance(one, Set) and one.path == partition_state_path("refused", 0)
            for one in operations
        ):
            tries += 1
            raise StoreUnavailable("the node may not be written")
        return await write(self, *operations)

    with monkeypatch.context() as refusing:
        refusing.setattr(MetadataCache, "write", refuse)
        cluster.brokers[2].kill()
        await asyncio.sleep(60)
        assert 10 < tries < 60
        assert (await cluster.produce(1, b"one", acks=-1)).error_code == 0
