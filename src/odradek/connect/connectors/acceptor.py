"""Source tasks that others send to: a listener in a thread of its own, and the inbox it fills."""

import asyncio
import logging
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.inbox import Inbox
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.records import SourceRecord

_log = logging.getLogger("odradek.connect")
SEQUENCE: Final = "sequence"
LISTENER: Final = "listener"
_START_S: Final = 20.0
_END_S: Final = 5.0


class Listener(ABC):
    """Takes what is sent to an address, and puts it into an inbox."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address in a word, which is the source partition."""

    @abstractmethod
    async def listen(self, inbox: Inbox, on_ready: Callable[[], None]) -> None:
        """Listens until it is cancelled. `on_ready` is called when it does. Raises `ConnectError`
        if it cannot."""


class AcceptorTask(SourceTask):
    """The listener starts with the first call of `reach`. `capacity` is the size of the inbox."""

    def __init__(self, listener: Listener, topic: str, capacity: int) -> None:
        self._listener = listener
        self._topic = topic
        self._capacity = capacity
        self._running: _Running | None = None

    @property
    def partition(self) -> SourcePartition:
        return {LISTENER: self._listener.address}

    def reach(self, start: Positions, max_records: int) -> Positions:
        begin = self._sequence(start)
        if self._running is None:
            self._running = _Running(self._listener, self._capacity, begin)
        end = self._running.inbox.end_from(begin, max_records)
        if end == begin:
            self._running.check()
            return start
        return start.with_offset(self.partition, {SEQUENCE: end})

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        if self._running is None:
            raise DataError("what others have sent before a restart cannot be read again")
        begin = self._sequence(start)
        entries = self._running.inbox.between(begin, self._sequence(end))
        for number, entry in enumerate(entries, begin + 1):
            yield SourceRecord(
                entry.topic or self._topic,
                key=entry.key,
                value=entry.value,
                key_schema=entry.key_schema,
                value_schema=entry.value_schema,
                timestamp_ms=entry.timestamp_ms,
                headers=entry.headers,
                source_partition=self.partition,
                source_offset={SEQUENCE: number},
            )

    def stored(self, positions: Positions) -> None:
        if self._running is not None:
            self._running.inbox.stored(self._sequence(positions))

    def close(self) -> None:
        if self._running is not None:
            self._running.close()

    def _sequence(self, positions: Positions) -> int:
        offset = positions.of(self.partition)
        return 0 if offset is None else sequence_of(offset)


def sequence_of(offset: SourceOffset) -> int:
    found = offset.get(SEQUENCE)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise DataError(f'the offset of an acceptor is {{"{SEQUENCE}": N}}, N not negative')
    return found


def check_acceptor_offset(partition: SourcePartition, offset: SourceOffset | None) -> None:
    """Raises `DataError` for an offset that no acceptor has."""
    if partition.keys() != {LISTENER}:
        raise DataError(f'the partition of an acceptor is {{"{LISTENER}": ...}}')
    if offset is not None:
        sequence_of(offset)


class _Running:
    """A listener that runs in its thread."""

    def __init__(self, listener: Listener, capacity: int, first: int) -> None:
        self._listener = listener
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self.inbox = Inbox(capacity, first, self._loop)
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"odradek-{listener.address}", daemon=True
        )
        self._thread.start()
        if not self._ready.wait(_START_S):
            self.close()
            raise DataError(f"{listener.address} does not listen after {_START_S:g} s")
        self.check()

    def check(self) -> None:
        """Raises what has ended the listener."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join(_END_S)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._listen())
        except asyncio.CancelledError:
            pass
        except (ConnectError, OSError) as error:
            self._error = _explained(self._listener.address, error)
        finally:
            self._ready.set()

    async def _listen(self) -> None:
        self._task = asyncio.current_task()
        await self._listener.listen(self.inbox, self._ready.set)


def _explained(address: str, error: BaseException) -> BaseException:
    if isinstance(error, OSError):
        return DataError(f"cannot listen at {address}: {error.strerror or error}")
    return error


class TlsFiles(NamedTuple):
    """The certificate and key that a listener shows, as PEM files."""

    certificate: str | None
    key: str | None

    def context(self) -> ssl.SSLContext:
        if not self.certificate:
            raise DataError("TLS needs a certificate and its key, as PEM files")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            raise DataError(f"the certificate or key cannot be read: {error}") from error
        return context


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def serve_connections(
    serve: Serve,
    host: str,
    port: int,
    *,
    limit: int,
    context: ssl.SSLContext | None,
    on_ready: Callable[[], None],
) -> None:
    """Serves each connection until this is cancelled. `limit` is the most that is read ahead. An
    error of a connection ends that connection."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, EOFError, DataError) as error:
            peer = writer.get_extra_info("peername")
            _log.warning("the connection of %s to port %d is closed: %s", peer, port, error)
        finally:
            writer.close()

    server = await asyncio.start_server(connection, host, port, limit=limit, ssl=context)
    async with server:
        on_ready()
        await server.serve_forever()
