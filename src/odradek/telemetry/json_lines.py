"""Log lines as JSON objects, one a line, for programs that collect logs.

    {"timestamp": "2026-11-15T05:06:52.123Z", "level": "INFO", "logger": "odradek.server",
     "message": "broker 1 is ready at 127.0.0.1:9092, 141 ms later"}

(in one line). A traceback is the text `exception`. A message of the request log is a list of words
`name=value`: its values are fields of the object too, numbers as numbers, so that nobody has to
parse the text. Everything outside ASCII is escaped, so text from clients can neither begin a line
nor reach a terminal.
"""

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from odradek.config.redaction import redact
from odradek.world import Clock

# One word of a format, as in `connection=%s:%d`.
_WORD = re.compile(r"(\w+)=(\S+)")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line. `with_fields` names the loggers whose messages are lists of
    words; `level_names` are the names of levels."""

    def __init__(
        self, clock: Clock, *, level_names: dict[int, str], with_fields: frozenset[str]
    ) -> None:
        super().__init__()
        self._clock = clock
        self._level_names = level_names
        self._with_fields = with_fields

    def format(self, record: logging.LogRecord) -> str:
        # The clock of the world, as in the other format.
        second, milliseconds = divmod(self._clock.now_ms(), 1000)
        moment = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
        line: dict[str, object] = {
            "timestamp": moment,
            "level": self._level_names.get(record.levelno, record.levelname),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.name in self._with_fields:
            line |= dict(_fields(record))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return redact(json.dumps(line, separators=(",", ":"), default=str))


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Yields the names and values of a message. They come from the format and its arguments, not
    from the text, because a client may have put spaces and equals signs into its name."""
    arguments = list(record.args) if isinstance(record.args, tuple) else []
    for name, form in _WORD.findall(record.msg):
        taken, arguments = arguments[: form.count("%")], arguments[form.count("%") :]
        if len(taken) == 1 and isinstance(taken[0], float):
            yield name, round(taken[0], 3)
        elif len(taken) == 1 and isinstance(taken[0], int):
            yield name, taken[0]
        else:
            yield name, form % tuple(taken)
