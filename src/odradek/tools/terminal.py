"""Standard input, output and error as bytes and file descriptors; no other module accesses them so.

Input is read in a thread, because reads of files, pipes and terminals may all block. The queue is
bounded, so a huge file is never in memory as a whole.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable

_CHUNK_BYTES = 256 * 1024
_QUEUED_CHUNKS = 4
_STANDARD_INPUT = 0


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


def input_is_terminal() -> bool:
    return os.isatty(_STANDARD_INPUT)


def watch_input_end(call: Callable[[], None]) -> None:
    """Calls `call` in the running event loop when standard input reaches its end, because the
    process at the other end has closed it."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(_STANDARD_INPUT, _CHUNK_BYTES):
            loop.remove_reader(_STANDARD_INPUT)
            call()

    loop.add_reader(_STANDARD_INPUT, read)


async def input_lines(prompt: bytes = b"") -> AsyncIterator[list[bytes]]:
    """Yields lists of lines of standard input, without line ends, as many at a time as are
    available.

    At a terminal the prompt is shown before each read.
    """
    chunks = _start_reading()
    rest = b""
    interactive = bool(prompt) and input_is_terminal()
    while True:
        if interactive:
            write_out(prompt)
            flush_out()
        chunk = await chunks.get()
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def _start_reading() -> "asyncio.Queue[bytes]":
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED_CHUNKS)

    def read() -> None:
        while True:
            try:
                chunk = os.read(_STANDARD_INPUT, _CHUNK_BYTES)
            except OSError:
                return
            queued = queue.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(queued, loop).result()
            except (RuntimeError, asyncio.CancelledError):
                queued.close()  # The command has ended meanwhile, and nobody will await it.
                return
            if not chunk:
                return

    # A daemon thread, because a read from a terminal cannot be interrupted.
    threading.Thread(target=read, name="standard-input", daemon=True).start()
    return queue


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
