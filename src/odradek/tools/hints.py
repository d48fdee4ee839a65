"""Hints for the user on standard error, each printed once."""

import sys


def hint(text: str) -> None:
    """Prints a hint, unless it was printed before."""
    if text not in _hinted:
        _hinted.add(text)
        print(f"hint: {text}", file=sys.stderr)


_hinted: set[str] = set()
