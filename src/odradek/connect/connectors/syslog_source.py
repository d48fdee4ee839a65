"""Syslog over UDP, TCP or TLS: `io.confluent.connect.syslog.SyslogSourceConnector`.

Syslog has no answers. Over TCP a sender is slowed down when the topic does not take more; over UDP
messages are lost then, which the log says. On connections, messages end with a line feed, or their
length stands before them (RFC 6587): each connection shows which.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from odradek.config.kinds import integer, string
from odradek.config.setting import Importance
from odradek.connect.connectors.acceptor import (
    AcceptorTask,
    Listener,
    TlsFiles,
    check_acceptor_offset,
    serve_connections,
)
from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.inbox import Entry, Inbox
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.connectors.syslog_messages import SCHEMA, parse
from odradek.connect.data import schemas
from odradek.connect.errors import DataError
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.world.clock import SystemClock

_log = logging.getLogger("odradek.connect")
_TCP, _UDP, _TLS = "tcp", "udp", "tcpssl"
_MAX_DIGITS: Final = 9
_LOST_AT_ONCE: Final = 1000


class SyslogSourceSettings(PluginSettings):
    topic = string("topic", "syslog", "The topic for the messages.", may_be_empty=False)
    listener = string(
        "syslog.listener",
        REQUIRED,
        "What it listens to: UDP, TCP, or TCPSSL, which is TLS.",
        choices=(_UDP, _TCP, _TLS),
        folds_case=True,
        importance=Importance.HIGH,
    )
    port = integer(
        "syslog.port", 3514, "The port. Below 1024 it needs rights.", at_least=0, at_most=65535
    )
    listen_address = string(
        "syslog.listen.address", "127.0.0.1", "The address; 0.0.0.0 for all of the machine."
    )
    queue_max_size = integer(
        "syslog.queue.max.size", 50_000, "How many messages wait for the topic.", at_least=1
    )
    max_message_bytes = integer(
        "syslog.max.message.bytes", 1 << 16, "The length of a message, at most.", at_least=480
    )
    certificate = string("syslog.ssl.cert.chain.path", None, "The certificate, a PEM file.")
    key = string("syslog.ssl.key.path", None, "Its key, a PEM file.")

    def wrong_together(self) -> Problems:
        if self.listener == _TLS and not self.certificate:
            name = "syslog.ssl.cert.chain.path"
            return {name: [invalid(name, "", "syslog.listener=TCPSSL needs it")]}
        return {}


class SyslogSource(SourceConnector):
    settings_class: ClassVar = SyslogSourceSettings

    def __init__(self, settings: SyslogSourceSettings) -> None:
        self._settings = settings

    def task(self) -> AcceptorTask:
        settings = self._settings
        return AcceptorTask(SyslogListener(settings), settings.topic, settings.queue_max_size)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        check_acceptor_offset(partition, offset)


class SyslogListener(Listener):
    def __init__(self, settings: SyslogSourceSettings) -> None:
        self._settings = settings

    @property
    def address(self) -> str:
        settings = self._settings
        return f"syslog+{settings.listener}://{settings.listen_address}:{settings.port}"

    async def listen(self, inbox: Inbox, on_ready: Callable[[], None]) -> None:
        settings = self._settings
        if settings.listener == _UDP:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(inbox), (settings.listen_address, settings.port)
            )
            on_ready()
            try:
                await loop.create_future()
            finally:
                transport.close()
            return

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("peername")
            async for message in messages(reader, settings.max_message_bytes):
                await inbox.put([entry(message, peer)])

        context = None
        if settings.listener == _TLS:
            context = TlsFiles(settings.certificate, settings.key).context()
        await serve_connections(
            serve,
            settings.listen_address,
            settings.port,
            limit=settings.max_message_bytes,
            context=context,
            on_ready=on_ready,
        )


async def messages(reader: asyncio.StreamReader, max_bytes: int) -> AsyncIterator[bytes]:
    """Yields the messages of a connection."""
    while first := await reader.read(1):
        if first.isdigit():
            length = await _length(reader, first)
            if length > max_bytes:
                raise DataError(f"a message has {length} bytes, and {max_bytes} are allowed")
            yield await reader.readexactly(length)
            continue
        if first in {b"\n", b"\0"}:
            continue
        try:
            line = first + await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise DataError(f"a message has more than {max_bytes} bytes") from None
        except asyncio.IncompleteReadError as error:
            line = first + error.partial  # The last one may lack its end.
        yield line.rstrip(b"\r\n\0")


async def _length(reader: asyncio.StreamReader, first: bytes) -> int:
    digits = first
    while (digit := await reader.readexactly(1)) != b" ":
        digits += digit
        if not digit.isdigit() or len(digits) > _MAX_DIGITS:
            raise DataError("neither a message nor the length of one was sent")
    return int(digits)


def entry(message: bytes, peer: Any) -> Entry:
    remote = str(peer[0]) if peer else None
    now_ms = SystemClock().now_ms()
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    fields = parse(message.decode("utf-8", "replace"), remote, now)
    moment = fields["timestamp"]
    at_ms = now_ms if moment is None else int(moment.timestamp() * 1000)
    host = fields["host"] or remote
    return Entry(fields, SCHEMA, key=host, key_schema=schemas.OPTIONAL_STRING, timestamp_ms=at_ms)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._lost = 0

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if not self._inbox.offer(entry(data.rstrip(b"\r\n\0"), addr)):
            self._lost += 1
            if self._lost % _LOST_AT_ONCE == 1:
                _log.warning("%d syslog messages were lost: the topic takes no more", self._lost)
