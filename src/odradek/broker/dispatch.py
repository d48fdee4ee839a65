"""From a frame to a handler and back: version, decoding, the call, encoding.

A request this broker cannot read ends its connection, as in Kafka: without knowing the
version there is no way to answer. The one exception is ApiVersions, with which a client
finds out what to speak.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Final, NamedTuple, cast

from odradek.broker.connection import Connection, Pending, encoded_already
from odradek.broker.handlers import TABLE
from odradek.broker.outflow import Parts
from odradek.broker.pieces import in_pieces
from odradek.broker.services import Pipelined, RequestContext, Services
from odradek.protocol.apis import APIS, ApiKey
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import decode_request_header, encode_response
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Buffer

Reply = Response | None
Handle = Callable[[Services, RequestContext, Request], Reply | Awaitable[Reply] | Pipelined]

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_PRODUCE: Final = int(ApiKey.PRODUCE)
# Larger requests have thousands of elements, but for those that bring records.
_LARGE_BYTES: Final = 100_000


class _Handler(NamedTuple):
    lowest: int
    highest: int
    request: type[Request]
    handle: Handle


class _Large(NamedTuple):
    """A request that is still to be decoded."""

    handler: _Handler
    frame: Buffer
    position: int
    version: int
    correlation_id: int

    def decode(self) -> Request:
        decode = self.handler.request.decode
        return decode(self.frame, self.version, self.position, allow_trailing=True)


class Dispatcher:
    """Invariant: every reply carries the correlation id of its request."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers: dict[int, _Handler] = {}
        self._wrap: Callable[[Handle], Handle] | None = None

    def listen_in(self, wrap: Callable[[Handle], Handle] | None) -> None:
        """Puts something around every handler, from the next request on; None takes it away."""
        self._wrap = wrap
        self._handlers.clear()

    def serve(self, connection: Connection, frame: Buffer) -> Parts | Pending | None:
        (key, version, correlation_id, client_id), position = decode_request_header(frame)
        handler = self._handlers.get(key) or self._load(key)
        if not handler.lowest <= version <= handler.highest:
            return self._refuse_version(key, version, correlation_id)
        if len(frame) > _LARGE_BYTES and key != _PRODUCE:
            large = _Large(handler, frame, position, version, correlation_id)
            return Pending(
                self._serve_large(connection, client_id, large),
                encoded_already,
                is_pipelined=False,
            )
        # librdkafka pads a Metadata request for all topics with three bytes; Kafka ignores them.
        request = handler.request.decode(frame, version, position, allow_trailing=True)
        context = RequestContext(connection, version, client_id)
        reply = handler.handle(self._services, context, request)
        if reply is None:
            return None
        if isinstance(reply, Response):
            return cast("Parts", encode_response(reply, version, correlation_id))
        encode = partial(_encode, version, correlation_id)
        if isinstance(reply, Pipelined):
            return Pending(reply.response, encode, is_pipelined=True)
        return Pending(reply, encode, is_pipelined=False)

    async def _serve_large(
        self, connection: Connection, client_id: str | None, large: "_Large"
    ) -> Parts | None:
        """Tens of thousands of elements take fifty milliseconds to decode and as long to encode:
        in a thread, which leaves the interpreter to the loop every few milliseconds."""
        compute = self._services.world.workers.compute
        version = large.version
        request = await compute(large.decode)
        context = RequestContext(connection, version, client_id)
        reply = large.handler.handle(self._services, context, request)
        if isinstance(reply, Awaitable):
            reply = await reply
        if reply is None:
            return None
        assert isinstance(reply, Response)
        encode = partial(encode_response, reply, version, large.correlation_id)
        return cast("Parts", await compute(encode))

    def _load(self, key: int) -> _Handler:
        served = TABLE.get(key)
        if served is None:
            raise MalformedMessage(f"API {key} is not served here")
        module = import_module(f"odradek.broker.handlers.{served.module}")
        handle: Handle = in_pieces(key, module.handle)
        if self._services.authorizer is not None:
            from odradek.broker.guards import guarded  # noqa: PLC0415 - if anybody needs permission

            handle = guarded(key, handle)
        if self._wrap is not None:
            handle = self._wrap(handle)
        handler = _Handler(served.lowest, served.highest, APIS[key].request, handle)
        self._handlers[key] = handler
        return handler

    def _refuse_version(self, key: int, version: int, correlation_id: int) -> Parts:
        if key != _API_VERSIONS:
            raise MalformedMessage(f"version {version} of {APIS[key].name} is not served here")
        from odradek.broker.handlers.api_versions import supported  # noqa: PLC0415 - when needed

        response = supported(ErrorCode.UNSUPPORTED_VERSION, 0)
        return cast("Parts", encode_response(response, 0, correlation_id))


def _encode(version: int, correlation_id: int, response: object) -> Parts | None:
    if response is None:
        return None
    assert isinstance(response, Response)
    return cast("Parts", encode_response(response, version, correlation_id))
