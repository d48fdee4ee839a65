"""The application's own logs: stdlib logging, one line a message, a file for each concern.

Lines look as Kafka's do, `[2026-11-15 05:06:52,123] INFO message (odradek.server)`, times in
UTC, so the same tools read them. What came over the wire cannot begin a line of its own:
control characters are escaped, and the lines of a traceback are indented.

A message goes to the file of its logger, or else to `server.log`, and (if there is a terminal)
to standard error. Loggers are the process's, as in any Python program: brokers that share a
process share them.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TextIO
from weakref import WeakMethod

from odradek.telemetry.log_files import DEFAULT_KEPT, DEFAULT_MOST_BYTES, RollingFile
from odradek.wording import counted
from odradek.world import Clock, Disk, SystemClock

ROOT: Final = "odradek"

SERVER: Final = "odradek.server"
CONTROLLER: Final = "odradek.controller"
STATE_CHANGES: Final = "odradek.state_change"
CLEANER: Final = "odradek.log_cleaner"
REQUESTS: Final = "odradek.request"
AUTHORIZER: Final = "odradek.authorizer"

# What is named here goes to this file alone; everything else goes to the root's.
SERVER_LOG: Final = "server.log"
FILES: Final[Mapping[str, str]] = {
    CONTROLLER: "controller.log",
    STATE_CHANGES: "state-change.log",
    CLEANER: "log-cleaner.log",
    REQUESTS: "request.log",
    AUTHORIZER: "authorizer.log",
}

# Known before anything was logged. Others that exist by then may be set too.
LOGGERS: Final = (
    ROOT,
    SERVER,
    *FILES,
    "odradek.storage",
    "odradek.replication",
    "odradek.metadata",
    "odradek.groups",
    "odradek.transactions",
    "odradek.client",
)

# What Kafka calls them: its tools, and what people have written about it, say these names.
KAFKA_NAMES: Final[Mapping[str, str]] = {
    "root": ROOT,
    "kafka": ROOT,
    "org.apache.kafka": ROOT,
    "kafka.server": SERVER,
    "kafka.controller": CONTROLLER,
    "org.apache.kafka.controller": CONTROLLER,
    "state.change.logger": STATE_CHANGES,
    "kafka.log.LogCleaner": CLEANER,
    "org.apache.kafka.storage.internals.log.LogCleaner": CLEANER,
    "kafka.request.logger": REQUESTS,
    "kafka.network.RequestChannel$": REQUESTS,
    "kafka.authorizer.logger": AUTHORIZER,
    "kafka.log": "odradek.storage",
    "kafka.coordinator.group": "odradek.groups",
    "kafka.coordinator.transaction": "odradek.transactions",
}

TRACE: Final = 5

# Kafka's names for levels, which its tools set and show.
LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
_NAMES: Final = {level: name for name, level in LEVELS.items()}

# Until somebody says otherwise; what is not named has its parent's level.
_default_levels: Final = {ROOT: logging.INFO, REQUESTS: logging.WARNING}
_subscribers: Final[list[WeakMethod[Callable[[], None]]]] = []

_ESCAPES: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
} | {0x0A: "\\n", 0x0D: "\\r", 0x09: "\t"}


class LineFormatter(logging.Formatter):
    """A record as one line; a traceback follows, indented."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._second = -1
        self._shown_second = ""

    def format(self, record: logging.LogRecord) -> str:
        # The world's clock and not the record's, so that a simulation repeats byte for byte.
        second, milliseconds = divmod(self._clock.now_ms(), 1000)
        if second != self._second:
            self._shown_second = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M:%S}"
            self._second = second
        level = _NAMES.get(record.levelno, record.levelname)
        message = record.getMessage()
        if not message.isprintable():
            message = message.translate(_ESCAPES)
        line = f"[{self._shown_second},{milliseconds:03d}] {level} {message} ({record.name})"
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            line = "\n    ".join([line, *(part.translate(_ESCAPES) for part in trace)])
        return line


class LogFiles(logging.Handler):
    """Writes each message to the file of its logger, in one directory."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        clock: Clock | None = None,
        *,
        files: Mapping[str, str] = FILES,
        server_log: str = SERVER_LOG,
        max_bytes: int = DEFAULT_MOST_BYTES,
        kept: int = DEFAULT_KEPT,
    ) -> None:
        super().__init__()
        clock = clock or SystemClock()
        self.setFormatter(LineFormatter(clock))

        def file(name: str) -> RollingFile:
            path = f"{directory.rstrip('/')}/{name}"
            return RollingFile(disk, clock, path, self._complain, max_bytes=max_bytes, kept=kept)

        self._unsaid: list[str] | None = []
        self._server_log = file(server_log)
        self._files = {logger: file(name) for logger, name in files.items()}

    @property
    def lost(self) -> int:
        """How many lines the disk did not take."""
        return sum(file.lost for file in (self._server_log, *self._files.values()))

    def speak_up(self) -> None:
        """From now on standard error is told when a file cannot be written. Until then it waits:
        what keeps the files from being written may keep the broker from starting, which then
        has a better word for it."""
        unsaid, self._unsaid = self._unsaid or [], None
        for complaint in unsaid:
            self._complain(complaint)

    def _complain(self, complaint: str) -> None:
        if self._unsaid is not None:
            self._unsaid.append(complaint)
            return
        # Standard error may be closed, or on the same full disk.
        with suppress(OSError, ValueError):
            sys.stderr.write(f"odradek: {complaint}\n")
            sys.stderr.flush()

    def emit(self, record: logging.LogRecord) -> None:
        file = self._files.get(record.name, self._server_log)
        file.write(self._line(record), self._missing)

    def _missing(self, count: int) -> bytes:
        text = "%s missing here: the disk did not take them"
        lines = counted(count, "line is", "lines are")
        return self._line(logging.makeLogRecord(_record(logging.WARNING, text, lines)))

    def _line(self, record: logging.LogRecord) -> bytes:
        return (self.format(record) + "\n").encode("utf-8", "backslashreplace")

    def close(self) -> None:
        for file in (self._server_log, *self._files.values()):
            file.close()
        super().close()


def _record(level: int, text: str, *arguments: object) -> dict[str, object]:
    return {"name": SERVER, "levelno": level, "msg": text, "args": arguments}


def one_file(path: str, disk: Disk, clock: Clock | None = None) -> LogFiles:
    """Everything into this one file."""
    directory, _, name = path.rpartition("/")
    return LogFiles(directory or ".", disk, clock, files={}, server_log=name)


class Logging:
    """What `start_logging` set up; `stop` takes it away again."""

    def __init__(self, handlers: list[logging.Handler]) -> None:
        self._handlers = handlers

    def stop(self) -> None:
        for name in _LISTENED:
            logger = logging.getLogger(name)
            for handler in self._handlers:
                logger.removeHandler(handler)
            logger.propagate = not logger.handlers
        for handler in self._handlers:
            handler.close()


# Tasks that nobody waited for tell asyncio of their failures: these belong to our story.
_LISTENED: Final = (ROOT, "asyncio")


def start_logging(
    level: str = "INFO",
    *,
    clock: Clock | None = None,
    files: LogFiles | None = None,
    stream: TextIO | None = None,
    stream_level: str | None = None,
) -> Logging:
    """Sends what `odradek` and its parts say from `level` on to files, and to a stream: standard
    error if there are no files. `stream_level` keeps a stream quieter than the files."""
    handlers: list[logging.Handler] = [] if files is None else [files]
    if stream is not None or files is None:
        terminal = logging.StreamHandler(stream or sys.stderr)
        terminal.setFormatter(LineFormatter(clock or SystemClock()))
        terminal.setLevel(LEVELS[(stream_level or level).upper()])
        terminal.addFilter(lambda record: not getattr(record, "is_told", False))
        handlers.append(terminal)
    for name in _LISTENED:
        logger = logging.getLogger(name)
        for handler in handlers:
            logger.addHandler(handler)
        logger.propagate = False
    _default_levels[ROOT] = LEVELS[level.upper()]
    for name in _default_levels:
        set_level(name, None)
    return Logging(handlers)


TOLD: Final = {"is_told": True}
"""The `extra` of a message that the terminal is told in other words: it is for the files."""


# Levels


def loggers() -> list[str]:
    """Every logger of ours, declared or met, by name."""
    met = (
        name
        for name, logger in logging.root.manager.loggerDict.items()
        if name.startswith(f"{ROOT}.") and isinstance(logger, logging.Logger)
    )
    return sorted({*LOGGERS, *met})


def levels() -> dict[str, str]:
    """The level of every logger, by our names and by Kafka's."""
    shown = {name: level_of(name) for name in loggers()}
    return shown | {name: shown[ours] for name, ours in KAFKA_NAMES.items()}


def level_of(name: str) -> str:
    level = logging.getLogger(name).getEffectiveLevel()
    # A level between ours may come from other code of the process: the next quieter name holds.
    return _NAMES.get(level) or next(
        name for name, number in reversed([*LEVELS.items()]) if number >= min(level, LEVELS["OFF"])
    )


def require_logger(name: str) -> str:
    """Our name of a logger. Raises `ValueError` with a line that says which there are."""
    ours = KAFKA_NAMES.get(name, name)
    known = loggers()
    if ours not in known:
        raise ValueError(f"there is no logger {name}; there are {', '.join(known)}")
    return ours


def require_level(level: str) -> int:
    number = LEVELS.get(level.strip().upper())
    if number is None:
        raise ValueError(f"there is no level {level}; there are {', '.join(LEVELS)}")
    return number


def set_level(name: str, level: str | None) -> None:
    """Changes a logger while running; `None` gives it back the level it started with.

    Raises `ValueError` with a line that says what is possible."""
    ours = require_logger(name)
    number = _default_levels.get(ours, logging.NOTSET) if level is None else require_level(level)
    logging.getLogger(ours).setLevel(number)
    for subscriber in list(_subscribers):
        if (tell := subscriber()) is not None:
            tell()


def subscribe(changed: Callable[[], None]) -> Callable[[], None]:
    """Calls the method `changed` after every change of a level, for whoever asks once, so as not
    to ask each time: until its object goes, or the function is called that this returns."""
    subscriber = WeakMethod(changed, _forget)
    _subscribers.append(subscriber)
    return lambda: _forget(subscriber)


def _forget(subscriber: WeakMethod[Callable[[], None]]) -> None:
    if subscriber in _subscribers:
        _subscribers.remove(subscriber)
