"""Which name a misspelt one was probably meant to be: settings, options, commands, topics.

`Speller` compares names that come over the wire, as many as a client likes, so it makes a few
look-ups and no search: two names match when leaving out at most one letter of each makes them
equal. That finds a letter missing, added, changed, or swapped with its neighbour.
`did_you_mean` serves commands and files of this machine and also finds names further away.
"""

from collections.abc import Iterable
from typing import Final

_MAX_LENGTH: Final = 80
# How alike two names must be, by `difflib`: below that, `stop` would be `topics`.
_LEAST_ALIKE: Final = 0.62


class Speller:
    """The names that exist; its index is built at the first mistake."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._index: dict[str, str] | None = None

    def nearest(self, name: str) -> str | None:
        """Returns the name that differs in one letter at most, or None."""
        if len(name) > _MAX_LENGTH:
            return None
        if self._index is None:
            self._index = {
                variant: known for known in self._names for variant in _variants(_plain(known))
            }
        for variant in _variants(_plain(name)):
            if (known := self._index.get(variant)) is not None:
                return known
        return None

    def hint(self, name: str) -> str:
        """Returns the end of a sentence about an unknown name: `; did you mean X?`, or nothing."""
        return _hint(self.nearest(name))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean X?`, or nothing when no known name is near."""
    return _hint(nearest(name, known))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most like this one, or None when none is near."""
    known = list(known)
    near = Speller(known).nearest(name)
    if near is not None:
        return near
    from difflib import get_close_matches  # noqa: PLC0415 - 5 ms, and only for mistakes

    plain = {_plain(candidate): candidate for candidate in reversed(known)}
    matches = get_close_matches(_plain(name), plain, n=1, cutoff=_LEAST_ALIKE)
    return next((plain[found] for found in matches), None)


def _hint(near: str | None) -> str:
    return f"; did you mean {near}?" if near is not None else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")


def _variants(name: str) -> list[str]:
    """Returns a name, and what it becomes by leaving out one letter."""
    return [name, *(name[:position] + name[position + 1 :] for position in range(len(name)))]
