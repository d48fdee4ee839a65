"""A webhook: what is sent to it by HTTP becomes records.

A request is answered with 200 when its records are in the topic; with 503 if that takes too long,
and the sender tries again. So nothing that was answered is lost, and after a failure a request may
be there twice: a sender's own id in a header, as the key, tells doubles apart.
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, ClassVar, Final, NamedTuple

from odradek.config.kinds import boolean, integer, names, password, string
from odradek.connect.connectors.acceptor import (
    AcceptorTask,
    Listener,
    TlsFiles,
    check_acceptor_offset,
)
from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.inbox import Entry, Inbox
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.errors import DataError
from odradek.connect.records import Header
from odradek.connect.settings import REQUIRED, PluginSettings
from odradek.world.installing import install_line

_MAX_HEADERS: Final = 1000
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class WebhookSettings(PluginSettings):
    topic = string("topic", REQUIRED, "The topic for the requests.", may_be_empty=False)
    port = integer("webhook.port", 8480, "The port.", at_least=0, at_most=65535)
    listen_address = string(
        "webhook.listen.address", "127.0.0.1", "The address; 0.0.0.0 for all of the machine."
    )
    path = string("webhook.path", "/", "The path to which requests are sent.")
    authorization = password(
        "webhook.authorization",
        "What the header Authorization must be; unset, it is not looked at.",
    )
    secret = password(
        "webhook.hmac.secret", "The secret of an HMAC-SHA256 of the body; unset, none is needed."
    )
    signature_header = string(
        "webhook.hmac.header", "X-Hub-Signature-256", "The header with that signature, in hex."
    )
    key_header = string("webhook.key.header", None, "The header that becomes the key of records.")
    headers = names("webhook.headers", (), "Headers of requests that become those of records.")
    is_text = boolean(
        "webhook.body.text", False, "Take the body as text. Otherwise it is JSON, or is refused."
    )
    splits = boolean("webhook.split.array", True, "Make a record of each element of a JSON array.")
    max_body_bytes = integer(
        "webhook.max.body.bytes", 1 << 20, "The size of a body, at most.", at_least=1
    )
    timeout_ms = integer(
        "webhook.timeout.ms", 30_000, "How long a request waits for the topic.", at_least=1
    )
    queue_max_size = integer(
        "webhook.queue.max.size", 10_000, "How many records wait for the topic.", at_least=1
    )
    certificate = string("webhook.ssl.cert.chain.path", None, "A certificate, a PEM file: use TLS.")
    key = string("webhook.ssl.key.path", None, "Its key, a PEM file.")


class WebhookSource(SourceConnector):
    settings_class: ClassVar = WebhookSettings

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings

    def task(self) -> AcceptorTask:
        settings = self._settings
        return AcceptorTask(WebhookListener(settings), settings.topic, settings.queue_max_size)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        check_acceptor_offset(partition, offset)


class WebhookListener(Listener):
    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings

    @property
    def address(self) -> str:
        scheme = "https" if self._settings.certificate else "http"
        return f"{scheme}://{self._settings.listen_address}:{self._settings.port}"

    async def listen(self, inbox: Inbox, on_ready: Callable[[], None]) -> None:
        try:
            from odradek.web import serving  # noqa: PLC0415 - needs the extra `web`
        except ImportError as error:
            raise DataError(
                f"a webhook needs a library that is missing ({error.name}): {install_line('web')}"
            ) from None
        settings = self._settings
        context = None
        if settings.certificate:
            context = TlsFiles(settings.certificate, settings.key).context()
        where = serving.Listener(
            settings.listen_address, settings.port, context=context, drain_s=1.0
        )
        application: Any = _Application(settings, inbox)
        try:
            await serving.serve(application, where, lambda _: on_ready())
        except serving.CannotServe as error:
            raise DataError(str(error)) from None


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class _Application:
    """An ASGI application."""

    def __init__(self, settings: WebhookSettings, inbox: Inbox) -> None:
        self._settings = settings
        self._inbox = inbox
        self._kept = {name.lower(): name for name in settings.headers}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        status, text = 200, ""
        try:
            await self._take(await self._request(scope, receive))
        except _Refused as refusal:
            status, text = refusal.status, str(refusal)
        body = json.dumps({"error": text} if text else {"stored": True}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _request(self, scope: dict[str, Any], receive: Receive) -> _Request:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"][:_MAX_HEADERS]
        }
        body = b""
        is_more = True
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(400, "the request was cut off")
            body += message.get("body", b"")
            is_more = message.get("more_body", False)
            if len(body) > self._settings.max_body_bytes:
                limit = self._settings.max_body_bytes
                raise _Refused(413, f"a body may have {limit} bytes")
        return _Request(scope["method"], scope["path"], headers, body)

    async def _take(self, request: _Request) -> None:
        self._check(request)
        entries = self._entries(request)
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                await (await self._inbox.put(entries))
        except TimeoutError:
            raise _Refused(503, "the topic does not take it now; try again") from None

    def _check(self, request: _Request) -> None:
        settings = self._settings
        if request.path.rstrip("/") != settings.path.rstrip("/"):
            raise _Refused(404, "there is nothing at this path")
        if request.method not in {"POST", "PUT"}:
            raise _Refused(405, "send it by POST")
        if settings.authorization is not None and not hmac.compare_digest(
            request.headers.get("authorization", "").encode(), settings.authorization.encode()
        ):
            raise _Refused(401, "the header Authorization is not right")
        if settings.secret is not None:
            given = request.headers.get(settings.signature_header.lower(), "")
            expected = hmac.new(settings.secret.encode(), request.body, sha256).hexdigest()
            if not hmac.compare_digest(given.removeprefix("sha256=").encode(), expected.encode()):
                raise _Refused(401, "the signature is not right")

    def _entries(self, request: _Request) -> list[Entry]:
        settings = self._settings
        key = None
        if settings.key_header is not None:
            key = request.headers.get(settings.key_header.lower())
        headers = tuple(
            Header(name, schemas.STRING, request.headers[lower])
            for lower, name in self._kept.items()
            if lower in request.headers
        )
        key_schema = None if key is None else schemas.STRING
        if settings.is_text:
            text = request.body.decode("utf-8", "replace")
            return [Entry(text, schemas.STRING, key, key_schema, headers=headers)]
        try:
            found = json.loads(request.body)
        except (ValueError, RecursionError):
            raise _Refused(400, "the body is not JSON") from None
        several = found if isinstance(found, list) and settings.splits else [found]
        return [Entry(value, None, key, key_schema, headers=headers) for value in several]


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        kind = message["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
