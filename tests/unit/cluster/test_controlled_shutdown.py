"""A broker that stops keeps no leadership that another replica in sync could take over."""

import asyncio
import logging

import pytest

from odradek.broker.leadership_handover import hand_over_leadership
from odradek.cluster.controlled_shutdown import hand_over
from odradek.cluster.topics import NewTopic
from odradek.config import BrokerSettings
from odradek.metadata.image import TopicImage
from odradek.protocol.types import BrokerId
from tests.unit.cluster.racing import Broker, Pair

FIRST, SECOND, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)


async def _stop(broker: Broker, fetching: asyncio.Task[None]) -> None:
    number = BrokerId(broker.number)
    await hand_over_leadership(BrokerSettings(), broker.images, number, [fetching])


async def _pair(assignment: dict[int, list[BrokerId]]) -> Pair:
    pair = Pair()
    await pair.prepare()
    await pair.second.topics.create(NewTopic("more", assignment=assignment))
    await pair.first.images.catch_up()
    return pair


async def test_a_partition_that_a_broker_gets_while_it_stops_is_handed_on() -> None:
    """The second broker stops at the same time. It hands its partition over when the first has
    handed its own over already, and is still in sync."""
    pair = await _pair({0: [SECOND, FIRST, THIRD]})

    async def fetch() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await hand_over(pair.second.images, SECOND)

    fetching = asyncio.create_task(fetch())
    await asyncio.sleep(0)
    await _stop(pair.first, fetching)

    partition = pair.image.partition("more", 0)
    assert partition is not None
    assert partition.leader == THIRD
    assert partition.isr == (THIRD,)


async def test_what_nobody_can_take_over_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    pair = await _pair({0: [FIRST]})

    async def fetch() -> None:
        await asyncio.get_running_loop().create_future()

    await _stop(pair.first, asyncio.create_task(fetch()))

    led = {topic.name: [one.leader for one in topic.partitions] for topic in _topics(pair)}
    assert led == {"t": [SECOND, SECOND], "more": [FIRST]}
    said = [record.getMessage() for record in caplog.records]
    assert said == ["1 partition has no other replica in sync: no leader until broker 1 is back"]


def _topics(pair: Pair) -> list[TopicImage]:
    return list(pair.image.topics.values())
