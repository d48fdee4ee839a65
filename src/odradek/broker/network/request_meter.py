"""Counts requests and their errors, and measures where their time goes.

Only in a broker with a management port. It wraps the handlers, where it counts every request: that
is one call more for each, so a plain attribute is all that it touches.

Times are measured for a sample. A request is measured if the one before it, on the same connection,
found that its API was due: at most once in five milliseconds for each API. The first request of a
connection is measured too. So a client that sends now and then has all its requests measured, and
of busy ones each API has about two hundred a second, which cost a quarter percent of the processor.
Only for these is there a function between the connection and the dispatcher (`serve`).

    queue            from the arrival of the whole request until its handler is called
    local            until the handler has answered or has to wait
    remote           the wait: for replicas, for new records, for the members of a group
    response queue   until earlier responses of the connection are out of the way
    send             until the response is encoded and its last byte handed to the operating system
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from typing import Final, cast

from odradek.broker.dispatch import Dispatcher, Handle, Reply
from odradek.broker.network.client_meter import ClientMeter, ClientTraffic
from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_serving import Encode, Pending, Serve
from odradek.broker.network.request_timing import NotifyingRecords, error_codes
from odradek.broker.network.traffic import COUNT_AT, Traffic, unpack_count
from odradek.broker.services import Encoded, Pipelined, RequestContext, Services
from odradek.protocol.apis import AnyApi
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Buffer
from odradek.telemetry.recent import RecentValues
from odradek.world import Clock

# The shortest time between two requests of an API that are measured.
_MEASURED_EVERY_S: Final = 0.005
# What a handler returns that need not wait; None for a request with acks=0.
_ANSWERS: Final = (Response, Encoded, type(None))
# How many error codes of a response are looked for: a response may have tens of thousands.
_MAX_ERRORS: Final = 1000


class ApiTimes:
    """The requests of one API by version, the errors that it answered, and the distributions of
    times and sizes, in microseconds and bytes."""

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
        "versions",
    )

    def __init__(self, api: AnyApi) -> None:
        self.name = api.name
        self.versions = [0] * (api.max_version + 1)
        self.due_s = 0.0
        self.errors: dict[int, int] = {}
        self.successes = 0  # Responses without an error.
        self.queue, self.local, self.remote = RecentValues(), RecentValues(), RecentValues()
        self.responding, self.send, self.total = RecentValues(), RecentValues(), RecentValues()
        self.size = RecentValues()

    def count_errors(self, codes: list[int]) -> None:
        for code in codes:
            self.errors[code] = self.errors.get(code, 0) + 1


class RequestMeter:
    """The server calls `follow` for each new connection, and the request log `serve` while it is
    on."""

    def __init__(
        self, dispatcher: Dispatcher, traffic: Traffic, clock: Clock, max_client_ids: int = 0
    ) -> None:
        """`max_client_ids` is how many clients are counted by their id."""
        self._dispatcher = dispatcher
        self._traffic = traffic
        self._monotonic_s = clock.monotonic_s
        self.times: dict[str, ApiTimes] = {}
        self._times_by_key: dict[int, ApiTimes] = {}
        self.clients: Mapping[str, ClientTraffic] = {}
        self._serve_unmeasured: Serve = dispatcher.serve
        if max_client_ids:
            client_meter = ClientMeter(dispatcher.serve, max_client_ids)
            self.clients = client_meter.clients
            self._serve_unmeasured = client_meter.serve
        dispatcher.note = self._count
        dispatcher.listen_in(self, self._note_response)

    # What the server calls

    def follow(self, connection: Connection) -> None:
        connection.arrival_clock = self._monotonic_s
        connection.serve_by(self.serve, connection.splitter)

    def close(self) -> None:
        """Called when the server closes: there is nothing to end."""

    # What the collector asks

    def requests(self) -> Iterator[tuple[str, int, int]]:
        """Returns the number of requests by the API's name and version. Requests that are not
        served, which anybody can send in any number, are one kind."""
        for times in self.times.values():
            for version, count in enumerate(times.versions):
                if count:
                    yield times.name, version, count
        if self._dispatcher.unserved:
            yield "Unknown", -1, self._dispatcher.unserved

    # Counting

    def _note_response(self, api: AnyApi, handle: Handle) -> Handle:
        """Wraps a handler, so that its request and response are counted."""
        times = self._times_of(api)
        versions, traffic = times.versions, self._traffic
        topics, by_id = traffic.topics, traffic.by_id

        def noted(
            services: Services, context: RequestContext, request: Request
        ) -> Reply | Awaitable[Reply] | Pipelined:
            versions[context.version] += 1
            if context.connection.active_s >= times.due_s:
                self._measure_next(context.connection, times)
            returned = handle(services, context, request)
            if isinstance(returned, _ANSWERS):
                self._count(request, returned)
            return returned

        def noted_produce(
            services: Services, context: RequestContext, request: Request
        ) -> Reply | Awaitable[Reply] | Pipelined:
            """Does the same. Records that were appended to one partition, which is what most
            requests are, are counted here: a further call would take as long as all the rest."""
            versions[context.version] += 1
            if context.connection.active_s >= times.due_s:
                self._measure_next(context.connection, times)
            returned = handle(services, context, request)
            if returned.__class__ is ProduceResponse:
                written = cast("ProduceRequest", request).topic_data
                if len(written) == 1 and len(written[0].partition_data) == 1:
                    topic = written[0]
                    counted = topics.get(topic.name) or by_id.get(topic.topic_id)
                    records = topic.partition_data[0].records
                    answer = returned.responses[0].partition_responses[0]
                    if counted is not None and records and not answer.error_code:
                        times.successes += 1
                        counted.produces += 1
                        counted.bytes_in += len(records)
                        counted.messages_in += unpack_count(records, COUNT_AT)[0]
                        return returned
                self._count(request, returned)
            elif isinstance(returned, _ANSWERS):
                self._count(request, returned)
            return returned

        return noted_produce if api.key == ProduceRequest.api_key else noted

    def _times_of(self, api: AnyApi) -> ApiTimes:
        times = self._times_by_key.get(api.key)
        if times is None:
            times = self._times_by_key[api.key] = self.times[api.name] = ApiTimes(api)
        return times

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

    # Measuring

    def _measure_next(self, connection: Connection, times: ApiTimes) -> None:
        """Lets the next request of a connection be measured."""
        times.due_s = connection.active_s + _MEASURED_EVERY_S
        connection.exchange_serve(self._serve_unmeasured, self.serve)

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        """Serves a request and measures it. The next one of the connection is not measured, unless
        the handler finds that its API is due."""
        connection.exchange_serve(self.serve, self._serve_unmeasured)
        begun_s = self._monotonic_s()
        reply = self._serve_unmeasured(connection, frame)
        handled_s = self._monotonic_s()
        times = self._times_by_key.get(int.from_bytes(frame[:2], "big"))
        if times is None:
            return reply
        measured = _Measured(times, self._monotonic_s)
        measured.arrived_s = connection.arrived_s or begun_s
        measured.begun_s = begun_s
        measured.handled_s = measured.answered_s = handled_s
        times.size.observe(len(frame), begun_s)
        if not isinstance(reply, Pending):
            return measured.encoded(reply)
        return Pending(
            measured.awaited(reply.reply), measured.encoding(reply.encode), reply.is_pipelined
        )


class _Measured:
    """The times of one request that is measured."""

    __slots__ = ("_monotonic_s", "_times", "answered_s", "arrived_s", "begun_s", "handled_s")

    def __init__(self, times: ApiTimes, monotonic_s: Callable[[], float]) -> None:
        self._times = times
        self._monotonic_s = monotonic_s
        self.arrived_s = self.begun_s = self.handled_s = self.answered_s = 0.0

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
