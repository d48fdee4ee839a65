"""Sends what clients push to a collector, by OTLP over HTTP.

A push waits in memory until the collector takes it, up to four megabytes in all. Beyond that the
newest pushes are dropped and counted: a collector that is down must not cost a broker its memory,
nor the clients their time.
"""

import asyncio
import logging
from collections import deque
from typing import Final
from urllib.parse import urlsplit

from odradek.telemetry.logs import TOLD

logger = logging.getLogger("odradek.server")

_MAX_WAITING_BYTES: Final = 4 << 20
_MAX_REQUEST_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 60.0
# The collector is busy: the same request may succeed later.
_RETRIABLE: Final = (408, 429, 502, 503, 504)


class NotTaken(Exception):
    """The collector did not take a request; `may_pass` says whether it may do so later."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class OtlpForwarder:
    """`offer` takes a push, `run` sends. `counts` are pushes by result, since the start."""

    def __init__(self, endpoint: str) -> None:
        self._url = urlsplit(endpoint)
        self._endpoint = endpoint
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._is_failing = False
        self.counts = {"sent": 0, "failed": 0, "dropped": 0}

    def offer(self, data: bytes) -> None:
        """Takes MetricsData; it is dropped if too much waits already."""
        if self._waiting_bytes + len(data) > _MAX_WAITING_BYTES:
            self.counts["dropped"] += 1
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._wake.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._wake.wait()
            batch = self._next_batch()
            if not batch:
                self._wake.clear()
                continue
            try:
                await self._send(b"".join(batch))
            except NotTaken as error:
                self._note_failure(error)
                if error.may_pass:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _MAX_PAUSE_S)
                    continue
                self.counts["failed"] += len(batch)
            else:
                self.counts["sent"] += len(batch)
                if self._is_failing:
                    logger.info("the collector at %s takes metrics again", self._endpoint)
                self._is_failing = False
            pause_s = _FIRST_PAUSE_S
            for _ in batch:
                self._waiting_bytes -= len(self._waiting.popleft())

    def _next_batch(self) -> list[bytes]:
        """Returns the oldest pushes that fit into a request. They stay where they are until the
        collector has taken them."""
        batch: list[bytes] = []
        size = 0
        for data in self._waiting:
            size += len(data)
            if batch and size > _MAX_REQUEST_BYTES:
                break
            batch.append(data)
        return batch

    def _note_failure(self, error: NotTaken) -> None:
        if not self._is_failing:
            logger.warning(
                "metrics of clients are not forwarded: %s does not take them: %s",
                self._endpoint,
                error,
                extra=TOLD,
            )
        self._is_failing = True

    async def _send(self, body: bytes) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                status = await self._post(body)
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            raise NotTaken(str(error) or type(error).__name__, may_pass=True) from error
        if not 200 <= status < 300:
            raise NotTaken(f"HTTP status {status}", may_pass=status in _RETRIABLE)

    async def _post(self, body: bytes) -> int:
        """Sends one request on a connection of its own; returns the status of the response."""
        url, is_tls = self._url, self._url.scheme == "https"
        port = url.port or (443 if is_tls else 80)
        reader, writer = await asyncio.open_connection(url.hostname, port, ssl=is_tls or None)
        try:
            writer.write(
                f"POST {url.path or '/v1/metrics'} HTTP/1.1\r\n"
                f"Host: {url.netloc.rpartition('@')[2]}\r\n"
                "Content-Type: application/x-protobuf\r\n"
                f"Content-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            writer.write(body)
            await writer.drain()
            line = await reader.readline()
            words = line.split()
            if len(words) < 2 or not words[0].startswith(b"HTTP/"):
                raise ValueError(f"it answered {line[:100]!r}, which is not HTTP")
            return int(words[1])
        finally:
            writer.close()
