"""The delay before a failed query is started again. It doubles each time, up to a limit."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """The delay doubles with each consecutive failure. A batch that succeeds resets it.

    After more than `max_failures` consecutive failures the query is given up; None means never.
    """

    first_s: float = 1.0
    max_s: float = 60.0
    max_failures: int | None = None
    failures: int = 0

    def next_delay_s(self) -> float | None:
        """Counts one more failure. Returns the delay before the next start, or None to give up."""
        self.failures += 1
        if self.max_failures is not None and self.failures > self.max_failures:
            return None
        # The exponent is bounded as well: a pipeline may fail for years.
        return min(self.max_s, self.first_s * 2.0 ** min(self.failures - 1, 32))

    def succeeded(self) -> None:
        self.failures = 0
