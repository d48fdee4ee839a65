"""The future that `send` returns for the delivery of a record."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.client.habits import FUTURE, answers

if TYPE_CHECKING:
    from odradek.client.producer.accumulator import RecordMetadata


@answers(FUTURE)
class Delivery(asyncio.Future["RecordMetadata"]):
    """A future that answers a program which awaits `send`, and forgets to await the delivery.

    It costs what asyncio's own futures cost: it has no attributes of its own.
    """

    __slots__ = ()


def delivery_maker(
    loop: asyncio.AbstractEventLoop,
) -> "Callable[[], asyncio.Future[RecordMetadata]]":
    """Returns the function that makes the futures of deliveries.

    A loop with futures of its own, as the simulation's, makes them itself.
    """
    if type(loop.create_future()) is asyncio.Future:
        return partial(Delivery, loop=loop)
    return loop.create_future
