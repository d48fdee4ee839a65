"""What happened, one readable line an event: virtual time, host, event.

Two runs of one seed must give the same lines. Lines hold only what the seed decides: no
addresses, no wall clock, no set order.
"""

import hashlib
from collections.abc import Callable, Iterator


class Trace:
    __slots__ = ("_is_sealed", "_lines", "_now_s")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lines: list[str] = []
        self._is_sealed = False

    def add(self, host: str, event: str) -> None:
        if not self._is_sealed:
            self._lines.append(f"{self._now_s():14.6f} {host:<12} {event}")

    def seal(self, event: str) -> None:
        """The last line; what still unwinds afterwards leaves no trace."""
        self.add("-", event)
        self._is_sealed = True
        self._now_s = float

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def text(self) -> str:
        return "".join(line + "\n" for line in self._lines)

    def digest(self) -> str:
        """Equal digests mean equal traces."""
        return hashlib.sha256(self.text().encode()).hexdigest()
