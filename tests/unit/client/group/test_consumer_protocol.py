"""Consumers in groups by the new protocol (KIP-848), against a real broker in the simulation."""

import asyncio
import logging
import re

import pytest

from odradek.client.errors import CommitFailed
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from tests.unit.client.group.test_groups import Story, owned, poll_until, read
from tests.unit.client.group_cluster import GroupCluster, on_groups, with_groups

NEW = {"group_protocol": "consumer"}


@pytest.mark.parametrize("assignor", ["uniform", "range", None])
@on_groups()
async def test_members_share_and_take_over(cluster: GroupCluster, assignor: str | None) -> None:
    await cluster.client.create_topic("t", 4)
    await cluster.fill("t", 8, 4)
    story = Story()
    one = cluster.consumer(**NEW, group_remote_assignor=assignor)
    other = cluster.consumer(**NEW, group_remote_assignor=assignor)
    one.subscribe(["t"], listener=story)
    assert len(await read(one, 8)) == 8
    other.subscribe(["t"])
    await poll_until([one, other], lambda: len(owned(one)) == len(owned(other)) == 2)
    assert sorted(owned(one) + owned(other)) == [0, 1, 2, 3]
    told = dict(story.told)
    # Only what moved was given up, and it was committed on the way.
    assert len(told["revoked"]) == 2
    assert await other.poll(500) == {}
    await one.close()
    await poll_until([other], lambda: owned(other) == [0, 1, 2, 3])
    await cluster.fill("t", 4, 4)
    assert len(await read(other, 4)) == 4


@on_groups()
async def test_commits_and_their_epochs(cluster: GroupCluster) -> None:
    partition = TopicPartition("t", 0)
    await cluster.client.create_topic("t", 2)
    await cluster.fill("t", 10, 2)
    one = cluster.consumer(**NEW, enable_auto_commit=False)
    one.subscribe(["t"])
    await read(one, 10)
    await one.commit()
    assert one.group_metadata().generation_id > 0
    found = (await one.committed([partition]))[partition]
    assert found is not None
    assert found.offset == 5
    await one.close()
    again = cluster.consumer(**NEW)
    again.subscribe(["t"])
    await poll_until([again], lambda: len(owned(again)) == 2)
    assert await again.position(partition) == 5


def test_a_consumer_that_does_not_poll_is_out_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(cluster: GroupCluster) -> None:
        await cluster.client.create_topic("t", 2)
        await cluster.fill("t", 2, 2)
        story = Story()
        slow = cluster.consumer(**NEW, max_poll_interval_ms=6_000)
        slow.subscribe(["t"], listener=story)
        await read(slow, 2)
        quick = cluster.consumer(**NEW)
        quick.subscribe(["t"])
        await poll_until([quick], lambda: owned(quick) == [0, 1])
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
            await slow.commit()
        await poll_until([slow, quick], lambda: len(owned(slow)) == len(owned(quick)) == 1)
        assert ("lost", [0, 1]) in story.told

    logger = logging.getLogger("odradek.client")
    logger.addHandler(caplog.handler)
    try:
        with_groups(test)
    finally:
        logger.removeHandler(caplog.handler)
    said = [record.getMessage() for record in caplog.records]
    assert any("poll() was not called for max.poll.interval.ms=6000" in one for one in said)


@pytest.mark.parametrize("pattern", ["log-.*", re.compile(r"log-\w+")], ids=["broker", "client"])
@on_groups()
async def test_patterns_are_compared_by_the_broker_or_here(
    cluster: GroupCluster, pattern: "str | re.Pattern[str]"
) -> None:
    await cluster.client.create_topic("log-a")
    await cluster.client.create_topic("other")
    await cluster.fill("log-a", 3)
    consumer = cluster.consumer(**NEW, metadata_max_age_ms=1_000)
    consumer.subscribe(pattern=pattern)
    assert len(await read(consumer, 3)) == 3
    await cluster.client.create_topic("log-b", 2)
    await poll_until([consumer], lambda: len(consumer.assignment()) == 3, 120)


@on_groups()
async def test_a_static_member_keeps_its_partitions_across_a_restart(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t", 2)
    steady = cluster.consumer(**NEW, group_instance_id="steady")
    moving = cluster.consumer(**NEW, group_instance_id="moving")
    steady.subscribe(["t"])
    moving.subscribe(["t"])
    await poll_until([steady, moving], lambda: len(owned(steady)) == len(owned(moving)) == 1)
    before = owned(moving)
    await moving.close()
    back = cluster.consumer(**NEW, group_instance_id="moving")
    back.subscribe(["t"])
    await poll_until([steady, back], lambda: bool(owned(back)))
    assert owned(back) == before


@on_groups()
async def test_what_the_broker_refuses_is_raised_by_poll(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    consumer = cluster.consumer(**NEW, group_remote_assignor="astrology")
    consumer.subscribe(["t"])
    with pytest.raises(KafkaError) as raised:
        await poll_until([consumer], lambda: False, 10)
    assert raised.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR


@on_groups()
async def test_subscribing_anew_and_not_at_all(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("a")
    await cluster.client.create_topic("b")
    consumer = cluster.consumer(**NEW)
    consumer.subscribe(["a"])
    await poll_until([consumer], lambda: consumer.assignment() == [TopicPartition("a", 0)])
    consumer.subscribe(["b"])
    await poll_until([consumer], lambda: consumer.assignment() == [TopicPartition("b", 0)])
    await consumer.unsubscribe()
    assert consumer.assignment() == []
    await asyncio.sleep(1)
    consumer.subscribe(["a", "b"])
    await poll_until([consumer], lambda: len(consumer.assignment()) == 2)
