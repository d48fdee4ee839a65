"""How long a failed task waits before it is started again: longer after each failure."""

from typing import Final

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0
_WELL_AFTER_S: Final = 300.0


class Backoff:
    """A task that ran well for some minutes is forgiven its failures."""

    def __init__(self) -> None:
        self._failures = 0

    def next_s(self, ran_s: float) -> float:
        """Returns the pause after a failure of a task that had run for `ran_s`."""
        if ran_s >= _WELL_AFTER_S:
            self._failures = 0
        self._failures += 1
        return float(min(_FIRST_S * 2 ** (self._failures - 1), _LONGEST_S))
