"""Counts requests and their errors, and measures where their time goes.

It stands between the connections and the dispatcher, like the request log, and only in a broker
with a management port. Everything is counted. Times are measured for at most five hundred requests
of an API each second, the first of every two milliseconds: so measuring costs half a percent of the
processor at most, however many requests come.

    queue            from the arrival of the whole request until its handler is called
    local            until the handler has answered or has to wait
    remote           the wait: for replicas, for new records, for the members of a group
    response queue   until earlier responses of the connection are out of the way
    send             until the response is encoded and its last byte handed to the operating system
"""

from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Final

from odradek.broker.dispatch import Dispatcher, Handle, Reply
from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_log import NotifyingRecords, error_codes
from odradek.broker.network.request_serving import Encode, Pending, Splitter, WrappedSplitter
from odradek.broker.network.traffic import Traffic
from odradek.broker.services import Encoded, Pipelined, RequestContext, Services
from odradek.protocol.apis import AnyApi, find_api
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Buffer
from odradek.telemetry.recent import RecentValues
from odradek.world import Clock

# The shortest time between two requests of an API that are measured.
_MEASURED_EVERY_S: Final = 0.002
# What a handler returns that need not wait; None for a request with acks=0.
_ANSWERS: Final = (Response, Encoded, type(None))
# How many error codes of a response are looked for: a response may have tens of thousands.
_MAX_ERRORS: Final = 1000


class ApiTimes:
    """The distributions of one API, in microseconds and bytes, and the errors that it answered."""

    __slots__ = (
        "due_s",
        "errors",
        "local",
        "name",
        "queue",
        "remote",
        "responding",
        "send",
        "size",
        "successes",
        "total",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.due_s = 0.0
        self.errors: dict[int, int] = {}
        self.successes = 0  # Responses without an error.
        self.queue, self.local, self.remote = RecentValues(), RecentValues(), RecentValues()
        self.responding, self.send, self.total = RecentValues(), RecentValues(), RecentValues()
        self.size = RecentValues()

    def count_errors(self, codes: list[int]) -> None:
        for code in codes:
            self.errors[code] = self.errors.get(code, 0) + 1


class _Kind:
    """The requests of one API in one version."""

    __slots__ = ("count", "times", "version")

    def __init__(self, times: ApiTimes, version: int) -> None:
        self.times = times
        self.version = version
        self.count = 0


class RequestMeter:
    """The connections call `serve` in place of the dispatcher's; the server calls `follow` for each
    new connection."""

    def __init__(self, dispatcher: Dispatcher, traffic: Traffic, clock: Clock) -> None:
        self._dispatch = dispatcher.serve
        self._traffic = traffic
        self._monotonic_s = clock.monotonic_s
        # By the first four bytes of a request: the keys of its API and its version.
        self._kinds: dict[bytes, _Kind] = {}
        self._unknown = _Kind(ApiTimes("Unknown"), -1)
        self.times: dict[str, ApiTimes] = {}
        self._times_by_key: dict[int, ApiTimes] = {}
        # While a request is served: the request, if its handler has to wait.
        self._is_serving = False
        self._unanswered: list[Request] = []
        dispatcher.listen_in(self, self._note_response)

    # What the server calls

    def follow(self, connection: Connection) -> None:
        connection.serve_by(self.serve, _ArrivalSplitter(connection.splitter, self._monotonic_s))

    def close(self) -> None:
        """Called when the server closes: there is nothing to end."""

    # What the collector asks

    def requests(self) -> Iterator[tuple[str, int, int]]:
        """Returns the number of requests by the API's name and version."""
        for kind in (*self._kinds.values(), self._unknown):
            if kind.count:
                yield kind.times.name, kind.version, kind.count

    # Serving

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        head = frame[:4]
        if not isinstance(head, bytes):
            head = bytes(head)
        kind = self._kinds.get(head) or self._find(head)
        kind.count += 1
        if connection.active_s >= kind.times.due_s:
            return self._serve_measured(connection, frame, kind.times)
        unanswered = self._unanswered
        unanswered.clear()
        self._is_serving = True
        try:
            reply = self._dispatch(connection, frame)
        finally:
            self._is_serving = False
        return self._count_later(reply) if unanswered else reply

    def _serve_measured(
        self, connection: Connection, frame: Buffer, times: ApiTimes
    ) -> Parts | Pending | None:
        times.due_s = connection.active_s + _MEASURED_EVERY_S
        measured = _Measured(times, self._monotonic_s)
        times.size.observe(len(frame), measured.begun_s)
        splitter = connection.splitter
        measured.arrived_s = getattr(splitter, "arrived_s", measured.begun_s)
        unanswered = self._unanswered
        unanswered.clear()
        self._is_serving = True
        try:
            reply = self._dispatch(connection, frame)
        finally:
            self._is_serving = False
        measured.handled_s = measured.answered_s = self._monotonic_s()
        if unanswered:
            reply = self._count_later(reply)
        if not isinstance(reply, Pending):
            return measured.encoded(reply)
        return Pending(
            measured.awaited(reply.reply), measured.encoding(reply.encode), reply.is_pipelined
        )

    def _count_later(self, reply: Parts | Pending | None) -> Parts | Pending | None:
        """Counts the response of a handler that waits, when it is encoded."""
        request = self._unanswered.pop()
        if not isinstance(reply, Pending):
            return reply
        encode = reply.encode

        def encoded(response: object) -> Parts | Awaitable[Parts | None] | None:
            self._count(request, response)
            return encode(response)

        return Pending(reply.reply, encoded, reply.is_pipelined)

    def _find(self, head: bytes) -> _Kind:
        """Returns the kind of a request that is the first of its version. Requests that are not
        served, which anybody can send in any number, are one kind."""
        api = find_api(int.from_bytes(head[:2], "big"))
        version = int.from_bytes(head[2:4], "big")
        if api is None or not api.min_version <= version <= api.max_version:
            return self._unknown
        times = self._times_of(api)
        return self._kinds.setdefault(head, _Kind(times, version))

    def _note_response(self, api: AnyApi, handle: Handle) -> Handle:
        """Wraps a handler, so that its response is counted."""
        times = self._times_of(api)
        produced = self._traffic.produced

        def noted(
            services: Services, context: RequestContext, request: Request
        ) -> Reply | Awaitable[Reply] | Pipelined:
            returned = handle(services, context, request)
            # First what comes most often: the others take two calls more.
            if isinstance(returned, ProduceResponse) and isinstance(request, ProduceRequest):
                codes = produced(request, returned)
                if codes:
                    times.count_errors(codes)
                else:
                    times.successes += 1
                return returned
            return self._note_other(request, returned)

        return noted

    def _note_other(
        self, request: Request, returned: Reply | Awaitable[Reply] | Pipelined
    ) -> Reply | Awaitable[Reply] | Pipelined:
        if isinstance(returned, _ANSWERS):
            self._count(request, returned)
            return returned
        if self._is_serving:
            self._unanswered.append(request)
            return returned
        # A large request, whose handler is called when it is decoded.
        waiting = returned.response if isinstance(returned, Pipelined) else returned
        return self._counted(request, waiting)

    def _times_of(self, api: AnyApi) -> ApiTimes:
        times = self.times.setdefault(api.name, ApiTimes(api.name))
        return self._times_by_key.setdefault(api.key, times)

    async def _counted(self, request: Request, reply: Awaitable[Reply]) -> Reply:
        response = await reply
        self._count(request, response)
        return response

    def _count(self, request: Request, response: object) -> None:
        times = self._times_by_key.get(request.api_key)
        if times is None:
            return
        codes: list[int] = []
        if isinstance(request, ProduceRequest):
            answer = response if isinstance(response, ProduceResponse) else None
            codes = self._traffic.produced(request, answer)
        else:
            if isinstance(response, Encoded):
                response = response.head
            if isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
                codes = self._traffic.fetched(request, response)
            else:
                codes = list(islice(error_codes(response), _MAX_ERRORS))
        if codes:
            times.count_errors(codes)
        else:
            times.successes += 1


class _ArrivalSplitter(WrappedSplitter):
    """A splitter that notes when the frames arrived that wait or are served: a connection receives
    nothing more while frames wait."""

    __slots__ = ("_feed", "_monotonic_s", "arrived_s")

    def __init__(self, inner: Splitter, monotonic_s: Callable[[], float]) -> None:
        super().__init__(inner)
        self._feed = inner.feed
        self._monotonic_s = monotonic_s
        self.arrived_s = monotonic_s()

    def feed(self, chunk: bytes) -> list[Buffer]:
        self.arrived_s = self._monotonic_s()
        return self._feed(chunk)


class _Measured:
    """The times of one request that is measured."""

    __slots__ = ("_monotonic_s", "_times", "answered_s", "arrived_s", "begun_s", "handled_s")

    def __init__(self, times: ApiTimes, monotonic_s: Callable[[], float]) -> None:
        self._times = times
        self._monotonic_s = monotonic_s
        self.begun_s = monotonic_s()
        self.arrived_s = self.handled_s = self.answered_s = self.begun_s

    async def awaited(self, reply: Awaitable[object]) -> object:
        try:
            return await reply
        finally:
            self.answered_s = self._monotonic_s()

    def encoding(self, encode: Encode) -> Encode:
        def encoded(response: object) -> Parts | Awaitable[Parts | None] | None:
            queued_s = self._monotonic_s()
            parts = encode(response)
            if parts is None or isinstance(parts, list):
                return self.encoded(parts, queued_s)
            return self._encoded_later(parts, queued_s)

        return encoded

    async def _encoded_later(
        self, encoding: Awaitable[Parts | None], queued_s: float
    ) -> Parts | None:
        return self.encoded(await encoding, queued_s)

    def encoded(self, parts: Parts | None, queued_s: float | None = None) -> Parts | None:
        """Called when the response is encoded. Its records are sent later, some at a time."""
        respond_s = self.answered_s if queued_s is None else queued_s
        for number in range(len(parts or ()) - 1, -1, -1):
            assert parts is not None
            part = parts[number]
            if not isinstance(part, bytes):
                parts[number] = NotifyingRecords(part, lambda: self._sent(respond_s))
                return parts
        self._sent(respond_s)
        return parts

    def _sent(self, respond_s: float) -> None:
        now_s = self._monotonic_s()
        times = self._times
        times.queue.observe(_microseconds(self.arrived_s, self.begun_s), now_s)
        times.local.observe(_microseconds(self.begun_s, self.handled_s), now_s)
        times.remote.observe(_microseconds(self.handled_s, self.answered_s), now_s)
        times.responding.observe(_microseconds(self.answered_s, respond_s), now_s)
        times.send.observe(_microseconds(respond_s, now_s), now_s)
        times.total.observe(_microseconds(self.arrived_s, now_s), now_s)


def _microseconds(begin_s: float, end_s: float) -> int:
    return int((end_s - begin_s) * 1e6) if end_s > begin_s else 0
