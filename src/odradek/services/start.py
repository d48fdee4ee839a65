"""The start of a service that keeps its state in topics: it waits until the brokers answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.client.errors import ClientError, is_retriable
from odradek.protocol.errors import KafkaError

Say = Callable[[str], Any]
"""Tells whoever started the service what it waits for."""
_RETRY_S: Final = 0.3
_SAY_EVERY_S: Final = 5.0


class CannotStart(Exception):
    """The service cannot start; the message says what to do."""


async def when_brokers_answer(
    prepare: Callable[[], Awaitable[None]], servers: object, patience_s: float, say: Say
) -> None:
    """Calls `prepare` until it succeeds. An error that cannot pass, and any error once `patience_s`
    is over, is a `CannotStart` with the address of the brokers."""
    loop = asyncio.get_running_loop()
    said_s = loop.time()
    deadline_s = said_s + patience_s
    while True:
        try:
            return await prepare()
        except (ClientError, KafkaError) as error:
            now_s = loop.time()
            may_pass = is_retriable(error) or not isinstance(error, KafkaError)
            if now_s > deadline_s or not may_pass:
                raise CannotStart(f"the brokers at {servers}: {error}") from None
            if now_s - said_s > _SAY_EVERY_S:
                said_s = now_s
                say(f"waiting for the brokers at {servers}: {error}")
        await asyncio.sleep(_RETRY_S)
