"""Hints for the user on standard error, each printed once."""

import sys
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from typing import Final

# When a person who waits for an answer is told that there is none.
SILENCE_S: Final = 3.0


def hint(text: str) -> None:
    """Prints a hint, unless it was printed before."""
    if text not in _hinted:
        _hinted.add(text)
        print(f"hint: {text}", file=sys.stderr)


def hint_if_none(found: Sized, text: str) -> None:
    """Prints a hint if a list is empty and a person looks at it; scripts take no output for the
    answer, as from Kafka's tools."""
    if not found and sys.stderr.isatty():
        hint(text)


@contextmanager
def hint_if_silent(url: str, what: str) -> Iterator[None]:
    """Says meanwhile that a service has not answered, if the body takes long. `what` it should
    be."""
    import threading

    text = f"{url} has not answered for {SILENCE_S:g} seconds; waiting. Is it {what}, and well?"
    timer = threading.Timer(SILENCE_S, hint, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_hinted: set[str] = set()
