"""Where audit events are written: a file that is rolled when it is full, or a topic.

`write` takes lines without line ends and returns whether they are in the log for good. The topic is
retried until the lines are there, because it is away for a while whenever its leader changes; a
file that cannot be written is given up at once, and tried again with the next lines. In both cases
the audit log goes on to collect events, and drops what does not fit into its buffer.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from odradek.broker.cluster_producer import ClusterProducer
from odradek.protocol.records import BatchBuilder
from odradek.telemetry.log_files import RollingFile
from odradek.world import World

logger = logging.getLogger("odradek.server")

_RETRY_S: Final = 0.5


class Sink(Protocol):
    @property
    def description(self) -> str:
        """Where it writes, for the operator."""
        ...

    async def write(self, lines: Sequence[bytes]) -> bool: ...

    def close(self) -> None: ...


class FileSink:
    """A file with its backups, as the application logs have them. Its calls run in a thread: a disk
    that stalls does not stall requests."""

    def __init__(self, world: World, path: str, *, max_bytes: int, max_backups: int) -> None:
        self.description = path
        self._workers = world.workers
        self._file = RollingFile(
            world.disk,
            world.clock,
            path,
            _log_error,
            max_bytes=max_bytes,
            max_backups=max_backups,
        )

    async def write(self, lines: Sequence[bytes]) -> bool:
        lost = self._file.lost
        # The audit log tells by itself which events are missing.
        write = partial(self._file.write, b"\n".join((*lines, b"")), lambda _: b"")
        await self._workers.run_blocking(write)
        return self._file.lost == lost

    def close(self) -> None:
        self._file.close()


def _log_error(complaint: str) -> None:
    logger.error("%s", complaint)


class TopicSink:
    """A topic of this cluster, over whose partitions the lines are spread."""

    def __init__(self, producer: ClusterProducer, world: World) -> None:
        self.description = f"topic {producer.topic}"
        self._producer = producer
        self._clock = world.clock
        self._next_partition = 0
        self._complaint = ""

    async def write(self, lines: Sequence[bytes]) -> bool:
        builder, now_ms = BatchBuilder(), self._clock.now_ms()
        for line in lines:
            builder.append(None, line, timestamp_ms=now_ms)
        records = builder.build()
        while True:
            self._next_partition += 1
            failure = await self._producer.send(records, self._next_partition)
            if failure is None:
                if self._complaint:
                    logger.info("audit events are written to %s again", self.description)
                self._complaint = ""
                return True
            if failure.reason != self._complaint:
                self._complaint = failure.reason
                logger.warning(
                    "audit events wait for %s: %s; this is tried again and again",
                    self.description,
                    failure.reason,
                )
            await asyncio.sleep(_RETRY_S)

    def close(self) -> None:
        """The connection is one of the broker's, which closes it."""
