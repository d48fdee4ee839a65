"""Three brokers on the simulated network, and what a test asks of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy

from odradek.client.connection import Connection
from odradek.metadata.memory import MemoryMetadata, MemorySession
from odradek.metadata.node_values import PartitionState
from odradek.metadata.paths import partition_state_path
from odradek.metadata.store import Set
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import decode_records, split_batches
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset
from simulation.run import run
from simulation.simulated_broker import PORT, SimulatedBroker
from simulation.world import Simulation
from tests.inside import inside
from tests.unit.broker.harness import batch

TOPIC = "t"


class Cluster:
    def __init__(self, simulation: Simulation, properties: dict[str, str], brokers: int) -> None:
        self.simulation = simulation
        self.metadata = MemoryMetadata()
        self.store: MemorySession = self.metadata.connect()
        self.brokers = {
            number: SimulatedBroker(
                simulation,
                self.metadata,
                number,
                {"broker.rack": f"rack-{number}", **properties},
            )
            for number in range(1, brokers + 1)
        }
        self.topic_id = NO_TOPIC_ID
        self._connections: dict[int, Connection] = {}
        self._others: list[Cluster] = []

    async def connection(self, broker: int) -> Connection:
        known = self._connections.get(broker)
        if known is None or not known.is_open:
            known = await Connection.open(f"broker-{broker}", PORT, client_id="test")
            self._connections[broker] = known
        return known

    def drop_connection(self, broker: int) -> None:
        known = self._connections.pop(broker, None)
        if known is not None:
            known.close()

    def another_client(self) -> "Cluster":
        """The same cluster, seen by a client with connections of its own."""
        other = copy(self)
        other._connections, other._others = {}, []
        self._others.append(other)
        return other

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        for other in self._others:
            other.close()

    async def create_topic(
        self, replicas: Sequence[int], *, name: str = TOPIC, **overrides: str
    ) -> None:
        """A topic of one partition, led by the first of its replicas; clients use the latest."""
        response = await (await self.connection(1)).request(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=[
                            CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
                        ],
                        configs=[
                            CreatableTopicConfig(name=key.replace("_", "."), value=value)
                            for key, value in overrides.items()
                        ],
                    )
                ]
            ),
            CreateTopicsResponse,
        )
        assert response.topics[0].error_code == 0, response
        self.topic_id = response.topics[0].topic_id

    # What the store holds

    async def state(self) -> PartitionState:
        path = partition_state_path(TOPIC, 0)
        node = await self.store.read(path)
        assert node is not None
        return PartitionState.decode(path, node.value)

    async def elect(self, leader: int, in_sync: Sequence[BrokerId]) -> None:
        """What a controller would write."""
        path = partition_state_path(TOPIC, 0)
        node = await self.store.read(path)
        assert node is not None
        before = PartitionState.decode(path, node.value)
        elected = PartitionState(
            BrokerId(leader),
            LeaderEpoch(before.leader_epoch + 1),
            tuple(in_sync),
            before.controller_epoch,
        )
        await self.store.multi(Set(path, elected.encode(), node.version))

    async def until(self, holds: Callable[[PartitionState], bool], longest_s: float = 30) -> float:
        """Waits for the state of the partition; returns how long it took."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while not holds(await self.state()):
            assert loop.time() - began_s < longest_s, await self.state()
            await asyncio.sleep(0.005)
        return loop.time() - began_s

    # Clients

    async def produce(
        self, broker: int, *values: bytes, acks: int = -1, timeout_ms: int = 5000
    ) -> PartitionProduceResponse:
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=TOPIC,
                    topic_id=self.topic_id,
                    partition_data=[PartitionProduceData(index=0, records=batch(*values))],
                )
            ],
        )
        response = await (await self.connection(broker)).request(request, ProduceResponse)
        return response.responses[0].partition_responses[0]

    async def fetch(
        self,
        broker: int,
        offset: Offset = Offset(0),
        *,
        rack: str = "",
        max_wait_ms: int = 0,
        version: int | None = None,
    ) -> PartitionData:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            rack_id=rack,
            topics=[
                FetchTopic(
                    topic=TOPIC,
                    topic_id=self.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        response = await (await self.connection(broker)).request(
            request, FetchResponse, max_version=version
        )
        assert response.error_code == 0
        return response.responses[0].partitions[0]

    async def values(self, broker: int) -> list[bytes]:
        """What a consumer reads from this broker."""
        return values_in(await self.fetch(broker))

    async def all_values(self, broker: int) -> list[bytes]:
        """The same, in as many fetches as it takes."""
        found: list[bytes] = []
        while more := values_in(await self.fetch(broker, Offset(len(found)))):
            found += more
        return found

    async def until_read(self, broker: int, expected: list[bytes], longest_s: float = 10) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while (found := await self.values(broker)) != expected:
            assert loop.time() - began_s < longest_s, found
            await asyncio.sleep(0.01)


def values_in(data: PartitionData) -> list[bytes]:
    assert data.error_code == 0, data
    if not data.records:
        return []
    buffer = bytes(data.records)  # type: ignore[call-overload]
    return [
        record.value or b""
        for position, _ in split_batches(buffer)
        for record in decode_records(buffer, position)
    ]


def with_cluster(
    test: Callable[[Cluster], Awaitable[None]],
    *,
    brokers: int = 3,
    seed: int = 1,
    **properties: str,
) -> None:
    """Runs a test against fresh brokers, in virtual time."""

    async def main(simulation: Simulation) -> None:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        cluster = Cluster(simulation, named, brokers)
        for broker in cluster.brokers.values():
            broker.start()
        await asyncio.sleep(0.5)
        for broker in cluster.brokers.values():
            broker.require_alive()
        try:
            await test(cluster)
            for broker in cluster.brokers.values():
                broker.require_alive()
        finally:
            cluster.close()

    run(main, seed=seed)


on_cluster = inside(with_cluster)
"""Decorates a test that `with_cluster` runs."""
