"""Randomness and fresh identifiers, repeatable when made from a seed."""

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uuid


class Randomness:
    """Unpredictable by default; repeats the same sequence for the same seed."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311

    def bytes(self, length: int) -> bytes:
        return self._random.getrandbits(8 * length).to_bytes(length, "big") if length else b""

    def integer_below(self, limit: int) -> int:
        """Returns an integer from 0 up to, but not including, `limit`."""
        return self._random.randrange(limit)

    def fraction(self) -> float:
        """Returns a number from 0 up to, but not including, 1: for jitter and sampling."""
        return self._random.random()

    def uuid(self) -> "uuid.UUID":
        from uuid import UUID  # noqa: PLC0415 - its import takes 2 ms, and few need it

        return UUID(bytes=self.bytes(16), version=4)
