"""How long to wait before a query that failed is started again: longer each time, within bounds."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubles with each failure in a row; a batch that ends well begins anew.

    `max_failures` is how many in a row are borne; None is any number.
    """

    first_s: float = 1.0
    max_s: float = 60.0
    max_failures: int | None = None
    failures: int = 0

    def next_delay_s(self) -> float | None:
        """The delay after one more failure; None if it was one too many."""
        self.failures += 1
        if self.max_failures is not None and self.failures > self.max_failures:
            return None
        # The exponent is bounded as well: a pipeline may fail for years.
        return min(self.max_s, self.first_s * 2.0 ** min(self.failures - 1, 32))

    def succeeded(self) -> None:
        self.failures = 0
