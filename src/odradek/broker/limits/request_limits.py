"""Counts what requests use of their clients' quotas, and makes clients wait.

It stands between the dispatcher and its handlers while any quota is set. A client that has used too
much is told for how long it has to wait (`throttle_time_ms`), and its connection is not read from
for that time (`Connection.mute`), as in Kafka since KIP-219:

    Produce   The size of the request counts when its records are appended, also with acks=0.
    Fetch     The size of the response counts when it is ready. A client that has to wait gets an
              empty response at once. Followers are exempt.
    all       The time of the event loop counts: decoding, handling, encoding, sending records.
              Requests between brokers are exempt.

A client could avoid the wait by connecting again. So the first Produce request of a connection, and
its first request of any kind, wait before they are served, if the client still has to.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from copy import copy
from math import ceil
from typing import Any, Final, cast

from odradek.broker.dispatch import Handle, Reply
from odradek.broker.limits.broker_quotas import MIN_THROTTLE_S
from odradek.broker.limits.measured_requests import MeasuredRecords, MeasuredRequest
from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_serving import Encode, Pending, Serve, encoded_already
from odradek.broker.services import Encoded, Pipelined, RequestContext, Services
from odradek.protocol.apis import API_VERSIONS_KEY, AnyApi
from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Buffer
from odradek.security.quotas.clients import ClientLimits, ClientQuotas
from odradek.security.quotas.entities import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from odradek.world import Clock

# The longest wait: longer ones do not fit the protocol's milliseconds.
_MAX_THROTTLE_S: Final = 86_400.0
_PREFIX_BYTES: Final = 4
# What a response has for each partition beside records.
_PARTITION_BYTES: Final = 40
_ANSWERS: Final = (Response, Encoded, type(None))
_PRODUCE: Final = ProduceRequest.api_key.to_bytes(2, "big")
_API_VERSIONS: Final = API_VERSIONS_KEY.to_bytes(2, "big")
# From this version on only brokers send it.
_FIRST_VERSION_OF_BROKERS: Final = AddPartitionsToTxnRequest.first_version_with("transactions")


class RequestLimits:
    """Invariant: `_current` is the request of which some code is running, if it is one that is
    measured."""

    def __init__(self, quotas: ClientQuotas, dispatch: Serve, clock: Clock) -> None:
        self._quotas = quotas
        self._dispatch = dispatch
        self._now_s: Callable[[], float] = clock.monotonic_s
        self._limits_time = quotas.limits_time
        self._current: MeasuredRequest | None = None
        self.is_serving = False

    # What the dispatcher calls

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        wait_s = self._wait_of_new(connection, frame)
        if wait_s < MIN_THROTTLE_S:
            return self._serve_now(connection, frame)
        serving = self._serve_later(connection, frame, wait_s)
        return Pending(serving, encoded_already, is_pipelined=False)

    def wrap(self, api: AnyApi, handle: Handle) -> Handle:
        def limited(
            services: Services, context: RequestContext, request: Request
        ) -> Reply | Awaitable[Reply] | Pipelined:
            measured = self._current or MeasuredRequest(0)
            if _is_exempt(request, context.version):
                return handle(services, context, request)
            measured.limits = limits = self._quotas.limits_of(
                context.connection.principal.name, context.client_id or ""
            )
            if isinstance(request, FetchRequest):
                refusal = self._begin_fetch(services, context, request, limits)
                if refusal is not None:
                    return self._finish(measured, context, request, refusal)
            returned = handle(services, context, request)
            if isinstance(returned, _ANSWERS):
                return self._finish(measured, context, request, returned)
            if isinstance(returned, Pipelined):
                # The records are appended. The next request must not be served before the client
                # has waited, although this one is not answered yet.
                self._count_produce(measured, context)
                response = self._finish_later(measured, context, request, returned.response)
                return Pipelined(cast("Awaitable[Response | None]", response))
            return self._finish_later(measured, context, request, returned)

        return limited

    # Serving

    def _serve_now(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        measured = self._current = MeasuredRequest(_PREFIX_BYTES + len(frame))
        self.is_serving = True
        measured.resume()
        try:
            reply = self._dispatch(connection, frame)
        finally:
            self.is_serving = False
            self._current = None
            measured.pause()
        if isinstance(reply, Pending):
            if measured.limits is not None and not self._limits_time:
                return reply
            # It waits, or is a large request that is decoded step by step and handled later.
            steps = _MeasuredSteps(self, measured, reply.reply)
            return Pending(steps, self._measured_encode(measured, reply.encode), reply.is_pipelined)
        return self._sending(measured, reply)

    async def _serve_later(
        self, connection: Connection, frame: Buffer, wait_s: float
    ) -> Parts | None:
        await asyncio.sleep(wait_s)
        reply = self._serve_now(connection, frame)
        if not isinstance(reply, Pending):
            return reply
        encoded = reply.encode(await reply.reply)
        if isinstance(encoded, Awaitable):
            return await encoded
        return encoded

    def _wait_of_new(self, connection: Connection, frame: Buffer) -> float:
        """Returns how long a request has to wait before it is served: those of a connection that is
        new, of a client that has used too much on another one."""
        head, known = bytes(frame[:2]), connection.session
        is_produce = head == _PRODUCE
        mark = "limits.produce" if is_produce else "limits"
        if mark in known or head == _API_VERSIONS:
            return 0.0
        known[mark] = "checked"
        (_, _, _, client_id), _ = decode_request_header(frame)
        quotas, now_s = self._quotas, self._now_s()
        limits = quotas.limits_of(connection.principal.name, client_id or "")
        wait_s = self._owed_time_s(limits, now_s)
        if is_produce and limits.produce is not None:
            owed_s = quotas.owed_s(PRODUCER_BYTE_RATE, limits.produce, now_s)
            # A client gives up if it is not answered; Kafka forgets after as long.
            wait_s = max(wait_s, min(owed_s, quotas.windows.span_s))
        return wait_s

    def _begin_fetch(
        self,
        services: Services,
        context: RequestContext,
        request: FetchRequest,
        limits: ClientLimits,
    ) -> FetchResponse | None:
        """Returns an empty response if the client has to wait. Else limits how much the response
        may have."""
        now_s = self._now_s()
        owed_s = self._owed_time_s(limits, now_s)
        if limits.fetch is not None:
            owed_s = max(owed_s, self._quotas.owed_s(CONSUMER_BYTE_RATE, limits.fetch, now_s))
            at_once = max(int(self._quotas.most_at_once(limits.fetch)), 1)
            request.max_bytes = min(request.max_bytes, at_once)
            request.min_bytes = min(request.min_bytes, request.max_bytes)
        if owed_s < MIN_THROTTLE_S:
            return None
        context.note_throttle(owed_s)
        fetch = services.fetch_sessions.skip(
            request, context.version, asyncio.get_running_loop().time()
        )
        return FetchResponse(error_code=fetch.error, session_id=fetch.session_id)

    def _owed_time_s(self, limits: ClientLimits, now_s: float) -> float:
        if limits.request is None:
            return 0.0
        owed_s = self._quotas.owed_s(REQUEST_PERCENTAGE, limits.request, now_s)
        return min(owed_s, self._quotas.windows.size_s)

    # Counting

    def _count_produce(self, measured: MeasuredRequest, context: RequestContext) -> None:
        limits = measured.limits
        if limits is None or limits.produce is None or measured.is_counted:
            return
        measured.is_counted = True
        size, now_s = measured.size, self._now_s()
        throttle_s = self._quotas.use(PRODUCER_BYTE_RATE, limits.produce, size, now_s)
        context.note_throttle(throttle_s)
        if throttle_s >= MIN_THROTTLE_S:
            context.connection.mute(min(throttle_s, _MAX_THROTTLE_S))

    async def _finish_later(
        self,
        measured: MeasuredRequest,
        context: RequestContext,
        request: Request,
        reply: Awaitable[Reply],
    ) -> Reply:
        return self._finish(measured, context, request, await reply)

    def _finish(
        self, measured: MeasuredRequest, context: RequestContext, request: Request, reply: Reply
    ) -> Reply:
        """Counts what the request has used so far. Tells the client if it has to wait."""
        limits, quotas = measured.limits, self._quotas
        if limits is None:
            return reply
        if isinstance(request, ProduceRequest):
            self._count_produce(measured, context)
        elif isinstance(request, FetchRequest) and limits.fetch is not None:
            size = _fetched_bytes(reply)
            if size:
                quotas.use(CONSUMER_BYTE_RATE, limits.fetch, size, self._now_s())
        if limits.request is not None:
            throttle_s = self._count_time(measured)
            context.note_throttle(min(throttle_s, quotas.windows.size_s))
        throttle_s = min(context.throttle_s, _MAX_THROTTLE_S)
        if throttle_s < MIN_THROTTLE_S:
            return reply
        throttle_ms = ceil(throttle_s * 1000)
        context.connection.mute(throttle_ms / 1000)
        if isinstance(reply, Response) and hasattr(reply, "throttle_time_ms"):
            told = copy(reply)  # Other clients may get the same object.
            told.throttle_time_ms = throttle_ms
            return told
        return reply

    def _count_time(self, measured: MeasuredRequest) -> float:
        """Counts the time that was spent since the last call."""
        limits = measured.limits
        spent_s = measured.take_spent_s()
        if limits is None or limits.request is None:
            return 0.0
        return self._quotas.use(REQUEST_PERCENTAGE, limits.request, 100 * spent_s, self._now_s())

    # What comes after the handler: it counts, and the client has to wait for it the next time.

    def _measured_encode(self, measured: MeasuredRequest, encode: Encode) -> Encode:
        def encoded(response: object) -> Parts | Awaitable[Parts | None] | None:
            measured.resume()
            try:
                parts = encode(response)
            finally:
                measured.pause()
            if isinstance(parts, Awaitable):
                return _MeasuredSteps(self, measured, parts)
            return self._sending(measured, parts)

        return encoded

    def _sending(self, measured: MeasuredRequest, parts: Parts | None) -> Parts | None:
        limits = measured.limits
        if limits is None or limits.request is None:
            return parts
        self._count_time(measured)
        for number, part in enumerate(parts or ()):
            if not isinstance(part, bytes):
                assert parts is not None
                parts[number] = MeasuredRecords(part, measured, self._count_time)
        return parts

    def run_step(self, measured: MeasuredRequest, step: Callable[[], Any]) -> Any:
        """Runs a step of a coroutine as a part of the request."""
        outer, self._current = self._current, measured
        # A large request is handled in a step, in which the dispatcher is not called.
        measured.resume()
        try:
            return step()
        finally:
            measured.pause()
            self._current = outer


class _MeasuredSteps:
    """An awaitable around another one, whose steps are measured."""

    __slots__ = ("_awaitable", "_limits", "_measured")

    def __init__(
        self, limits: RequestLimits, measured: MeasuredRequest, awaitable: Awaitable[Any]
    ) -> None:
        self._limits = limits
        self._measured = measured
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        run_step, measured = self._limits.run_step, self._measured
        steps = self._awaitable.__await__()
        # A future has an iterator here, and only a coroutine can be sent something.
        step: Callable[[], Any] = steps.__next__
        while True:
            try:
                waits_for = run_step(measured, step)
            except StopIteration as end:
                return end.value
            try:
                sent = yield waits_for
            except GeneratorExit:
                if hasattr(steps, "close"):
                    steps.close()
                raise
            except BaseException as error:
                if not hasattr(steps, "throw"):
                    raise
                step = _throwing(steps, error)
            else:
                step = _sending(steps, sent)


def _throwing(steps: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _sending(steps: Any, sent: object) -> Callable[[], Any]:
    return steps.__next__ if sent is None else lambda: steps.send(sent)


def _is_exempt(request: Request, version: int) -> bool:
    """Returns whether brokers send the request to each other: followers that fetch, and transaction
    coordinators."""
    if isinstance(request, FetchRequest):
        state = request.replica_state
        return (request.replica_id if state is None else state.replica_id) >= 0
    if isinstance(request, OffsetForLeaderEpochRequest):
        return request.replica_id >= 0
    if isinstance(request, AddPartitionsToTxnRequest):
        return version >= _FIRST_VERSION_OF_BROKERS
    return isinstance(request, WriteTxnMarkersRequest)


def _fetched_bytes(reply: Reply) -> int:
    """Returns the size of a response as its quota counts it; 0 if it has nothing."""
    response = reply.head if isinstance(reply, Encoded) else reply
    if not isinstance(response, FetchResponse):
        return 0
    return sum(
        _PARTITION_BYTES + (len(data.records) if data.records else 0)
        for topic in response.responses
        for data in topic.partitions
    )
