"""Which connector a log line is about, and the last lines of each connector.

Everything that is logged while a task runs is noted under its connector, whichever module or
library writes it: the event loop's task and the task's thread carry the name (`LOGGING_FOR`). The
worker's own lines about a connector set it too.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple
from urllib.parse import quote

from odradek.config.redaction import redact
from odradek.telemetry.log_files import RollingFile
from odradek.telemetry.logs import ROOT, LineFormatter
from odradek.wording import counted
from odradek.world import World

LOGGING_FOR: Final[ContextVar[str | None]] = ContextVar("odradek_connector", default=None)
_KEPT: Final = 1_000
_LOOK_S: Final = 0.2


def _lost(count: int) -> bytes:
    return f"... {counted(count, 'line')} could not be written\n".encode()


def _report(problem: str) -> None:
    sys.stderr.write(f"{problem}\n")


class Line(NamedTuple):
    number: int
    time_ms: int
    level: str
    text: str


class ConnectorLog(logging.Handler):
    """Keeps the last lines of each connector in memory, and writes all of them to a file of the
    connector if there is a directory for that."""

    def __init__(self, world: World, directory: str = "") -> None:
        super().__init__()
        self._world = world
        self._directory = directory
        self._files: dict[str, RollingFile] = {}
        self._formatter = LineFormatter(world.clock)
        self._lines: dict[str, deque[Line]] = {}
        self._next = 0
        self._last: logging.LogRecord | None = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Receives what our loggers and those of libraries write. Ours may pass on to the root or
        not, so one record can come twice."""
        loggers = [logging.getLogger(), logging.getLogger(ROOT)]
        for logger in loggers:
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(self)
            for file in self._files.values():
                file.close()

    def emit(self, record: logging.LogRecord) -> None:
        connector = LOGGING_FOR.get()
        if connector is None or record is self._last:
            return
        self._last = record
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        except Exception:  # noqa: BLE001 - as in all handlers: a bad line must harm nothing
            self.handleError(record)
            return
        lines = self._lines.setdefault(connector, deque(maxlen=_KEPT))
        lines.append(Line(self._next, int(record.created * 1000), record.levelname, redact(text)))
        self._next += 1
        if self._directory:
            line = self._formatter.format(record).encode("utf-8", "replace") + b"\n"
            self._file(connector).write(line, _lost)

    def _file(self, connector: str) -> RollingFile:
        """Returns the file of a connector, whose name may have characters that files have not."""
        if connector not in self._files:
            path = f"{self._directory}/{quote(connector, safe=' ')}.log"
            self._files[connector] = RollingFile(self._world.disk, self._world.clock, path, _report)
        return self._files[connector]

    def lines(self, connector: str) -> list[Line]:
        return list(self._lines.get(connector, ()))

    def forget(self, connector: str) -> None:
        self._lines.pop(connector, None)

    async def follow(self, connector: str) -> AsyncIterator[Line]:
        """Yields lines as they are written, beginning with those that are kept."""
        seen = -1
        while True:
            for line in self.lines(connector):
                if line.number > seen:
                    seen = line.number
                    yield line
            await asyncio.sleep(_LOOK_S)
