"""From a frame to a handler and back: the dispatcher decodes the request, calls the handler and
encodes the response.

A request of an API or a version that this broker does not serve closes its connection, as in
Kafka: a response could not be encoded in a version that the client reads. The exception is
ApiVersions, by which a client finds out which versions it may use.

A request or a response with tens of thousands of elements takes a tenth of a second to decode, to
serve and to encode. Each of the three is done in steps, and other connections are served in
between (`world.timeslice`, `broker.request_splitting`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Final, NamedTuple, cast

from odradek.broker.handlers import find_handler
from odradek.broker.network.connection import Connection
from odradek.broker.network.reply_writer import Parts
from odradek.broker.network.request_serving import Pending, encoded_already
from odradek.broker.permissions import Required
from odradek.broker.request_splitting import split_requests
from odradek.broker.services import Encoded, Pipelined, RequestContext, Services
from odradek.config.live import LiveSettings
from odradek.protocol.apis import API_VERSIONS_KEY, AnyApi, declare_all
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import decode_request_header, encode_response, frame_response
from odradek.protocol.layout import StructType
from odradek.protocol.schema import Request, Response, Struct
from odradek.protocol.types import Buffer
from odradek.world.timeslice import Timeslice

Reply = Response | Encoded | None
Handle = Callable[[Services, RequestContext, Request], Reply | Awaitable[Reply] | Pipelined]

Wrap = Callable[[AnyApi, Handle], Handle]
"""Returns a handler that calls the given one, which is of that API."""

Note = Callable[[Request, object], None]
"""Is told the response of a handler that had to wait, before it is encoded."""

# Larger requests may have thousands of elements.
_LARGE_BYTES: Final = 64 * 1024
# How many elements are decoded at once: a millisecond's work. Requests with records have fewer.
_STEPS_AT_ONCE: Final = 1000
# Responses with more elements are encoded in steps: some milliseconds' work.
_LARGE_ELEMENTS: Final = 1000
_FREED_AT_ONCE: Final = 100
_REFERENCES_OF_OWNED: Final = 3

# The names of the fields of each message that are arrays of structs.
_ARRAYS_OF: Final[dict[StructType, tuple[str, ...]]] = {}


class _Loaded(NamedTuple):
    """A handler as the dispatcher calls it, with what it needs for each request. A named tuple,
    because every request reads it."""

    min_version: int
    max_version: int
    request: type[Request]
    handle: Handle
    has_small_responses: bool
    api: AnyApi
    note: Note | None


class _Large(NamedTuple):
    """A request of which only the first elements are decoded."""

    handler: _Loaded
    steps: Generator[None, None, Request]
    version: int
    correlation_id: int


class Dispatcher:
    """Serves the frames of all connections of a broker. A handler is loaded when the first request
    of its API comes, so that the start of a broker imports no handler."""

    def __init__(self, services: Services) -> None:
        self._services = services
        # The handlers of the APIs of which a request has come.
        self._handlers: dict[int, _Loaded] = {}
        self._wraps: dict[object, Wrap] = {}
        # Set by whoever wants to know them (`Note`).
        self.note: Note | None = None
        # How many requests were refused because their API or version is not served.
        self.unserved = 0

    def listen_in(self, listener: object, wrap: Wrap | None) -> None:
        """Wraps every handler in `wrap` from the next request on; None removes the wrapper of the
        listener."""
        if wrap is None:
            self._wraps.pop(listener, None)
        else:
            self._wraps[listener] = wrap
        self._handlers.clear()

    @property
    def settings(self) -> LiveSettings:
        """The current settings of the broker."""
        return self._services.settings

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        (key, version, correlation_id, client_id), position = decode_request_header(frame)
        handler = self._handlers.get(key) or self._load(key)
        if not handler.min_version <= version <= handler.max_version:
            return self._refuse_version(handler.api, version, correlation_id)
        # librdkafka pads a Metadata request for all topics with three bytes; Kafka ignores them.
        if len(frame) <= _LARGE_BYTES:
            request = handler.request.decode(frame, version, position, allow_trailing=True)
        else:
            steps = handler.request.decode_stepwise(frame, version, position)
            decoded = _begin(steps)
            if decoded is None:
                large = _Large(handler, steps, version, correlation_id)
                return Pending(
                    self._serve_large(connection, client_id, large),
                    encoded_already,
                    is_pipelined=False,
                )
            request = decoded
        context = RequestContext(
            self._services, handler.api, connection, version, client_id, correlation_id
        )
        reply = handler.handle(self._services, context, request)
        return _answer(handler, version, correlation_id, request, reply)

    async def _serve_large(
        self, connection: Connection, client_id: str | None, large: _Large
    ) -> Parts | None:
        version = large.version
        request = await Timeslice.of_running_loop().run(large.steps)
        api = large.handler.api
        context = RequestContext(
            self._services, api, connection, version, client_id, large.correlation_id
        )
        reply = large.handler.handle(self._services, context, request)
        if isinstance(reply, Pipelined):
            reply = reply.response
        if isinstance(reply, Awaitable):
            reply = await reply
            if large.handler.note is not None:
                large.handler.note(request, reply)
        return await _encode_in_steps(reply, version, large.correlation_id)

    def _load(self, key: int) -> _Loaded:
        found = find_handler(key)
        if found is None:
            self.unserved += 1
            raise MalformedMessage(f"API {key} is not served here")
        handle: Handle = found.handle
        if self._services.authorizer is not None and isinstance(found.permission, Required):
            handle = _ask_permission(found.permission, handle)
        # Permission is asked piece by piece too: it takes as long as many a handler.
        handle = split_requests(found.splitting, handle)
        for wrap in self._wraps.values():
            handle = wrap(found.api, handle)
        api = found.api
        loaded = self._handlers[key] = _Loaded(
            api.min_version,
            api.max_version,
            api.request,
            handle,
            found.has_small_responses,
            api,
            self.note,
        )
        return loaded

    def _refuse_version(self, api: AnyApi, version: int, correlation_id: int) -> Parts:
        self.unserved += 1
        if api.key != API_VERSIONS_KEY:
            raise MalformedMessage(f"version {version} of {api.name} is not served here")
        from odradek.broker.handlers.api_versions import make_response  # noqa: PLC0415 - when needed

        has_telemetry = self._services.client_telemetry is not None
        response = make_response(ErrorCode.UNSUPPORTED_VERSION, 0, has_telemetry)
        return cast("Parts", encode_response(response, 0, correlation_id))


def _ask_permission(permission: Required[Any], handle: Handle) -> Handle:
    def handle_if_allowed(
        services: Services, context: RequestContext, request: Request
    ) -> Reply | Awaitable[Reply] | Pipelined:
        refusal = permission.refusal(context.authorize, request)
        return handle(services, context, request) if refusal is None else refusal

    return handle_if_allowed


async def declare_apis() -> None:
    """Imports all message modules, one at a time, and lets other tasks run in between.

    The broker runs this from the moment at which it accepts connections. The first client asks for
    all APIs and their versions (ApiVersions), and so waits for what is not imported by then.
    """
    for _ in declare_all():
        await asyncio.sleep(0)


def _begin(steps: Generator[None, None, Request]) -> Request | None:
    """Decodes the first elements of a request; returns it if there are no more."""
    try:
        for _ in range(_STEPS_AT_ONCE):
            next(steps)
    except StopIteration as end:
        request: Request = end.value
        return request
    return None


def _answer(
    handler: _Loaded,
    version: int,
    correlation_id: int,
    request: Request,
    reply: Reply | Awaitable[Reply] | Pipelined,
) -> Parts | Pending | None:
    """Returns what the connection gets: the encoded response, or what it has to wait for."""
    # First what comes most often: whether something can be awaited takes longer to find out.
    if not isinstance(reply, Response) and isinstance(reply, Awaitable | Pipelined):
        awaited = reply.response if isinstance(reply, Pipelined) else reply
        if handler.note is None:
            encode = partial(_encode, handler, version, correlation_id)
        else:
            encode = partial(_note_and_encode, handler, version, correlation_id, request)
        return Pending(awaited, encode, is_pipelined=isinstance(reply, Pipelined))
    parts = _encode(handler, version, correlation_id, reply)
    if parts is None or isinstance(parts, list):
        return parts
    return Pending(parts, encoded_already, is_pipelined=False)


def _encode(
    handler: _Loaded, version: int, correlation_id: int, reply: object
) -> Parts | Awaitable[Parts | None] | None:
    if reply is None:
        return None
    if isinstance(reply, Response) and (handler.has_small_responses or not _is_large(reply)):
        return cast("Parts", encode_response(reply, version, correlation_id))
    assert isinstance(reply, Response | Encoded)
    return _encode_in_steps(reply, version, correlation_id)


def _note_and_encode(
    handler: _Loaded, version: int, correlation_id: int, request: Request, reply: object
) -> Parts | Awaitable[Parts | None] | None:
    assert handler.note is not None
    handler.note(request, reply)
    return _encode(handler, version, correlation_id, reply)


async def _encode_in_steps(reply: Reply, version: int, correlation_id: int) -> Parts | None:
    if reply is None:
        return None
    if isinstance(reply, Encoded):
        response, parts = reply.head, list(reply.parts)
    else:
        response = reply
        steps = response.encode_stepwise(version)
        parts = await Timeslice.of_running_loop().run(steps)
        await _free_in_steps(response)
    return cast("Parts", frame_response(response, parts, version, correlation_id))


async def _free_in_steps(response: Response) -> None:
    """Frees the elements of a large response some at a time. Python would free all of them together
    with the response: 20 ms for the metadata of 12,000 topics."""
    timeslice = Timeslice.of_running_loop()
    for name in _arrays_of(type(response)):
        elements = getattr(response, name)
        # Referred to by the response, by `elements` and by the argument, and by nothing else: a
        # list that a handler keeps must not be changed.
        if not elements or sys.getrefcount(elements) > _REFERENCES_OF_OWNED:
            continue
        while elements:
            if timeslice.is_over():
                await timeslice.next_turn()
            del elements[-_FREED_AT_ONCE:]


def _is_large(response: Response) -> bool:
    return _count_elements(response, 0) > _LARGE_ELEMENTS


def _count_elements(message: Struct, so_far: int) -> int:
    """Counts the structs in all arrays of a message, and stops when there are many."""
    for name in _arrays_of(type(message)):
        elements = getattr(message, name)
        if elements:
            so_far += len(elements)
            for element in elements:
                if so_far > _LARGE_ELEMENTS:
                    return so_far
                so_far = _count_elements(element, so_far)
    return so_far


def _arrays_of(made: StructType) -> tuple[str, ...]:
    """Returns the names of the fields of a message that are arrays of structs."""
    names = _ARRAYS_OF.get(made)
    if names is None:
        names = _ARRAYS_OF[made] = tuple(
            field.name
            for field in made.fields
            if field.kind == "array" and isinstance(field.element, StructType)
        )
    return names
