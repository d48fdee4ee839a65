"""Writes the log lines of a machine's outcomes, and limits those that clients can provoke.

A client that repeats a wrong request would otherwise fill the application log. So of the lines with
`LogLine.is_limited` a runner writes `_MAX_LINES` in each interval of `_INTERVAL_S`. The first line
of a later interval says how many were left out.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from odradek.statemachine.machine import LogLine

_MAX_LINES: Final = 20
_INTERVAL_S: Final = 10.0


class LogLines:
    __slots__ = ("_interval_end_s", "_left_out", "_monotonic_s", "_written")

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._interval_end_s = 0.0
        self._written = 0
        self._left_out = 0

    def write(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            logger = logging.getLogger(line.logger)
            if not logger.isEnabledFor(logging.INFO):
                continue
            if not line.is_limited:
                logger.info(line.message, *line.arguments)
            elif self._may_write():
                left_out, self._left_out = self._left_out, 0
                more = f" ({left_out} similar lines were left out before)" if left_out else ""
                logger.info(line.message + more, *line.arguments)
            else:
                self._left_out += 1

    def _may_write(self) -> bool:
        now_s = self._monotonic_s()
        if now_s >= self._interval_end_s:
            self._interval_end_s = now_s + _INTERVAL_S
            self._written = 0
        self._written += 1
        return self._written <= _MAX_LINES
