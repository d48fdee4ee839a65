"""Times requests from their arrival until the last byte of the response is sent.

The request log and the spans of slow requests (`broker.tracing`) use it. Each stands between the
connections and what serves them otherwise, and is told of each request when it is over.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from odradek.broker.dispatch import Dispatcher, Handle, Reply
from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts, Transferable
from odradek.broker.network.request_serving import Pending, Serve, Splitter, WrappedSplitter
from odradek.broker.services import Pipelined, RequestContext, Services
from odradek.protocol.apis import AnyApi, find_api
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import RequestHeader, decode_request_header
from odradek.protocol.schema import Request, Struct
from odradek.protocol.types import Buffer
from odradek.world import Clock

NO_ERROR: Final = "NONE"
_MAX_ERRORS: Final = 5

Report = Callable[["RequestTimes", str, float], None]
"""Is told of a request that is over: its times, the names of the errors in its response, and when
it was over."""


class RequestTimer:
    """Serves requests by `serve`, and tells `report` of each. It times nothing before `attach`."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock, serve: Serve, report: Report) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._serve = serve
        self._report = report
        # What the handler returned that serves the current frame.
        self._returned: object = None

    def listen(self, *, is_on: bool) -> None:
        """Looks at the responses of handlers from the next request on, or no longer."""
        self._dispatcher.listen_in(self, self._note_response if is_on else None)

    def attach(self, connection: Connection) -> None:
        splitter = TimedSplitter(connection.splitter, self._clock, connection.queued, self)
        connection.serve_by(self.serve, splitter)

    def detach(self, connection: Connection) -> None:
        """Undoes `attach`. It must have been the last one to attach to the connection."""
        splitter = connection.splitter
        if isinstance(splitter, TimedSplitter) and splitter.owner is self:
            connection.serve_by(self._serve, splitter.inner)

    def _splitter_of(self, connection: Connection) -> "TimedSplitter | None":
        """Returns the splitter that this timer attached. Another timer's may be around it."""
        splitter: Splitter = connection.splitter
        while isinstance(splitter, WrappedSplitter):
            if isinstance(splitter, TimedSplitter) and splitter.owner is self:
                return splitter
            splitter = splitter.inner
        return None

    def _note_response(self, _: AnyApi, handle: Handle) -> Handle:
        def noted(
            services: Services, context: RequestContext, request: Request
        ) -> Reply | Awaitable[Reply] | Pipelined:
            self._returned = returned = handle(services, context, request)
            return returned

        return noted

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        begun_s = self._clock.monotonic_s()
        splitter = self._splitter_of(connection)
        arrived_s = begun_s if splitter is None else splitter.take_arrival_s(begun_s)
        times = RequestTimes(
            self._clock,
            connection,
            frame,
            arrived_s=arrived_s,
            begun_s=begun_s,
            report=self._report,
        )
        self._returned = None
        try:
            reply = self._serve(connection, frame)
        except Exception as error:
            times.handled_s = times.answered_s = self._clock.monotonic_s()
            times.finish(type(error).__name__)
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


class TimedSplitter(WrappedSplitter):
    """A splitter that notes when each frame was complete."""

    __slots__ = ("_clock", "_times_s", "arrived_s", "owner")

    def __init__(self, inner: Splitter, clock: Clock, queued: int, owner: RequestTimer) -> None:
        super().__init__(inner)
        self._clock = clock
        self.owner = owner
        self.arrived_s = clock.monotonic_s()
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
        """Returns when the frame arrived that is served now. `arrived_s` is the same for those that
        ask later."""
        self.arrived_s = self._times_s.popleft() if self._times_s else now_s
        return self.arrived_s


class RequestTimes:
    """The times of one request. `handled_s` is when its handler had answered or had to wait, and
    `answered_s` when the wait was over. `frame` is the request, empty when records are sent."""

    __slots__ = (
        "_clock",
        "_report",
        "answered_s",
        "arrived_s",
        "begun_s",
        "connection",
        "frame",
        "handled_s",
        "header",
        "size",
    )

    def __init__(
        self,
        clock: Clock,
        connection: Connection,
        frame: Buffer,
        *,
        arrived_s: float,
        begun_s: float,
        report: Report,
    ) -> None:
        self._clock = clock
        self._report = report
        self.connection = connection
        self.frame = frame
        self.size = len(frame)
        self.header = _header(frame)
        self.arrived_s = arrived_s
        self.begun_s = begun_s
        self.handled_s = self.answered_s = begun_s

    @property
    def api(self) -> str:
        found = find_api(self.header.api_key)
        return str(self.header.api_key) if found is None else found.name

    @property
    def remote_s(self) -> float:
        """How long the handler waited for others."""
        return self.answered_s - self.handled_s

    async def awaited(self, reply: Awaitable[object]) -> object:
        try:
            return await reply
        except BaseException as error:
            # The client has closed the connection, or the handler failed: nothing will be sent.
            self.answered_s = self._clock.monotonic_s()
            is_closed = isinstance(error, asyncio.CancelledError)
            self.finish("DISCONNECTED" if is_closed else type(error).__name__)
            raise
        finally:
            self.answered_s = self._clock.monotonic_s()

    def sending(self, error: str, parts: Parts | None) -> Parts | None:
        """Called when the reply is encoded. The request is over when its last record is sent."""
        for number in range(len(parts or ()) - 1, -1, -1):
            assert parts is not None
            part = parts[number]
            if not isinstance(part, bytes):
                # A client may take its time to read them, and need not hold the request meanwhile.
                self.frame = b""
                parts[number] = NotifyingRecords(part, lambda: self.finish(error))
                return parts
        self.finish(error)
        return parts

    async def sending_later(self, error: str, encoding: Awaitable[Parts | None]) -> Parts | None:
        return self.sending(error, await encoding)

    def finish(self, error: str) -> None:
        self._report(self, error, self._clock.monotonic_s())


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

    def read_some(self, start: int, length: int) -> Buffer:
        return self._records.read_some(start, length)

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


def _errors(response: object) -> str:
    found = dict.fromkeys(error_codes(response))
    if not found:
        return NO_ERROR
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
