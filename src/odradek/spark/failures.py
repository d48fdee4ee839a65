"""What a failure of Spark means, in one line.

An error of ours, or of a user's function, is raised in a Python process of Spark's. It reaches the
driver inside an exception of Java's, between two stack traces and the description of the query.
`cause` finds the line that states the reason: pipelines, archives and uncaught errors show it.
`plain_errors` makes an error of ours arrive as that line alone.

This module imports neither pyspark nor anything that needs Java.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from odradek.client.errors import ClientError
from odradek.config.spelling import nearest
from odradek.protocol.errors import KafkaError

# Errors of ours that a restart cannot fix, by the names of their classes.
_PERMANENT: Final = frozenset(
    {
        "BadColumn",
        "BadOption",
        "DataLost",
        "DataMissing",
        "ReplayDiffers",
        "SettingsError",
        "WriteRefused",
    }
)
_ANALYSIS: Final = "AnalysisException"
# After this line Spark describes the query, in lines such as `Identifier: name [id = ...]`.
_DESCRIPTION: Final = "=== Streaming Query ==="
# `odradek.client.errors.ClientError: no topic`, at the start of a line or in Spark's sentence.
_OWN_ERROR: Final = re.compile(r"\bodradek(?:\.\w+)+\.([A-Z]\w*): (\S[^\n]*)")
_TRACEBACK: Final = "Traceback (most recent call last):"
# The last line of a traceback. Frames and source lines are indented.
_PYTHON_ERROR: Final = re.compile(r"^((?:\w+\.)*[A-Z]\w*)(?:: (.*))?$", re.MULTILINE)
_FRAME: Final = re.compile(r'^ +File "([^"]+)", line (\d+), in ', re.MULTILINE)
# What Spark and Java put around a reason.
_STATES: Final = re.compile(r"(?:\s*SQLSTATE: \w+)+(?:; line \d+ pos \d+;?)?\s*$")
_TASK: Final = re.compile(r"^.*most recent failure: .*?executor \w+\): ")
_STREAM: Final = re.compile(r"^\[STREAM_FAILED\] .*?terminated with exception: ")
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: ")
# The first line of an error that pyspark does not know; Java's own comes next.
_CALL: Final = "An error occurred while calling "
_LABEL: Final = re.compile(r"^\[[A-Z_.]+\] ")
_MAX_LENGTH: Final = 500
_MAX_DEPTH: Final = 10
_UPDATE_MODE: Final = (
    "the sink does not take outputMode('update') directly; write"
    " .outputMode('update').foreachBatch(odradek.spark.into_topic(topic=...,"
    " **{'kafka.bootstrap.servers': ...})) instead"
)
_CONTINUOUS: Final = (
    "trigger(continuous=...) is not supported by this data source: leave the trigger out, so that"
    " each micro-batch starts as soon as the last one is done"
)
_MODE: Final = "a batch query writes to a topic only with .mode('append')"
_DEAD_WORKER: Final = (
    "a Python process of Spark's died without an error: it was killed, or ran out of memory, or a"
    " library crashed; spark.sql.execution.pyspark.udf.faulthandler.enabled=true shows where"
)
_KAFKA_SOURCE: Final = (
    "Spark's own Kafka source is not installed; write format('odradek') instead of format('kafka'):"
    " the other options stay as they are"
)
_CHECKPOINT: Final = "set option('checkpointLocation', ...) to a directory for this query alone"


class _Advice(NamedTuple):
    """What to do about something that Spark says, which is recognised by a pattern. The text may
    depend on the match; None means that there is nothing to say about this one."""

    pattern: re.Pattern[str]
    text: str | Callable[[re.Match[str]], str | None]
    # Whether a query would fail again in the same way after a restart.
    is_permanent: bool = True


def _unknown_source(match: re.Match[str]) -> str | None:
    near = nearest(match[1], ("odradek",))
    return None if near is None else f"there is no data source {match[1]}; did you mean {near}?"


def _checkpoint_is_a_file(match: re.Match[str]) -> str:
    return f"the checkpoint cannot be in {match[1]}, which is a file; {_CHECKPOINT}"


def _no_checkpoint(match: re.Match[str]) -> str:
    return f"the checkpoint cannot be written: {_first_line(match[1])}; {_CHECKPOINT}"


# What a user of this data source meets, the most particular first. Java's stack, which follows the
# message, tells that it is about a checkpoint.
_ADVICE: Final = (
    _Advice(re.compile(r"odradek does not support Update"), _UPDATE_MODE),
    _Advice(re.compile(r"odradek does not support continuous processing"), _CONTINUOUS),
    _Advice(re.compile(r'"odradek" cannot be written in the "\w+" mode'), _MODE),
    _Advice(re.compile(r"Failed to find data source: kafka\b"), _KAFKA_SOURCE),
    _Advice(re.compile(r"Failed to find the data source: ([\w-]+)"), _unknown_source),
    _Advice(
        re.compile(
            r" is not a directory: (?:file:)?([^\n]+)\n(?s:.*)CheckpointFileManager",
        ),
        _checkpoint_is_a_file,
    ),
    _Advice(
        re.compile(
            r"^: ((?:java\.n?io\.|org\.apache\.hadoop\.)[^\n]+)\n(?s:.*)CheckpointFileManager",
            re.MULTILINE,
        ),
        _no_checkpoint,
        is_permanent=False,
    ),
    _Advice(re.compile(r"Python worker exited unexpectedly"), _DEAD_WORKER, is_permanent=False),
)


class _Cause(NamedTuple):
    """The reason, whether it is written for users, and whether the query would fail again after a
    restart, if that is known."""

    text: str
    is_explained: bool = False
    is_permanent: bool | None = None


def cause(error: object) -> str:
    """Returns one line that states why Spark failed."""
    return _find(error).text


def is_permanent(error: object) -> bool:
    """Returns whether the query would fail again in the same way after a restart."""
    found = _find(error)
    if found.is_permanent is not None:
        return found.is_permanent
    return any(_ANALYSIS in type(link).__name__ for link in _chain(error)) or any(
        _ANALYSIS in text for text in _texts(error)
    )


def is_explained(error: object) -> bool:
    """Returns whether `cause` is written for users: an error of ours, or one with advice."""
    return _find(error).is_explained


@contextmanager
def plain_errors() -> Iterator[None]:
    """Surrounds work that Spark asks one of its Python processes for; also usable as a decorator.
    An error that is written for users then reaches the driver as one line, without the traceback of
    that process.

    Spark's own functions read the variable when they report the error, and the process ends
    afterwards, so no other error is affected.
    """
    try:
        yield
    except Exception as error:
        if is_for_users(error):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def is_for_users(error: BaseException) -> bool:
    """Returns whether the message of an error says all that a user needs."""
    return isinstance(error, (ClientError, KafkaError)) or type(error).__name__ in _PERMANENT


def _find(error: object) -> _Cause:
    texts = _texts(error)
    for text in reversed(texts):
        if own := _OWN_ERROR.findall(text):
            name, message = own[-1]
            return _Cause(_shorten(message), is_explained=True, is_permanent=name in _PERMANENT)
    if (advised := _advised(texts)) is not None:
        return advised
    for text in reversed(texts):
        if _TRACEBACK in text and (line := _last_python_error(text)):
            return _Cause(line)
    for text in reversed(texts):
        if line := _first_line(text):
            return _Cause(line)
    return _Cause(type(error).__name__)


def _chain(error: object) -> Iterator[object]:
    """Yields an error and its causes, the outermost first. pyspark's errors have them as `cause`,
    Python's as `__cause__`."""
    for _ in range(_MAX_DEPTH):
        if error is None:
            return
        yield error
        error = getattr(error, "cause", None) or getattr(error, "__cause__", None)


def _texts(error: object) -> list[str]:
    """Returns the messages of an error and its causes without Spark's description of the query."""
    return [str(link).partition(_DESCRIPTION)[0] for link in _chain(error)]


def _advised(texts: list[str]) -> _Cause | None:
    for advice in _ADVICE:
        for match in filter(None, map(advice.pattern.search, texts)):
            text = advice.text if isinstance(advice.text, str) else advice.text(match)
            if text is not None:
                return _Cause(text, is_explained=True, is_permanent=advice.is_permanent)
    return None


def _last_python_error(text: str) -> str:
    """Returns the error at the end of the last traceback, and the place that raised it."""
    report = text.rpartition(_TRACEBACK)[2].partition("\n\tat ")[0]
    errors = list(_PYTHON_ERROR.finditer(report))
    if not errors:
        return ""
    error = errors[0]
    name = error[1].removeprefix("builtins.")
    message = _shorten(f"{name}: {error[2]}" if error[2] else name)
    frames = _FRAME.findall(report[: error.start()])
    if not frames:
        return message
    path, line = frames[-1]
    return f"{message} ({os.path.basename(path)}, line {line})"


def _first_line(text: str) -> str:
    """Returns the first line of Java's message without what Java and Spark put before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALL):
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    if not lines:
        return ""
    line = _TASK.sub("", _STREAM.sub("", lines[0]))
    while _JAVA_CLASS.match(line):
        line = _JAVA_CLASS.sub("", line)
    return _shorten(_LABEL.sub("", line))


def _shorten(line: str) -> str:
    line = _STATES.sub("", line).strip()
    return line if len(line) <= _MAX_LENGTH else f"{line[: _MAX_LENGTH - 4]} ..."
