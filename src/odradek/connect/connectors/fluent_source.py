"""Logs of Fluent Bit and Fluentd, and of Docker's fluentd driver: their Forward protocol.

An agent with `require_ack_response` gets its answer when its chunk is in the topic, and sends it
again without one: nothing is lost, and after a failure some events may be there twice. The agent's
shared key is checked if there is one.
"""

import asyncio
import hashlib
import hmac
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Final

from odradek.config.kinds import integer, password, string
from odradek.connect.connectors.acceptor import (
    AcceptorTask,
    Listener,
    TlsFiles,
    check_acceptor_offset,
    serve_connections,
)
from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.inbox import Entry, Inbox
from odradek.connect.connectors.msgpack_reading import Extension, decoded, packed
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.errors import DataError
from odradek.connect.settings import REQUIRED, PluginSettings
from odradek.world.randomness import Randomness

_READ_BYTES: Final = 1 << 16
_EVENT_TIME: Final = 0
_NAME: Final = "odradek"


class FluentSourceSettings(PluginSettings):
    topic = string(
        "topic",
        REQUIRED,
        "The topic for the events; ${tag} stands for their tag.",
        may_be_empty=False,
    )
    port = integer("fluent.port", 24224, "The port.", at_least=0, at_most=65535)
    listen_address = string(
        "fluent.listen.address", "127.0.0.1", "The address; 0.0.0.0 for all of the machine."
    )
    queue_max_size = integer(
        "fluent.queue.max.size", 50_000, "How many events wait for the topic.", at_least=1
    )
    max_chunk_bytes = integer(
        "fluent.max.chunk.bytes", 64 << 20, "The size of a chunk, at most, unpacked.", at_least=1024
    )
    shared_key = password(
        "fluent.shared.key", "The key that agents must know; none: all are let in."
    )
    certificate = string("fluent.ssl.cert.chain.path", None, "A certificate, a PEM file: use TLS.")
    key = string("fluent.ssl.key.path", None, "Its key, a PEM file.")


class FluentSource(SourceConnector):
    settings_class: ClassVar = FluentSourceSettings

    def __init__(self, settings: FluentSourceSettings) -> None:
        self._settings = settings

    def task(self) -> AcceptorTask:
        settings = self._settings
        return AcceptorTask(FluentListener(settings), settings.topic, settings.queue_max_size)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        check_acceptor_offset(partition, offset)


class FluentListener(Listener):
    def __init__(self, settings: FluentSourceSettings) -> None:
        self._settings = settings

    @property
    def address(self) -> str:
        return f"fluent://{self._settings.listen_address}:{self._settings.port}"

    async def listen(self, inbox: Inbox, on_ready: Callable[[], None]) -> None:
        settings = self._settings
        context = None
        if settings.certificate:
            context = TlsFiles(settings.certificate, settings.key).context()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _Connection(settings, inbox, reader, writer).run()

        await serve_connections(
            serve,
            settings.listen_address,
            settings.port,
            limit=_READ_BYTES,
            context=context,
            on_ready=on_ready,
        )


class _Connection:
    def __init__(
        self,
        settings: FluentSourceSettings,
        inbox: Inbox,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._settings = settings
        self._inbox = inbox
        self._reader = reader
        self._writer = writer
        self._rest = b""
        self._values: list[Any] = []

    async def run(self) -> None:
        if self._settings.shared_key:
            await self._greet(self._settings.shared_key)
        while (message := await self._next()) is not None:
            entries, chunk = events(message, self._settings)
            stored = await self._inbox.put(entries)
            if chunk is not None:
                stored.add_done_callback(partial(self._answer, chunk))

    def _answer(self, chunk: str, stored: "asyncio.Future[None]") -> None:
        if not stored.cancelled() and not self._writer.is_closing():
            self._writer.write(packed({"ack": chunk}))

    async def _next(self) -> Any:
        """Returns the next message; None at the end of the connection."""
        while not self._values:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                return None
            if len(self._rest) > self._settings.max_chunk_bytes:
                raise DataError("a chunk is larger than fluent.max.chunk.bytes")
            self._values, self._rest = decoded(self._rest + data)
        return self._values.pop(0)

    async def _greet(self, shared_key: str) -> None:
        """Both sides show that they know the key, which is not sent."""
        nonce = Randomness().bytes(16).hex()
        self._writer.write(packed(["HELO", {"nonce": nonce, "auth": "", "keepalive": True}]))
        match await self._next():
            case ["PING", str(host), str() | bytes() as salt, str(digest), *_]:
                pass
            case _:
                raise DataError("an agent shows no shared key: set its shared_key")
        if not hmac.compare_digest(digest, _digest(salt, host, nonce, shared_key)):
            self._writer.write(packed(["PONG", False, "shared_key mismatch", "", ""]))
            await self._writer.drain()
            raise DataError(f"the shared key of agent {host} is wrong")
        own = _digest(salt, _NAME, nonce, shared_key)
        self._writer.write(packed(["PONG", True, "", _NAME, own]))
        await self._writer.drain()


def _digest(salt: str | bytes, host: str, nonce: str, shared_key: str) -> str:
    start = salt.encode() if isinstance(salt, str) else salt
    return hashlib.sha512(start + f"{host}{nonce}{shared_key}".encode()).hexdigest()


def events(message: Any, settings: FluentSourceSettings) -> tuple[list[Entry], str | None]:
    """Returns the events of a message in one of its four forms, and the chunk that is to be
    acknowledged."""
    match message:
        case [str(tag), list(pairs), *rest]:
            pass
        case [str(tag), str() | bytes() as data, *rest]:
            options = rest[0] if rest and isinstance(rest[0], dict) else {}
            pairs = _unpacked(data, options, settings.max_chunk_bytes)
        case [str(tag), int() | float() | Extension() as moment, dict(event), *rest]:
            pairs = [[moment, event]]
        case _:
            raise DataError("this is not a message of the Forward protocol")
    chunk = rest[0].get("chunk") if rest and isinstance(rest[0], dict) else None
    return list(_entries(tag, pairs, settings.topic)), None if chunk is None else str(chunk)


def _unpacked(data: str | bytes, options: dict[str, Any], max_bytes: int) -> list[Any]:
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    if options.get("compressed") == "gzip":
        inflate = zlib.decompressobj(wbits=31)
        try:
            raw = inflate.decompress(raw, max_bytes + 1)
        except zlib.error as error:
            raise DataError(f"a compressed chunk cannot be read: {error}") from None
        if len(raw) > max_bytes:
            raise DataError("a chunk is larger than fluent.max.chunk.bytes")
    found, rest = decoded(raw)
    if rest:
        raise DataError("a chunk ends within an event")
    return found


def _entries(tag: str, pairs: list[Any], topic: str) -> Iterator[Entry]:
    for pair in pairs:
        match pair:
            case [moment, dict(event)]:
                pass
            case _:
                raise DataError("an event of the Forward protocol is a time and a map")
        yield Entry(
            {"tag": tag, **_plain(event)},
            key=tag,
            key_schema=schemas.STRING,
            timestamp_ms=_milliseconds(moment),
            topic=topic.replace("${tag}", tag) if "${tag}" in topic else None,
        )


def _milliseconds(moment: Any) -> int | None:
    if isinstance(moment, list) and moment:
        moment = moment[0]  # Newer agents send metadata beside the time.
    match moment:
        case Extension(kind, data) if kind == _EVENT_TIME and len(data) == 8:
            seconds, nanos = (int.from_bytes(part, "big") for part in (data[:4], data[4:]))
            return seconds * 1000 + nanos // 1_000_000
        case int() | float():
            return int(moment * 1000)
    return None


def _plain(value: Any) -> Any:
    """Returns what JSON can say: bytes and extensions become text."""
    found = value
    match value:
        case str() if not value.isascii():
            found = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        case bytes():
            found = value.decode("utf-8", "replace")
        case Extension():
            found = value.data.hex()
        case list():
            found = [_plain(item) for item in value]
        case dict():
            found = {str(_plain(name)): _plain(item) for name, item in value.items()}
    return found
