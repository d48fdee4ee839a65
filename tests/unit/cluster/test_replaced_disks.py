"""A disk that is replaced takes nothing from the replicas on other disks."""

import asyncio

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.unit.cluster.crew import Crew, on_crew
from tests.unit.cluster.test_lost_store import log_end, produce
from tests.unit.cluster.test_operations import elect

_UNCLEAN = 1


async def leave_alone(crew: Crew, *, min_insync: str = "1", unclean: str = "false") -> None:
    """Broker 1 is the last one in sync of a partition of which all three have 10 records, and it
    alone has one more (acknowledged, with `min.insync.replicas` of 1)."""
    await crew.create(min_insync_replicas=min_insync, unclean_leader_election_enable=unclean)
    for _ in range(10):
        await produce(crew, 1, 0, b"x")
    await crew.brokers[3].stop()
    await crew.brokers[2].stop()
    await crew.until(lambda: crew.partition().isr == (1,))
    if min_insync == "1":
        await produce(crew, 1, 0, b"alone")
        await crew.until(lambda: crew.partition().eligible == ())
    await crew.brokers[1].stop()


def replace_disk(crew: Crew, number: int = 1, under: str = "/") -> None:
    crew.brokers[number].host.disk.replace_by_empty(under)


@on_crew()
async def test_the_last_one_in_sync_comes_back_with_an_empty_disk_and_the_others_keep_theirs(
    crew: Crew,
) -> None:
    await leave_alone(crew)
    replace_disk(crew)
    await crew.start(1)
    await crew.start(2, 3)
    assert (crew.partition().leader, crew.partition().isr) == (-1, ())
    told = crew.simulation.trace.text()
    assert "log directories of this broker were replaced" in told
    assert "--election-type unclean --topic t --partition 0" in told
    # Describing it says who was in sync last.
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    described = await crew.ask(2, request, DescribeTopicPartitionsResponse)
    shown = described.topics[0].partitions[0]
    assert shown.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (shown.isr_nodes, shown.last_known_elr) == ([], [1])
    # The operator's way out.
    assert await elect(crew, _UNCLEAN) == 0
    assert crew.partition().leader in (2, 3)
    await crew.until(lambda: set(crew.partition().isr) == {1, 2, 3})
    assert crew.partition().last_known == ()
    assert await log_end(crew, crew.partition().leader, 0) == 10


@on_crew()
async def test_it_stays_offline_when_the_broker_starts_once_more(crew: Crew) -> None:
    await leave_alone(crew)
    replace_disk(crew)
    await crew.start(1)
    await crew.brokers[1].stop()
    await crew.start(1)
    crew.brokers[1].kill()
    await crew.start(1)
    assert (crew.partition().leader, crew.partition().isr) == (-1, ())


@on_crew()
async def test_with_min_insync_replicas_of_two_the_others_lead_and_nothing_is_lost(
    crew: Crew,
) -> None:
    await leave_alone(crew, min_insync="2")
    replace_disk(crew)
    await crew.start(1)
    await crew.start(2, 3)
    await crew.until(lambda: set(crew.partition().isr) == {1, 2, 3})
    assert crew.partition().leader in (2, 3)
    assert await log_end(crew, crew.partition().leader, 0) == 10


@on_crew()
async def test_unclean_election_waits_for_a_replica_that_has_something(crew: Crew) -> None:
    await leave_alone(crew, unclean="true")
    replace_disk(crew)
    await crew.start(1)
    assert crew.partition().leader == -1
    await crew.start(2)
    await crew.until(lambda: crew.partition().leader == 2)
    assert await log_end(crew, 2, 0) == 10


@on_crew()
async def test_the_old_disk_is_brought_back_and_nothing_was_lost(crew: Crew) -> None:
    await leave_alone(crew)
    disk = crew.brokers[1].host.disk
    disk.rename("/data", "/old")
    disk.sync_directory("/")
    await crew.start(1)
    await crew.start(2, 3)
    assert crew.partition().leader == -1
    await crew.brokers[1].stop()
    disk.rename("/data", "/new")
    disk.rename("/old", "/data")
    disk.sync_directory("/")
    await crew.start(1)
    await crew.until(lambda: set(crew.partition().isr) == {1, 2, 3})
    assert await log_end(crew, crew.partition().leader, 0) == 11


@pytest.mark.parametrize("replaced", ["/a", "/b"])
@on_crew(size=2, log_dirs="/a,/b")
async def test_one_of_several_directories_is_replaced_and_the_logs_in_the_others_lead(
    crew: Crew, replaced: str
) -> None:
    await crew.create("t", {index: [1, 2] for index in range(4)}, min_insync_replicas="1")
    for index in range(4):
        await produce(crew, 1, index, b"x")
    await crew.brokers[2].stop()
    for index in range(4):
        await crew.until(lambda index=index: crew.partition("t", index).isr == (1,))  # type: ignore[misc]
        await produce(crew, 1, index, b"alone")
        await crew.until(lambda index=index: crew.partition("t", index).eligible == ())  # type: ignore[misc]
    await crew.brokers[1].stop()
    disk = crew.brokers[1].host.disk
    lost = {int(name[2:]) for name in disk.list_directory(replaced) if name.startswith("t-")}
    assert 0 < len(lost) < 4
    replace_disk(crew, under=replaced)
    await crew.start(1)
    await crew.start(2)
    for index in range(4):
        if index in lost:
            assert crew.partition("t", index).leader == -1
        else:
            assert crew.partition("t", index).leader == 1
            assert await log_end(crew, 1, index) == 2


@on_crew(size=2)
async def test_a_sole_replica_restarts_empty_and_says_so(crew: Crew) -> None:
    await crew.create(assignment={0: [1]})
    await produce(crew, 1, 0, b"x")
    await crew.brokers[1].stop()
    replace_disk(crew)
    await crew.start(1)
    await crew.until(lambda: crew.partition().leader == 1)
    assert await log_end(crew, 1, 0) == 0
    assert "it is empty now, and what it held is lost" in crew.simulation.trace.text()


@on_crew()
async def test_a_directory_that_is_added_takes_nothing_offline(crew: Crew) -> None:
    await leave_alone(crew)
    crew.brokers[1].properties["log.dirs"] = "/data,/more"
    await crew.start(1)
    await crew.until(lambda: crew.partition().leader == 1)
    assert await log_end(crew, 1, 0) == 11
    assert "were replaced" not in crew.simulation.trace.text()


# A single directory is removed by hand


def remove_directory(crew: Crew, number: int = 1, name: str = "t-0") -> None:
    disk = crew.brokers[number].host.disk
    disk.remove_tree(f"/data/{name}")
    disk.sync_directory("/data")


@on_crew()
async def test_the_log_of_the_last_one_in_sync_was_removed_and_the_others_keep_theirs(
    crew: Crew,
) -> None:
    await leave_alone(crew)
    remove_directory(crew)
    await crew.start(1)
    await crew.start(2, 3)
    assert (crew.partition().leader, crew.partition().isr) == (-1, ())
    told = crew.simulation.trace.text()
    assert "the directories of 1 partition were removed by hand" in told
    assert "--election-type unclean --topic t --partition 0" in told
    # It is as well known at the next start.
    await crew.brokers[1].stop()
    await crew.start(1)
    assert (crew.partition().leader, crew.partition().isr) == (-1, ())
    assert await elect(crew, _UNCLEAN) == 0
    await crew.until(lambda: set(crew.partition().isr) == {1, 2, 3})
    assert await log_end(crew, crew.partition().leader, 0) == 10


@on_crew()
async def test_a_removed_directory_is_brought_back(crew: Crew) -> None:
    await leave_alone(crew)
    disk = crew.brokers[1].host.disk
    disk.rename("/data/t-0", "/t-0")
    await crew.start(1)
    await crew.start(2, 3)
    assert crew.partition().leader == -1
    await crew.brokers[1].stop()
    disk.remove_tree("/data/t-0")
    disk.rename("/t-0", "/data/t-0")
    await crew.start(1)
    await crew.until(lambda: set(crew.partition().isr) == {1, 2, 3})
    assert await log_end(crew, crew.partition().leader, 0) == 11


@on_crew(size=2)
async def test_a_replica_in_sync_whose_log_was_removed_does_not_lead(crew: Crew) -> None:
    """Both were in sync when both stopped, and it is the preferred leader: it would lead with an
    empty log, and the other one would empty its own."""
    await crew.create(assignment={0: [1, 2]})
    for _ in range(10):
        await produce(crew, 1, 0, b"x")
    await asyncio.sleep(60)  # A checkpoint has the high watermark.
    for broker in crew.brokers.values():
        broker.kill()
    remove_directory(crew)
    await crew.start(1)
    assert crew.partition().leader != 1
    await crew.start(2)
    await crew.until(lambda: set(crew.partition().isr) == {1, 2})
    assert await log_end(crew, crew.partition().leader, 0) == 10


@on_crew(size=2)
async def test_a_topic_that_was_made_again_is_not_taken_for_one_whose_log_was_removed(
    crew: Crew,
) -> None:
    await crew.create(assignment={0: [1]})
    await produce(crew, 1, 0, b"x")
    await crew.brokers[1].stop()
    await crew.start(1)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
    await crew.ask(1, deletion, DeleteTopicsResponse)
    # The checkpoint still has the deleted log, whose directory has another name now.
    crew.brokers[1].kill()
    await crew.start(1)
    await crew.create(assignment={0: [1]})
    await produce(crew, 1, 0, b"x")
    assert await log_end(crew, 1, 0) == 1
    assert "removed by hand" not in crew.simulation.trace.text()
