"""Standard output and error as bytes, a progress line and tables. No other module accesses them so;
`standard_input` is apart, because it needs an event loop, and many tools do without one.
"""

import os
import sys


def print_json(value: object) -> None:
    import json

    sys.stdout.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n")


def write_out(data: bytes) -> None:
    """Writes bytes unchanged, so that any record can be printed and piped."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def flush_out() -> None:
    sys.stdout.flush()
    sys.stdout.buffer.flush()


def shows_colours() -> bool:
    """Returns whether standard output is a terminal, and the user has not switched colours off
    (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


class Progress:
    """A progress line on stderr that is overwritten in place. Nothing is printed unless stderr is a
    terminal."""

    def __init__(self, noun: str, total: int | None = None, interval_s: float = 0.1) -> None:
        self._noun = noun
        self._total = total
        self._interval_s = interval_s
        self._shown_s = 0.0
        self._visible = sys.stderr.isatty()
        self._drawn = False

    def update(self, done: int, now_s: float) -> None:
        if not self._visible or now_s - self._shown_s < self._interval_s:
            return
        self._shown_s = now_s
        self._drawn = True
        share = f" of {self._total:,} ({done * 100 // self._total}%)" if self._total else ""
        sys.stderr.write(f"\r\x1b[K{done:,}{share} {self._noun}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def table(headers: list[str], rows: list[list[str]]) -> str:
    """Formats a table; each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headers, *rows]
    )
