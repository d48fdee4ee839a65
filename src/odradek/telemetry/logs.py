"""The application's own logs: stdlib logging, one line a message, a file for each concern.

Lines have Kafka's format, `[2026-11-15 05:06:52,123] INFO message (odradek.server)`, with times in
UTC, so the same tools read them. Text from clients cannot begin a line of its own: control
characters are escaped, and the lines of a traceback are indented. `odradek.logs.format=json` makes
each line a JSON object instead (`telemetry/json_lines.py`).

A message goes to the file of its logger, or else to `server.log`, and to standard error if that is
a terminal. Loggers belong to the process, as in any Python program: brokers that run in one process
share them.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TextIO
from weakref import WeakMethod

from odradek.config.redaction import redact
from odradek.telemetry.log_files import DEFAULT_MAX_BACKUPS, DEFAULT_MAX_BYTES, RollingFile
from odradek.wording import counted
from odradek.world import Clock, Disk, SystemClock

ROOT: Final = "odradek"

SERVER: Final = "odradek.server"
CONTROLLER: Final = "odradek.controller"
STATE_CHANGES: Final = "odradek.state_change"
CLEANER: Final = "odradek.log_cleaner"
REQUESTS: Final = "odradek.request"
AUTHORIZER: Final = "odradek.authorizer"

# Messages of these loggers go to these files; all others go to `server.log`.
SERVER_LOG: Final = "server.log"
FILES: Final[Mapping[str, str]] = {
    CONTROLLER: "controller.log",
    STATE_CHANGES: "state-change.log",
    CLEANER: "log-cleaner.log",
    REQUESTS: "request.log",
    AUTHORIZER: "authorizer.log",
}

# Known before anything is logged. Levels can be set of other loggers too, once they exist.
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

# Kafka's names of the same loggers, which its tools and its documentation use.
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

# The formats of lines: `odradek.logs.format`.
TEXT: Final = "text"
JSON: Final = "json"

# Kafka's names of levels, which its tools set and show.
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

# The levels at the start. A logger that is not named has the level of its parent.
_default_levels: Final = {ROOT: logging.INFO, REQUESTS: logging.WARNING}
_subscribers: Final[list[WeakMethod[Callable[[], None]]]] = []

_ESCAPES: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
} | {0x0A: "\\n", 0x0D: "\\r", 0x09: "\t"}


class LineFormatter(logging.Formatter):
    """Formats a record as one line; a traceback follows, indented."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._second = -1
        self._shown_second = ""

    def format(self, record: logging.LogRecord) -> str:
        # The clock of the world and not that of the record, so that a simulation repeats exactly.
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
        return redact(line)


def formatter_for(line_format: str, clock: Clock) -> logging.Formatter:
    """Returns what formats lines as `odradek.logs.format` says."""
    if line_format == TEXT:
        return LineFormatter(clock)
    # Imported here: most brokers write text.
    from odradek.telemetry.json_lines import JsonFormatter  # noqa: PLC0415

    return JsonFormatter(clock, level_names=_NAMES, with_fields=frozenset({REQUESTS}))


class LogFiles(logging.Handler):
    """Writes each message to the file of its logger, in one directory."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        clock: Clock | None = None,
        *,
        line_format: str = TEXT,
        files: Mapping[str, str] = FILES,
        server_log: str = SERVER_LOG,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_backups: int = DEFAULT_MAX_BACKUPS,
    ) -> None:
        super().__init__()
        clock = clock or SystemClock()
        self.setFormatter(formatter_for(line_format, clock))

        def file(name: str) -> RollingFile:
            path = f"{directory.rstrip('/')}/{name}"
            return RollingFile(
                disk, clock, path, self._report_error, max_bytes=max_bytes, max_backups=max_backups
            )

        self._kept_back: list[str] | None = []
        self._server_log = file(server_log)
        self._files = {logger: file(name) for logger, name in files.items()}

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return sum(file.lost for file in (self._server_log, *self._files.values()))

    def report_errors(self) -> None:
        """Called when the broker has started: from now on, errors of log files are reported on
        standard error. Those so far were kept back, because the same fault may keep the broker from
        starting, and then its own error explains it better."""
        kept_back, self._kept_back = self._kept_back or [], None
        for complaint in kept_back:
            self._report_error(complaint)

    def _report_error(self, complaint: str) -> None:
        if self._kept_back is not None:
            self._kept_back.append(complaint)
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


def one_file(
    path: str, disk: Disk, clock: Clock | None = None, *, line_format: str = TEXT
) -> LogFiles:
    """Returns a handler that writes everything to one file."""
    directory, _, name = path.rpartition("/")
    return LogFiles(
        directory or ".", disk, clock, line_format=line_format, files={}, server_log=name
    )


class Logging:
    """What `start_logging` has set up; `stop` removes it."""

    def __init__(self, handlers: list[logging.Handler]) -> None:
        self._handlers = handlers

    def stop(self) -> None:
        for name in _HANDLED_LOGGERS:
            logger = logging.getLogger(name)
            for handler in self._handlers:
                logger.removeHandler(handler)
            logger.propagate = not logger.handlers
        for handler in self._handlers:
            handler.close()


# asyncio logs exceptions of tasks that were never awaited: they belong to our logs.
_HANDLED_LOGGERS: Final = (ROOT, "asyncio")


def start_logging(
    level: str = "INFO",
    *,
    clock: Clock | None = None,
    files: LogFiles | None = None,
    stream: TextIO | None = None,
    stream_level: str | None = None,
    stream_format: str = TEXT,
) -> Logging:
    """Writes messages of `odradek` and its packages from `level` on to files, and to a stream:
    standard error if there are no files. `stream_level` is the level of the stream, if it differs
    from that of the files; `stream_format` is the format of its lines."""
    handlers: list[logging.Handler] = [] if files is None else [files]
    if stream is not None or files is None:
        terminal = logging.StreamHandler(stream or sys.stderr)
        terminal.setFormatter(formatter_for(stream_format, clock or SystemClock()))
        terminal.setLevel(LEVELS[(stream_level or level).upper()])
        terminal.addFilter(lambda record: not getattr(record, "is_told", False))
        handlers.append(terminal)
    for name in _HANDLED_LOGGERS:
        logger = logging.getLogger(name)
        for handler in handlers:
            logger.addHandler(handler)
        logger.propagate = False
    _default_levels[ROOT] = LEVELS[level.upper()]
    for name in _default_levels:
        set_level(name, None)
    return Logging(handlers)


TOLD: Final = {"is_told": True}
"""The `extra` of a message that goes to the files only: the terminal shows it in other words."""


# Levels


def loggers() -> list[str]:
    """Returns the names of our loggers: those that are declared here, and those that exist."""
    existing = (
        name
        for name, logger in logging.root.manager.loggerDict.items()
        if name.startswith(f"{ROOT}.") and isinstance(logger, logging.Logger)
    )
    return sorted({*LOGGERS, *existing})


def levels() -> dict[str, str]:
    """Returns the level of every logger, by our names and by Kafka's."""
    shown = {name: level_of(name) for name in loggers()}
    return shown | {name: shown[ours] for name, ours in KAFKA_NAMES.items()}


def level_of(name: str) -> str:
    level = logging.getLogger(name).getEffectiveLevel()
    # Other code of the process may set a level between ours: the next higher one is shown.
    return _NAMES.get(level) or next(
        name for name, number in reversed([*LEVELS.items()]) if number >= min(level, LEVELS["OFF"])
    )


def require_logger(name: str) -> str:
    """Returns our name of a logger. Raises `ValueError` with the names that exist."""
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
    """Sets the level of a logger; `None` restores the level at the start.

    Raises `ValueError` with the names that are possible."""
    ours = require_logger(name)
    number = _default_levels.get(ours, logging.NOTSET) if level is None else require_level(level)
    logging.getLogger(ours).setLevel(number)
    for subscriber in list(_subscribers):
        if (changed := subscriber()) is not None:
            changed()


def subscribe(changed: Callable[[], None]) -> Callable[[], None]:
    """Calls the method `changed` after every change of a level, so that code on a hot path need not
    ask for the level each time. It ends when the method's object is freed, or with a call of the
    function that this returns."""
    subscriber = WeakMethod(changed, _forget)
    _subscribers.append(subscriber)
    return lambda: _forget(subscriber)


def _forget(subscriber: WeakMethod[Callable[[], None]]) -> None:
    if subscriber in _subscribers:
        _subscribers.remove(subscriber)
