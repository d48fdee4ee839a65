"""Answers that go on: lines of JSON, and server-sent events.

A client that reads slowly costs no memory: the next piece is asked for when the connection has
taken the one before. A client that goes away ends the source, by cancellation.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from odradek.web.media import EVENTS

_KEEP_ALIVE: Final = b": still here\n\n"
_NO_BUFFERING: Final = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Proxies between must pass each event on at once."""


class TwoWayStream(StreamingResponse):
    """An answer that goes on while the request does, as in streaming produce.

    The content reads the request itself. A `StreamingResponse` would read it too, to notice that
    the client goes, and take pieces of the request away; here whoever reads the request notices.
    """

    def __init__(
        self, content: AsyncGenerator[bytes], media_type: str, held: AsyncExitStack | None = None
    ) -> None:
        """`held` is closed when the exchange is over."""
        super().__init__(content, media_type=media_type)
        self._content = content
        self._held = held or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            try:
                await self.stream_response(send)
            finally:
                await self._content.aclose()


class EventStream(Response):
    """Server-sent events, as `EventSource` in browsers and `curl -N` read them.

    A comment is sent after `keep_alive_s` without an event, so that a connection that was lost is
    noticed and proxies do not close it. However it ends, `events` is closed before the request is
    done: it may hold connections to brokers.
    """

    def __init__(self, events: AsyncGenerator[bytes], *, keep_alive_s: float = 15.0) -> None:
        super().__init__(None, 200, _NO_BUFFERING, EVENTS)
        del self.headers["content-length"]
        self._events = events
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        gone = asyncio.create_task(_until_gone(receive))
        waiting: asyncio.Task[bytes | None] | None = None
        try:
            await send(start)
            await send(_body(b": begin\n\n"))
            while True:
                if waiting is None:
                    waiting = asyncio.create_task(_next(self._events))
                both: list[asyncio.Future[Any]] = [waiting, gone]
                done, _ = await asyncio.wait(
                    both, timeout=self._keep_alive_s, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done:
                    return
                if not done:
                    await send(_body(_KEEP_ALIVE))
                    continue
                piece = waiting.result()
                waiting = None
                if piece is None:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
                await send(_body(piece))
        finally:
            gone.cancel()
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await self._events.aclose()


async def _next(events: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(events, None)


async def _until_gone(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(piece: bytes) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": True}


def event(data: bytes, *, name: str | None = None, id_: str | None = None) -> bytes:
    """Returns one event. `data` is one line, as JSON is that has no line breaks of its own."""
    before = b"" if name is None else b"event: %s\n" % name.encode()
    if id_ is not None:
        before += b"id: %s\n" % id_.encode()
    return before + b"data: %s\n\n" % data
