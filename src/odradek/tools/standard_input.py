"""Standard input in an event loop: its lines, and its end. No other module reads it.

It is read in a thread, because reads of files, pipes and terminals may all block. The queue is
bounded, so a huge file is never in memory as a whole.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError

from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import flush_out, write_out

_CHUNK_BYTES = 256 * 1024
_QUEUED_CHUNKS = 4
_STANDARD_INPUT = 0


def input_is_terminal() -> bool:
    return os.isatty(_STANDARD_INPUT)


def watch_input_end(call: Callable[[], None]) -> None:
    """Calls `call` in the running event loop when standard input reaches its end, because the
    process at the other end has closed it. Raises `CommandFailed` if there is no other end."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(_STANDARD_INPUT, _CHUNK_BYTES):
            loop.remove_reader(_STANDARD_INPUT)
            call()

    try:
        loop.add_reader(_STANDARD_INPUT, read)
    except OSError:
        # Files and /dev/null cannot be waited for.
        raise CommandFailed(
            "--until-input-closes needs a pipe or a terminal as standard input, which another"
            " program closes; leave it out to run until Ctrl-C"
        ) from None


async def input_lines(prompt: bytes = b"") -> AsyncIterator[list[bytes]]:
    """Yields lists of lines of standard input, without line ends, as many at a time as are
    available.

    At a terminal the prompt is shown before each read. Raises `CommandFailed` if standard input
    cannot be read, for instance because it was opened for writing.
    """
    chunks = _start_reading()
    rest = b""
    interactive = bool(prompt) and input_is_terminal()
    while True:
        if interactive:
            write_out(prompt)
            flush_out()
        chunk = await chunks.get()
        if isinstance(chunk, OSError):
            raise CommandFailed(f"cannot read standard input: {chunk.strerror}")
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def _start_reading() -> "asyncio.Queue[bytes | OSError]":
    """Returns the queue of chunks. Nothing comes after an empty chunk, the end, or an error."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue(_QUEUED_CHUNKS)

    def read() -> None:
        while True:
            chunk: bytes | OSError
            try:
                chunk = os.read(_STANDARD_INPUT, _CHUNK_BYTES)
            except OSError as error:
                chunk = error
            queued = queue.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(queued, loop).result()
            except (RuntimeError, CancelledError):
                queued.close()  # The command has ended meanwhile, and nobody will await it.
                return
            if not chunk or isinstance(chunk, OSError):
                return

    # A daemon thread, because a read from a terminal cannot be interrupted.
    threading.Thread(target=read, name="standard-input", daemon=True).start()
    return queue
