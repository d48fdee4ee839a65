"""Passes on what a session's Java process writes to its standard error, without the noise.

Java prints a warning before any logging is set up, and so does Spark, at every start. When a
program ends, or a stream is stopped, Java and the Python processes that it started report that
their connections broke. Nobody can act on these lines, and they hide those that matter. So Java
writes into a pipe, and a thread copies the pipe to standard error:

- lines that are known to mean nothing are dropped;
- after `mute()`, which is called when everything is about to end, all lines are dropped.

`ODRADEK_DEBUG=1` turns all of this off: then Java writes to standard error itself.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_STDERR: Final = 2
_CHUNK_BYTES: Final = 65_536
_PIPE_BYTES: Final = 1 << 20
_LAST_WORDS_S: Final = 2.0
# Only Linux has this operation.
_SET_PIPE_SIZE: Final[int | None] = getattr(fcntl, "F_SETPIPE_SZ", None)
# Printed by Java itself because Spark enables a module, and by Spark before its logging is set up.
_NOISE: Final = (
    b"WARNING: Using incubator modules:",
    b"Using Spark's default log4j profile:",
    b'Setting default log level to "',
    b"To adjust logging level use sc.setLogLevel(",
)


class JavaOutput:
    """The standard error of one Java process."""

    def __init__(self) -> None:
        self._is_muted = threading.Event()
        self._rest = b""

    @contextmanager
    def pipe(self) -> Iterator[int]:
        """Yields the descriptor that Java is started with. Afterwards copies what comes, in a
        thread that ends when no process has the descriptor open any more.

        The thread starts late because a process that forks should have no other threads. What
        Java writes until then fits into the pipe.
        """
        reading, writing = os.pipe()
        if _SET_PIPE_SIZE is not None:
            fcntl.fcntl(writing, _SET_PIPE_SIZE, _PIPE_BYTES)
        # Like an inherited descriptor: a program that redirects its own later does not matter.
        target = os.dup(_STDERR)
        copying = threading.Thread(
            target=self._copy, args=(reading, target), name="java-stderr", daemon=True
        )
        try:
            yield writing
        except BaseException:
            # What Java has said is the reason, and comes before the error.
            os.close(writing)
            copying.start()
            copying.join(_LAST_WORDS_S)
            raise
        os.close(writing)
        copying.start()

    def mute(self) -> None:
        """Drops all further output."""
        self._is_muted.set()

    def unmute(self) -> None:
        """Called when work begins again in the same Java process."""
        self._is_muted.clear()

    def _copy(self, reading: int, target: int) -> None:
        try:
            while data := os.read(reading, _CHUNK_BYTES):
                self._write(target, self.filter(data))
            self._write(target, self._rest)
        finally:
            os.close(reading)
            os.close(target)

    def filter(self, data: bytes) -> bytes:
        """Returns what is to be shown of the next bytes. The begin of a line is held back while it
        may become a line to drop."""
        *lines, rest = (self._rest + data).split(b"\n")
        shown = b"".join(line + b"\n" for line in lines if not line.startswith(_NOISE))
        if any(noise.startswith(rest[: len(noise)]) for noise in _NOISE):
            self._rest = rest
        else:
            self._rest = b""
            shown += rest
        return b"" if self._is_muted.is_set() else shown

    def _write(self, target: int, data: bytes) -> None:
        while data and not self._is_muted.is_set():
            try:
                data = data[os.write(target, data) :]
            except OSError:
                # Nobody reads standard error any more. Java must still be able to write.
                return
