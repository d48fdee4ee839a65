"""A blocking call that a function needs while it runs on the event loop.

A serializer is called on the event loop for each record. Nearly always it has all it needs, and an
`await` for each record would cost more than the serializing. Once in a while it must ask a server
first. Then it raises `MustBlock`; its caller runs `call` in a thread, without holding up the loop,
and calls the function again with the same arguments:

    while True:
        try:
            return serialize(value)
        except MustBlock as waiting:
            await asyncio.to_thread(waiting.call)

`call` keeps its result for the repetition, and never raises: an error is kept too, and is raised by
the repetition. So a loop as above always ends.
"""

import asyncio
from collections.abc import Callable
from typing import Any


class MustBlock(Exception):
    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__("this function needs a blocking call first")
        self.call = call


def blocking(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function until it has what it needs, and blocks for that."""
    while True:
        try:
            return function(*arguments)
        except MustBlock as waiting:
            waiting.call()


async def without_blocking(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function until it has what it needs; a thread gets that."""
    while True:
        try:
            return function(*arguments)
        except MustBlock as waiting:
            await asyncio.to_thread(waiting.call)
