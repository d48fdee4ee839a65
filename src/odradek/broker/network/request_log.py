"""The request log: at level DEBUG a line for each request, with its client and its times.

    api=Fetch version=17 correlation=8 client=rdkafka connection=127.0.0.1:50414 listener=PLAINTEXT
    principal=User:ANONYMOUS request_bytes=98 queue_ms=0.011 local_ms=0.215 remote_ms=499.902
    send_ms=0.078 total_ms=500.206 error=NONE

(in one line). `queue_ms` is the time from the arrival of the complete request to the call of its
handler. `local_ms` is the time until the handler has answered or has to wait. `remote_ms` is that
wait: for replicas, for new records, for the members of a group. `send_ms` is the time from the
answer until the last byte has been sent: it waits behind earlier replies, is encoded, and the
client has to read it. `error` names the errors in the response, each once. DISCONNECTED means that
the client closed the connection before it was answered.

Of many requests a sample is enough: `odradek.logs.request.sample.every` and `.slow.ms` say which
requests are written. All are timed while the log is on, because nobody knows before its end whether
a request is slow or fails.

Invariant: while the log is off, no request passes through this module.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from odradek.broker.dispatch import Dispatcher, Handle, Reply
from odradek.broker.network.connection import Connection
from odradek.broker.network.connections import Connections
from odradek.broker.network.reply_writer import Parts, Transferable
from odradek.broker.network.request_serving import Pending, Serve, Splitter, WrappedSplitter
from odradek.broker.services import Pipelined, RequestContext, Services
from odradek.protocol.apis import AnyApi, find_api
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import RequestHeader, decode_request_header
from odradek.protocol.schema import Request, Struct
from odradek.protocol.types import Buffer
from odradek.telemetry import logs
from odradek.world import Clock

logger = logging.getLogger(logs.REQUESTS)

_MAX_ERRORS: Final = 5
# The golden ratio as a fraction of 2^32 (Knuth's multiplicative hash).
_SPREAD: Final = 2_654_435_769
_MASK: Final = 2**32 - 1


class RequestLog:
    """Puts itself between the connections and the dispatcher while the logger's level is DEBUG.

    The server tells it of each new connection (`follow`). It hears of changes of the level, and
    then attaches to all open connections or leaves them."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        connections: Connections,
        clock: Clock,
        serve: Serve | None = None,
    ) -> None:
        """`serve` is what connections call while the log is off: the dispatcher, or what stands
        between it and the connections (`broker.network.request_meter`)."""
        self._dispatcher = dispatcher
        self._serve_unlogged = serve or dispatcher.serve
        self._connections = connections
        self._clock = clock
        self._is_on = False
        # How many requests were served while the log was on.
        self._count = 0
        # What the handler returned that serves the current frame.
        self._returned: object = None
        self._unsubscribe = logs.subscribe(self._level_changed)
        self._level_changed()

    def close(self) -> None:
        self._unsubscribe()

    def follow(self, connection: Connection) -> None:
        """Called for each new connection."""
        if self._is_on:
            self._attach(connection)

    def _level_changed(self) -> None:
        """Looks at the level once after each change, and not once a request."""
        is_on = logger.isEnabledFor(logging.DEBUG)
        if is_on == self._is_on:
            return
        self._is_on = is_on
        self._dispatcher.listen_in(self, self._note_response if is_on else None)
        for connection in self._connections.open:
            if is_on:
                self._attach(connection)
            elif isinstance(connection.splitter, _TimedSplitter):
                connection.serve_by(self._serve_unlogged, connection.splitter.inner)

    def _attach(self, connection: Connection) -> None:
        splitter = _TimedSplitter(connection.splitter, self._clock, connection.queued)
        connection.serve_by(self._serve, splitter)

    def _note_response(self, _: AnyApi, handle: Handle) -> Handle:
        def noted(
            services: Services, context: RequestContext, request: Request
        ) -> Reply | Awaitable[Reply] | Pipelined:
            self._returned = returned = handle(services, context, request)
            return returned

        return noted

    def _serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        begun_s = self._clock.monotonic_s()
        splitter = connection.splitter
        arrived_s = (
            splitter.take_arrival_s(begun_s) if isinstance(splitter, _TimedSplitter) else begun_s
        )
        times = _RequestTimes(
            self._clock, connection, frame, arrived_s, begun_s, least_own_ms=self._least_own_ms()
        )
        self._returned = None
        try:
            reply = self._serve_unlogged(connection, frame)
        except Exception as error:
            times.handled_s = times.answered_s = self._clock.monotonic_s()
            times.log(type(error).__name__)
            raise
        times.handled_s = times.answered_s = self._clock.monotonic_s()
        if not isinstance(reply, Pending):
            return times.sending(_errors(self._returned), reply)
        encode = reply.encode

        def encoded(response: object) -> Parts | Awaitable[Parts | None] | None:
            # Before a large response is encoded: its elements are freed afterwards.
            error = _errors(response)
            parts = encode(response)
            if parts is None or isinstance(parts, list):
                return times.sending(error, parts)
            return times.sending_later(error, parts)

        return Pending(times.awaited(reply.reply), encoded, reply.is_pipelined)

    def _least_own_ms(self) -> float:
        """Returns from which duration on the next request is written: 0 if it is one of the
        sample."""
        settings = self._dispatcher.settings.broker
        every = settings.odradek_logs_request_sample_every
        self._count += 1
        # Spread by a multiplication instead of taking each n-th: a client that produces and fetches
        # by turns would else be seen with one of both only.
        if every == 1 or (self._count * _SPREAD & _MASK) * every <= _MASK:
            return 0.0
        slow_ms = settings.odradek_logs_request_slow_ms
        return float(slow_ms) if slow_ms >= 0 else math.inf


class _TimedSplitter(WrappedSplitter):
    """A splitter that notes when each frame was complete."""

    __slots__ = ("_clock", "_times_s")

    def __init__(self, inner: Splitter, clock: Clock, queued: int) -> None:
        super().__init__(inner)
        self._clock = clock
        # Frames are served in the order of their arrival.
        self._times_s = deque([clock.monotonic_s()] * queued)

    def clear(self) -> None:
        self.inner.clear()
        self._times_s.clear()

    def feed(self, chunk: bytes) -> list[Buffer]:
        frames = self.inner.feed(chunk)
        self._times_s.extend([self._clock.monotonic_s()] * len(frames))
        return frames

    def take_arrival_s(self, now_s: float) -> float:
        """Returns when the frame arrived that is served now."""
        return self._times_s.popleft() if self._times_s else now_s


class _RequestTimes:
    """The times of one request, from its arrival to its line in the log."""

    __slots__ = (
        "_arrived_s",
        "_begun_s",
        "_clock",
        "_connection",
        "_header",
        "_least_own_ms",
        "_size",
        "answered_s",
        "handled_s",
    )

    def __init__(
        self,
        clock: Clock,
        connection: Connection,
        frame: Buffer,
        arrived_s: float,
        begun_s: float,
        *,
        least_own_ms: float,
    ) -> None:
        self._clock = clock
        self._connection = connection
        self._header = _header(frame)
        self._size = len(frame)
        self._arrived_s = arrived_s
        self._begun_s = begun_s
        self._least_own_ms = least_own_ms
        self.handled_s = self.answered_s = begun_s

    async def awaited(self, reply: Awaitable[object]) -> object:
        try:
            return await reply
        except BaseException as error:
            # The client has closed the connection, or the handler failed: nothing will be sent.
            self.answered_s = self._clock.monotonic_s()
            is_closed = isinstance(error, asyncio.CancelledError)
            self.log("DISCONNECTED" if is_closed else type(error).__name__)
            raise
        finally:
            self.answered_s = self._clock.monotonic_s()

    def sending(self, error: str, parts: Parts | None) -> Parts | None:
        """Called when the reply is encoded. The line is written when its last record is sent."""
        for number in range(len(parts or ()) - 1, -1, -1):
            assert parts is not None
            part = parts[number]
            if not isinstance(part, bytes):
                parts[number] = NotifyingRecords(part, lambda: self.log(error))
                return parts
        self.log(error)
        return parts

    async def sending_later(self, error: str, encoding: Awaitable[Parts | None]) -> Parts | None:
        return self.sending(error, await encoding)

    def log(self, error: str) -> None:
        connection, now_s = self._connection, self._clock.monotonic_s()
        remote_s = self.answered_s - self.handled_s
        own_ms = 1000 * (now_s - self._arrived_s - remote_s)
        if error == "NONE" and own_ms < self._least_own_ms:
            return
        header = self._header
        found = find_api(header.api_key)
        api = str(header.api_key) if found is None else found.name
        logger.debug(
            "api=%s version=%d correlation=%d client=%s connection=%s:%d listener=%s principal=%s"
            " request_bytes=%d queue_ms=%.3f local_ms=%.3f remote_ms=%.3f send_ms=%.3f"
            " total_ms=%.3f error=%s",
            api,
            header.api_version,
            header.correlation_id,
            _word(header.client_id),
            connection.address,
            connection.port,
            connection.listener,
            _word(str(connection.principal)),
            self._size,
            1000 * (self._begun_s - self._arrived_s),
            1000 * (self.handled_s - self._begun_s),
            1000 * remote_s,
            1000 * (now_s - self.answered_s),
            1000 * (now_s - self._arrived_s),
            error,
        )


class NotifyingRecords:
    """Records of a reply that call back when they have been sent or are released."""

    __slots__ = ("_records", "_released")

    def __init__(self, records: Transferable, released: Callable[[], None]) -> None:
        self._records = records
        self._released = released

    def __len__(self) -> int:
        return len(self._records)

    def read(self, start: int, length: int) -> bytes:
        return self._records.read(start, length)

    def send(self, descriptor: int, start: int, length: int) -> int:
        return self._records.send(descriptor, start, length)

    def release(self) -> None:
        self._records.release()
        self._released()


def _header(frame: Buffer) -> RequestHeader:
    try:
        return decode_request_header(frame)[0]
    except MalformedMessage:
        return RequestHeader(-1, -1, -1, None)


def _word(text: str | None) -> str:
    """Returns text of the client in a form that is one word of the line."""
    if text is None:
        return "-"
    return text if text.isprintable() and " " not in text and text else repr(text)


def _errors(response: object) -> str:
    found = dict.fromkeys(error_codes(response))
    if not found:
        return "NONE"
    names = [ErrorCode(code).name if code in _KNOWN else str(code) for code in found]
    more = f"+{len(names) - _MAX_ERRORS}" if len(names) > _MAX_ERRORS else ""
    return ",".join(names[:_MAX_ERRORS]) + more


_KNOWN: Final = frozenset(map(int, ErrorCode))


def error_codes(value: object) -> Iterator[int]:
    """Returns the error codes in a response other than NONE, one after the other."""
    if isinstance(value, list):
        for element in value:
            # All elements of a list have one type: numbers, strings and bytes contain no errors.
            if not isinstance(element, Struct):
                return
            yield from error_codes(element)
    elif isinstance(value, Struct):
        for field in type(value).fields:
            inner = getattr(value, field.name)
            if field.name == "error_code":
                if inner:
                    yield inner
            elif isinstance(inner, list | Struct):
                yield from error_codes(inner)
