"""Hints on standard error: what a user may want to know, said once."""

import sys


def hint(text: str) -> None:
    """Says something once, however often it applies."""
    if text not in _hinted:
        _hinted.add(text)
        print(f"hint: {text}", file=sys.stderr)


_hinted: set[str] = set()
