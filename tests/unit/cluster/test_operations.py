"""What operators ask of a cluster: elections, moves, settings that change who may lead."""

import asyncio

import pytest

from odradek.client import Producer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.world import World
from tests.unit.cluster.crew import Crew, on_crew

_PREFERRED, _UNCLEAN = 0, 1


async def move(crew: Crew, replicas: list[int] | None, *, by: int = 1, index: int = 0) -> int:
    asked = ReassignablePartition(partition_index=index, replicas=replicas)
    response = await crew.ask(
        by,
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[asked])]
        ),
        AlterPartitionReassignmentsResponse,
    )
    return response.responses[0].partitions[0].error_code


async def moves(crew: Crew, by: int = 1) -> ListPartitionReassignmentsResponse:
    request = ListPartitionReassignmentsRequest(topics=None)
    return await crew.ask(by, request, ListPartitionReassignmentsResponse)


async def elect(crew: Crew, kind: int, *, by: int = 2) -> int:
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=[TopicPartitions(topic="t", partitions=[0])]
    )
    response = await crew.ask(by, request, ElectLeadersResponse)
    return response.replica_election_results[0].partition_result[0].error_code


async def produce(crew: Crew, *values: bytes) -> None:
    async def program(world: World) -> None:
        servers = ",".join(broker.address for broker in crew.brokers.values())
        async with Producer(world=world, bootstrap_servers=servers, acks="all") as producer:
            for value in values:
                await producer.send_and_wait("t", value)

    await crew.simulation.host("producer").start(program)


@on_crew()
async def test_a_partition_moves_to_other_brokers_and_the_old_ones_forget_it(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2]})
    await produce(crew, b"one", b"two")
    assert await move(crew, [3, 2], by=3) == ErrorCode.NONE
    await crew.until(lambda: crew.partition().replicas == (3, 2))
    partition = crew.partition()
    assert (partition.leader, sorted(partition.isr)) == (3, [2, 3])
    assert (partition.adding, partition.removing) == ((), ())
    assert not (await moves(crew)).topics
    await produce(crew, b"three")
    await crew.until(lambda: _logs(crew, 1) == [])
    assert _logs(crew, 3) == ["t-0"]


def _logs(crew: Crew, number: int) -> list[str]:
    names = crew.brokers[number].host.disk.list_directory("/data")
    return [name for name in names if name.startswith("t-") and not name.endswith("-delete")]


@on_crew()
async def test_a_move_waits_for_its_broker_and_can_be_given_up(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2]})
    crew.simulation.network.cut("broker-3", "broker-1")
    assert await move(crew, [3, 2]) == ErrorCode.NONE
    listed = (await moves(crew, by=2)).topics[0].partitions[0]
    assert listed.replicas == [3, 2, 1]
    assert (listed.adding_replicas, listed.removing_replicas) == ([3], [1])
    assert (crew.partition().leader, crew.partition().isr) == (1, (1, 2))
    assert await move(crew, None) == ErrorCode.NONE
    assert crew.partition().replicas == (2, 1)
    assert await move(crew, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@on_crew()
async def test_the_replication_factor_changes_both_ways(crew: Crew) -> None:
    await crew.create(assignment={0: [1]})
    await produce(crew, b"one")
    assert await move(crew, [1, 2, 3]) == ErrorCode.NONE
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 2, 3])
    await crew.until(lambda: crew.partition().adding == ())
    assert await move(crew, [2]) == ErrorCode.NONE
    await crew.until(lambda: crew.partition().replicas == (2,))
    assert (crew.partition().leader, crew.partition().isr) == (2, (2,))


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@on_crew()
async def test_a_move_to_nowhere_is_refused(
    crew: Crew, replicas: list[int], code: ErrorCode
) -> None:
    await crew.create(assignment={0: [1, 2]})
    assert await move(crew, replicas) == code
    assert await move(crew, [1], index=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@on_crew()
async def test_the_preferred_leader_is_elected_when_asked_for(crew: Crew) -> None:
    await crew.create()
    assert await elect(crew, _PREFERRED) == ErrorCode.ELECTION_NOT_NEEDED
    crew.brokers[1].kill()
    await crew.until(lambda: crew.partition().leader == 2)
    assert await elect(crew, _PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    await crew.start(1)
    await crew.until(lambda: 1 in crew.partition().isr)
    assert await elect(crew, _PREFERRED) == ErrorCode.NONE
    assert crew.partition().leader == 1


@on_crew(leader_imbalance_check_interval_seconds="5")
async def test_leaders_are_balanced_by_and_by(crew: Crew) -> None:
    await crew.create()
    crew.brokers[1].kill()
    await crew.until(lambda: crew.partition().leader == 2)
    await crew.start(1)
    await crew.until(lambda: crew.partition().leader == 1, 15)


@on_crew()
async def test_without_anybody_in_sync_nobody_leads_until_it_is_allowed(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2]})
    crew.brokers[2].kill()
    await crew.until(lambda: crew.partition().isr == (1,))
    crew.brokers[1].kill()
    await crew.start(2)
    await asyncio.sleep(1)
    assert crew.partition().leader == -1
    allowed = AlterableConfig(name="unclean.leader.election.enable", value="true")
    await crew.ask(
        3,
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name="t", configs=[allowed])]
        ),
        IncrementalAlterConfigsResponse,
    )
    await crew.until(lambda: crew.partition().leader == 2)
    assert crew.partition().isr == (2,)


@on_crew()
async def test_an_unclean_election_that_is_asked_for_takes_the_longest_log(crew: Crew) -> None:
    await crew.create()
    await produce(crew, b"one")
    crew.brokers[2].kill()
    await crew.until(lambda: sorted(crew.partition().isr) == [1, 3])
    await produce(crew, b"two")
    crew.brokers[3].kill()
    await crew.until(lambda: crew.partition().isr == (1,))
    await produce(crew, b"three")
    crew.brokers[1].kill()
    await crew.start(2, 3)
    await crew.until(lambda: crew.partition().leader == -1)
    assert await elect(crew, _UNCLEAN, by=2) == ErrorCode.NONE
    assert (crew.partition().leader, crew.partition().isr[0]) == (3, 3)
    assert await elect(crew, _UNCLEAN, by=2) == ErrorCode.ELECTION_NOT_NEEDED


@on_crew()
async def test_partitions_are_added_on_several_brokers_but_not_during_a_move(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2]})

    async def grow(count: int) -> int:
        topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic])
        return (await crew.ask(3, request, CreatePartitionsResponse)).results[0].error_code

    assert await grow(4) == ErrorCode.NONE
    assert all(len(one.replicas) == 2 for one in crew.image.topics["t"].partitions)
    crew.simulation.network.cut("broker-3", "broker-1")
    await move(crew, [3, 2])
    assert await grow(5) == ErrorCode.REASSIGNMENT_IN_PROGRESS


@on_crew()
async def test_every_broker_tells_of_all_of_them_and_of_dead_leaders(crew: Crew) -> None:
    await crew.create("alone", {0: [1]}, by=2)
    for number in (1, 2, 3):
        answer = await crew.ask(number, MetadataRequest(topics=None), MetadataResponse)
        assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
        assert answer.controller_id == crew.image.controller_id
    crew.brokers[1].kill()
    await crew.until(lambda: crew.partition("alone").leader == -1)
    answer = await crew.ask(2, MetadataRequest(topics=None), MetadataResponse)
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        [1],
    )


@on_crew()
async def test_a_rolling_restart_fails_no_send(crew: Crew) -> None:
    await crew.create(assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    sent, done = 0, False

    async def program(world: World) -> None:
        nonlocal sent
        servers = ",".join(broker.address for broker in crew.brokers.values())
        async with Producer(world=world, bootstrap_servers=servers, acks="all") as producer:
            while not done:
                await producer.send_and_wait("t", b"value", key=str(sent).encode())
                sent += 1
                await asyncio.sleep(0.005)

    task = crew.simulation.host("producer").start(program)
    for number in (1, 2, 3):
        await asyncio.sleep(0.5)
        await crew.brokers[number].stop()
        await crew.start(number)
        await crew.until(
            lambda: all(len(one.isr) == 3 for one in crew.image.topics["t"].partitions)
        )
    done = True
    await task
    assert sent > 100
