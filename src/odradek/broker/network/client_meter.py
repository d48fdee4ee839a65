"""Requests and bytes by client id, for a broker whose settings ask for it
(`odradek.metrics.max.client.ids`).

A client may choose any id, also a new one for each request, so the number of ids is limited: those
that come later are counted together, under an empty id.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_serving import Pending, Serve
from odradek.protocol.types import Buffer

if TYPE_CHECKING:
    from odradek.broker.network.connection import Connection

# Where a request has the length of its client id, behind API, version and correlation id.
_LENGTH_AT: Final = 8
_MAX_LENGTH: Final = 200
OTHERS: Final = ""


class ClientTraffic:
    """The counters of one client id."""

    __slots__ = ("request_bytes", "requests", "response_bytes")

    def __init__(self) -> None:
        self.requests = self.request_bytes = self.response_bytes = 0


class ClientMeter:
    """Connections call `serve` in place of the function that it is given."""

    def __init__(self, serve: Serve, max_ids: int) -> None:
        self._serve = serve
        self._max_ids = max_ids
        self.clients: dict[str, ClientTraffic] = {OTHERS: ClientTraffic()}
        # By the bytes of the id as they stand in a request.
        self._by_bytes: dict[bytes, ClientTraffic] = {}

    def serve(self, connection: "Connection", frame: Buffer) -> Parts | Pending | None:
        length = int.from_bytes(frame[_LENGTH_AT : _LENGTH_AT + 2], "big", signed=True)
        name = bytes(frame[_LENGTH_AT + 2 : _LENGTH_AT + 2 + max(length, 0)])
        counted = self._by_bytes.get(name) or self._find(name)
        counted.requests += 1
        counted.request_bytes += len(frame)
        reply = self._serve(connection, frame)
        if isinstance(reply, Pending):
            return _counting_later(reply, counted)
        _count(reply, counted)
        return reply

    def _find(self, name: bytes) -> ClientTraffic:
        if not 0 < len(name) <= _MAX_LENGTH or len(self._by_bytes) >= self._max_ids:
            return self.clients[OTHERS]
        text = name.decode(errors="replace")
        counted = self.clients.setdefault(text, ClientTraffic())
        self._by_bytes[name] = counted
        return counted


def _count(parts: Parts | None, counted: ClientTraffic) -> Parts | None:
    if parts is not None:
        counted.response_bytes += sum(map(len, parts))
    return parts


def _counting_later(pending: Pending, counted: ClientTraffic) -> Pending:
    encode = pending.encode

    def encoded(response: object) -> Parts | Awaitable[Parts | None] | None:
        parts = encode(response)
        if parts is None or isinstance(parts, list):
            return _count(parts, counted)
        return _counted_when_encoded(parts, counted)

    return Pending(pending.reply, encoded, pending.is_pipelined)


async def _counted_when_encoded(
    encoding: Awaitable[Parts | None], counted: ClientTraffic
) -> Parts | None:
    return _count(await encoding, counted)
