"""What `send` owes for a record: a future of its metadata, and perhaps a call of `on_delivery`."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from odradek.client.habits import explain
from odradek.protocol.types import Offset


class RecordMetadata(NamedTuple):
    """Where a record was written. The offset is -1 with acks=0, where brokers do not answer."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


OnDelivery = Callable[[RecordMetadata | None, BaseException | None], None]


def call_back(
    future: "asyncio.Future[RecordMetadata]",
    on_delivery: OnDelivery,
    metadata: RecordMetadata | None,
    error: BaseException | None,
) -> None:
    """Calls a program's function; what it raises goes to the loop's exception handler."""
    try:
        on_delivery(metadata, error)
    except Exception as fault:  # noqa: BLE001 - a fault of the user's must not stop other records
        explain(fault)
        future.get_loop().call_exception_handler(
            {"message": "a delivery callback raised", "exception": fault, "future": future}
        )


def future_factory(
    loop: asyncio.AbstractEventLoop,
) -> "Callable[[], asyncio.Future[RecordMetadata]]":
    """Returns `loop.create_future` without its call in Python, where it is asyncio's own."""
    if getattr(type(loop), "create_future", None) is asyncio.BaseEventLoop.create_future:
        return partial(asyncio.Future, loop=loop)
    return loop.create_future
