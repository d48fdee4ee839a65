"""Coordinators that are stopped, cut off, or wait for a replica that does not answer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.client.errors import ConnectionClosed
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from odradek.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.world import World
from tests.inside import inside
from tests.unit.broker.test_coordinators_apart import (
    LOADING,
    as_client,
    coordinator_of,
    create_spread,
    producer_for,
    read_committed,
)
from tests.unit.broker.transactional import insist
from tests.unit.replication.cluster import Cluster, on_cluster, with_cluster


def with_three(
    test: Callable[[Cluster], Awaitable[None]], replica_lag_time_max_ms: str = "10000"
) -> None:
    with_cluster(
        test,
        offsets_topic_num_partitions="1",
        min_insync_replicas="2",
        group_initial_rebalance_delay_ms="0",
        offsets_commit_timeout_ms="2000",
        replica_lag_time_max_ms=replica_lag_time_max_ms,
    )


on_three = inside(with_three)
"""Decorates a test that `with_three` runs."""


async def commit(
    cluster: Cluster,
    broker: int,
    group: str,
    offset: int,
    *,
    member_id: str = "",
    generation_id: int = -1,
) -> int:
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation_id,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=None
                    )
                ],
            )
        ],
    )
    connection = await cluster.connection(broker)
    response = await connection.request(request, OffsetCommitResponse, max_version=8)
    return response.topics[0].partitions[0].error_code


async def fetch(cluster: Cluster, broker: int, group: str) -> tuple[int, int]:
    """The error, and the committed offset if there is none."""
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    )
    connection = await cluster.connection(broker)
    response = await connection.request(request, OffsetFetchResponse, max_version=5)
    if response.error_code:
        return response.error_code, -1
    return 0, response.topics[0].partitions[0].committed_offset


async def insist_on_commit(cluster: Cluster, broker: int, group: str, offset: int) -> None:
    async with asyncio.timeout(60):
        while error := await commit(cluster, broker, group, offset):
            assert error in LOADING
            await asyncio.sleep(0.05)


async def another_coordinator(cluster: Cluster, group: str, before: int) -> int:
    """Which broker has taken over, once one has."""
    asked = before % 3 + 1
    async with asyncio.timeout(60):
        while True:
            found = await coordinator_of(cluster, group, 0, asked)
            if found != before:
                return found
            await asyncio.sleep(0.05)


@on_three()
async def test_a_coordinator_that_is_cut_off_does_not_answer_with_old_offsets(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2, 3])
    old = await coordinator_of(cluster, "g", 0)
    await insist_on_commit(cluster, old, "g", 50)
    cluster.brokers[old].cut_store()
    for other in {1, 2, 3} - {old}:
        cluster.simulation.network.cut(f"broker-{old}", f"broker-{other}")
    new = await another_coordinator(cluster, "g", old)
    await insist_on_commit(cluster, new, "g", 100)
    assert await fetch(cluster, new, "g") == (0, 100)
    assert await fetch(cluster, old, "g") == (ErrorCode.NOT_COORDINATOR, -1)
    assert await commit(cluster, old, "g", 60) == ErrorCode.NOT_COORDINATOR


@on_three()
async def test_what_waited_at_a_stopped_coordinator_is_not_answered_with_old_offsets(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2, 3])
    old = await coordinator_of(cluster, "g", 0)
    await insist_on_commit(cluster, old, "g", 50)
    cluster.brokers[old].pause()
    waiting = asyncio.ensure_future(fetch(cluster.another_client(), old, "g"))
    new = await another_coordinator(cluster, "g", old)
    await insist_on_commit(cluster, new, "g", 100)
    cluster.brokers[old].resume()
    assert await waiting == (ErrorCode.NOT_COORDINATOR, -1)


async def join_alone(cluster: Cluster, broker: int, group: str) -> tuple[str, int]:
    """A group of one member, in its first generation."""
    connection = await cluster.connection(broker)
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = await connection.request(join, JoinGroupResponse, max_version=3)
    assert joined.error_code == 0
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
    )
    synced = await connection.request(sync, SyncGroupResponse, max_version=3)
    assert synced.error_code == 0
    return joined.member_id, joined.generation_id


@on_three(replica_lag_time_max_ms="30000")
async def test_a_replica_that_does_not_answer_holds_up_its_own_commits_alone(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2, 3])
    loop = asyncio.get_running_loop()
    broker = await coordinator_of(cluster, "g", 0)
    for group in ("g", "h"):
        await insist_on_commit(cluster, broker, group, 50)
    member_id, generation_id = await join_alone(cluster, broker, "m")
    follower = broker % 3 + 1
    cluster.simulation.network.cut(f"broker-{broker}", f"broker-{follower}")

    async def timed(asked: Awaitable[object]) -> tuple[object, float]:
        began_s = loop.time()
        return await asked, loop.time() - began_s

    commits = [
        asyncio.ensure_future(timed(asked))
        for asked in (
            commit(cluster.another_client(), broker, "g", 60),
            commit(
                cluster.another_client(),
                broker,
                "m",
                60,
                member_id=member_id,
                generation_id=generation_id,
            ),
        )
    ]
    await asyncio.sleep(0.3)
    assert not any(waiting.done() for waiting in commits)
    # Nothing of another group, and no heartbeat of the same, waits for them.
    answer, took_s = await timed(fetch(cluster, broker, "h"))
    assert answer == (0, 50)
    assert took_s < 0.1
    heartbeat = HeartbeatRequest(group_id="m", generation_id=generation_id, member_id=member_id)
    connection = await cluster.connection(broker)
    beaten, took_s = await timed(connection.request(heartbeat, HeartbeatResponse))
    assert isinstance(beaten, HeartbeatResponse)
    assert beaten.error_code == 0
    assert took_s < 0.1
    # What rests on the commit waits as long as the commit may; then it is refused, too.
    assert await fetch(cluster, broker, "g") == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    for waiting in commits:
        error, took_s = await waiting
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert 1.9 < took_s < 2.1
    cluster.simulation.network.heal_all()
    await insist_on_commit(cluster, broker, "g", 70)
    assert await fetch(cluster, broker, "g") == (0, 70)


@on_three()
async def test_what_waits_at_a_broker_that_loses_its_lease_is_sent_away(cluster: Cluster) -> None:
    """A commit and a produce request that wait for replicas, and a member that waits to join."""
    broker = await coordinator_of(cluster, "g", 0)
    others = [other for other in (1, 2, 3) if other != broker]
    await cluster.create_topic([broker, *others])
    await insist_on_commit(cluster, broker, "g", 50)
    await join_alone(cluster, broker, "m")
    for other in others:
        cluster.simulation.network.cut(f"broker-{broker}", f"broker-{other}")
    cluster.brokers[broker].cut_store()
    clients = [cluster.another_client() for _ in range(3)]
    join = JoinGroupRequest(
        group_id="m",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )

    async def join_second() -> int:
        connection = await clients[2].connection(broker)
        return (await connection.request(join, JoinGroupResponse, max_version=3)).error_code

    async def produce() -> int:
        return (await clients[1].produce(broker, b"v", timeout_ms=30_000)).error_code

    waiting = [
        asyncio.ensure_future(asked)
        for asked in (commit(clients[0], broker, "g", 60), produce(), join_second())
    ]
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    errors = await asyncio.gather(*waiting)
    assert errors[0] in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert errors[1:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR]
    assert loop.time() - began_s < 10


@on_cluster(
    offsets_topic_num_partitions="6",
    transaction_state_log_num_partitions="6",
    min_insync_replicas="2",
)
async def test_a_coordinator_whose_lease_comes_back_goes_on_where_it_was(cluster: Cluster) -> None:
    """Its session has not expired, so nobody else has led: what it remembers is right. Markers that
    it left undone meanwhile are written, because nobody else would write them."""
    await create_spread(cluster)
    broker = await coordinator_of(cluster, "tx", 1)
    others = [number for number in (1, 2, 3) if number != broker]
    names = [f"g-{number}" for number in range(20)]
    coordinators = {name: await coordinator_of(cluster, name, 0) for name in names}
    group = next(name for name in names if coordinators[name] == broker)
    await insist_on_commit(cluster, broker, group, 50)

    async def decide(world: World) -> None:
        producer = producer_for(world, "tx")
        await producer.init_transactions()
        await producer.begin_transaction()
        for partition in range(3):
            await producer.send("t", b"decided", partition=partition)
        await producer.flush()
        # Others still fetch the decision; its own requests to them do not get through.
        for number in others:
            cluster.simulation.network.refuse(f"broker-{number}", 9092)
        await producer.commit_transaction()
        await producer.close(timeout_ms=100)

    await as_client(cluster, decide)
    session_s = cluster.metadata.session_timeout_s
    cluster.brokers[broker].cut_store()
    await asyncio.sleep(session_s * 5 / 6)
    assert await fetch(cluster, broker, group) == (ErrorCode.NOT_COORDINATOR, -1)
    cluster.brokers[broker].reconnect_store()
    for number in others:
        cluster.simulation.network.admit(f"broker-{number}")
    found = await as_client(cluster, lambda world: read_committed(world, 3))
    assert found == [(index, b"decided") for index in range(3)]
    assert await coordinator_of(cluster, "tx", 1, others[0]) == broker
    assert await fetch(cluster, broker, group) == (0, 50)


class OldProducer:
    """A transactional producer of early versions, which asks the broker by any connection."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._identity = -1, -1

    async def init(self, client: Cluster) -> int:
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        connection = await client.connection(self._broker)
        answer = await connection.request(request, InitProducerIdResponse)
        self._identity = answer.producer_id, answer.producer_epoch
        return answer.error_code

    async def add(self, client: Cluster) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=ProducerId(self._identity[0]),
            v3_and_below_producer_epoch=ProducerEpoch(self._identity[1]),
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        connection = await client.connection(self._broker)
        answer = await connection.request(request, AddPartitionsToTxnResponse, max_version=0)
        topic = answer.results_by_topic_v3_and_below[0]
        return topic.results_by_partition[0].partition_error_code

    async def end(self, client: Cluster, *, committed: bool) -> int:
        request = EndTxnRequest(
            transactional_id="tx",
            producer_id=ProducerId(self._identity[0]),
            producer_epoch=ProducerEpoch(self._identity[1]),
            committed=committed,
        )
        connection = await client.connection(self._broker)
        answer = await connection.request(request, EndTxnResponse, max_version=1)
        return answer.error_code


def test_a_late_end_does_not_end_a_transaction_whose_beginning_nobody_has_heard_of() -> None:
    """An EndTxn of version 1 comes late, by a connection that was cut off before the coordinator
    heard of it: the next transaction has begun, and the replicas do not have its beginning yet. The
    producer waits for the answer to its AddPartitionsToTxn, so the end cannot be of that one, and
    its epoch is right all the same. Over a connection that the broker knows it is refused."""

    async def test(cluster: Cluster) -> None:
        await create_spread(cluster)
        broker = await coordinator_of(cluster, "tx", 1)
        old, new, cut_off, last = (cluster.another_client() for _ in range(4))
        producer = OldProducer(broker)
        assert await insist(lambda: producer.init(old)) == ErrorCode.NONE
        assert await insist(lambda: producer.add(old)) == ErrorCode.NONE
        # Until it is complete, and no longer "come again".
        assert await insist(lambda: producer.end(old, committed=True)) == ErrorCode.NONE
        assert await insist(lambda: producer.end(old, committed=True)) == ErrorCode.NONE
        for other in {1, 2, 3} - {broker}:
            cluster.simulation.network.cut(f"broker-{broker}", f"broker-{other}")
        began = asyncio.ensure_future(producer.add(new))
        await asyncio.sleep(0.1)
        late = asyncio.ensure_future(producer.end(cut_off, committed=True))
        await asyncio.sleep(0.1)
        assert not began.done()
        cluster.simulation.network.heal_all()
        assert await began == ErrorCode.NONE
        assert await late == ErrorCode.CONCURRENT_TRANSACTIONS
        with pytest.raises(ConnectionClosed):
            await producer.end(old, committed=True)
        assert await insist(lambda: producer.end(last, committed=False)) == ErrorCode.NONE

    with_cluster(
        test,
        transaction_state_log_num_partitions="6",
        min_insync_replicas="2",
        replica_lag_time_max_ms="30000",
    )
