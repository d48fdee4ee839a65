"""Which setting a misspelt name was probably meant to be.

Two names match when leaving out at most one letter of each makes them equal: that finds a
letter missing, added, changed, or swapped with its neighbour. It is a few look-ups and no
search, because names come over the wire, as many as a client likes.
"""

from collections.abc import Iterable

_LONGEST = 80


class Speller:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._index: dict[str, str] | None = None

    def nearest(self, name: str) -> str | None:
        if len(name) > _LONGEST:
            return None
        if self._index is None:
            # Made at the first mistake: most brokers never need it.
            self._index = {variant: known for known in self._names for variant in _variants(known)}
        plain = name.lower().replace("_", ".").replace("-", ".")
        for variant in _variants(plain):
            if (known := self._index.get(variant)) is not None:
                return known
        return None

    def hint(self, name: str) -> str:
        """The end of a sentence about an unknown name."""
        guess = self.nearest(name)
        return f"; did you mean {guess}?" if guess else ""


def _variants(name: str) -> list[str]:
    """A name, and what it becomes by leaving out one letter."""
    return [name, *(name[:position] + name[position + 1 :] for position in range(len(name)))]
