"""The application's own log: stdlib logging, one line a message.

Lines look as Kafka's do, `[2026-11-15 05:06:52,123] INFO message (odradek.server)`, so the
same tools read them. What came over the wire cannot begin a line of its own: control
characters are escaped, and the lines of a traceback are indented.
"""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

from odradek.world import Clock, Disk, SystemClock

ROOT: Final = "odradek"

SERVER: Final = "odradek.server"
REQUESTS: Final = "odradek.requests"
CONTROLLER: Final = "odradek.controller"
STATE_CHANGES: Final = "odradek.state.changes"
CLEANER: Final = "odradek.cleaner"
AUTHORIZER: Final = "odradek.authorizer"
CATEGORIES: Final = (SERVER, REQUESTS, CONTROLLER, STATE_CHANGES, CLEANER, AUTHORIZER)

# Kafka's names for levels, which its tools set and show.
_LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_NAMES: Final = {level: name for name, level in _LEVELS.items()}

_ESCAPES: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
} | {0x0A: "\\n", 0x0D: "\\r", 0x09: "\t"}


class LineFormatter(logging.Formatter):
    """A record as one line; a traceback follows, indented."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        # The world's clock and not the record's, so that a simulation repeats byte for byte.
        now_ms = self._clock.now_ms()
        moment = datetime.fromtimestamp(now_ms // 1000, UTC)
        level = _NAMES.get(record.levelno, record.levelname)
        message = record.getMessage().translate(_ESCAPES)
        line = f"[{moment:%Y-%m-%d %H:%M:%S},{now_ms % 1000:03d}] {level} {message} ({record.name})"
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            line = "\n    ".join([line, *(part.translate(_ESCAPES) for part in trace)])
        return line


class DiskHandler(logging.Handler):
    """Appends to a file, and begins a new one when it is full; `lost` counts lines that the
    disk did not take, because a full disk must not stop the broker a second time."""

    def __init__(self, disk: Disk, path: str, most_bytes: int = 64 << 20, keep: int = 4) -> None:
        super().__init__()
        self._disk = disk
        self._path = path
        self._most_bytes = most_bytes
        self._keep = keep
        self._file = disk.open(path, create=True)
        self._position = self._file.size()
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        try:
            if self._position and self._position + len(line) > self._most_bytes:
                self._roll()
            self._file.write_at(self._position, [line])
            self._position += len(line)
        except OSError:
            self.lost += 1

    def _roll(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            if self._disk.exists(f"{self._path}.{number}"):
                self._disk.rename(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        self._disk.rename(self._path, f"{self._path}.1")
        self._file.close()
        self._file = self._disk.open(self._path, create=True)
        self._position = 0

    def close(self) -> None:
        self._file.close()
        super().close()


def start_logging(
    level: str = "INFO",
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    path: str | None = None,
    stream: TextIO | None = None,
) -> logging.Handler:
    """Sends the messages of `odradek` and its parts to a file, or else to a stream (standard
    error). Returns the handler; `stop_logging` takes it away again."""
    handler: logging.Handler
    if disk is not None and path is not None:
        handler = DiskHandler(disk, path)
    else:
        handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(clock or SystemClock()))
    root = logging.getLogger(ROOT)
    root.addHandler(handler)
    root.propagate = False
    set_level(ROOT, level)
    return handler


def stop_logging(handler: logging.Handler) -> None:
    root = logging.getLogger(ROOT)
    root.removeHandler(handler)
    root.propagate = not root.handlers
    handler.close()


def levels() -> dict[str, str]:
    """The level of every category, as DescribeConfigs shows the loggers of a broker."""
    return {
        name: _NAMES.get(logging.getLogger(name).getEffectiveLevel(), "INFO")
        for name in (ROOT, *CATEGORIES)
    }


def set_level(name: str, level: str | None) -> None:
    """Changes a category while running; `None` gives it back to its parent.

    Raises `ValueError` with a line that says what is possible."""
    if name != ROOT and name not in CATEGORIES:
        raise ValueError(f"there is no logger {name}; there are {', '.join((ROOT, *CATEGORIES))}")
    if level is None:
        logging.getLogger(name).setLevel(logging.INFO if name == ROOT else logging.NOTSET)
    elif level.upper() in _LEVELS:
        logging.getLogger(name).setLevel(_LEVELS[level.upper()])
    else:
        raise ValueError(f"there is no level {level}; there are {', '.join(_LEVELS)}")
