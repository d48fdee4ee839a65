"""The files of the application's logs: opened with the first line, rolled when they are full.

No error here may stop a broker. A line that cannot be written is lost and counted. The error is
reported once, and the file is tried again a second later. A file or a directory that was removed is
made again.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from odradek.world import Clock, Disk
from odradek.world.disk import File

# The time between attempts to write to a file that failed, and between checks that a file exists.
_CHECK_INTERVAL_S: Final = 1.0

DEFAULT_MAX_BYTES: Final = 32 * 1024 * 1024
DEFAULT_MAX_BACKUPS: Final = 4


class RollingFile:
    """`server.log`, and its backups `server.log.1` (the newest) to `server.log.<max_backups>`.

    `lost` counts the lines that could not be written.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        path: str,
        report_error: Callable[[str], None],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_backups: int = DEFAULT_MAX_BACKUPS,
    ) -> None:
        self.path = path
        self.lost = 0
        self._disk = disk
        self._clock = clock
        self._report_error = report_error
        self._max_bytes = max_bytes
        self._max_backups = max_backups
        self._file: File | None = None
        self._next_check_s = 0.0
        self._lost_in_a_row = 0

    def write(self, line: bytes, lost_line: Callable[[int], bytes]) -> None:
        """Appends a line.

        If lines were lost since the last one, `lost_line(count)` is written first. It returns a
        line that says how many were lost."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + _CHECK_INTERVAL_S
            if self._file is not None and not self._disk.exists(self.path):
                self.close()
        elif self._lost_in_a_row:
            self._lose()
            return
        try:
            if self._lost_in_a_row:
                line = lost_line(self._lost_in_a_row) + line
            self._append(line)
            self._lost_in_a_row = 0
        except OSError as error:
            self._fail(error)

    def _append(self, line: bytes) -> None:
        file = self._file or self._open()
        # The size of the file is read each time, because a second broker that was started on the
        # same directory by mistake writes its error to the same file.
        end = file.size()
        if end and end + len(line) > self._max_bytes:
            file, end = self._roll(), 0
        file.write_at(end, [line])

    def _open(self) -> File:
        try:
            self._file = file = self._disk.open(self.path, create=True)
        except FileNotFoundError:
            self._disk.make_directories(self.path.rpartition("/")[0] or ".")
            self._file = file = self._disk.open(self.path, create=True)
        return file

    def _roll(self) -> File:
        self.close()
        # Earlier runs may have kept more backups: they are removed.
        number = self._max_backups + 1
        while self._disk.exists(f"{self.path}.{number}"):
            self._disk.remove(f"{self.path}.{number}")
            number += 1
        for number in range(self._max_backups - 1, 0, -1):
            if self._disk.exists(f"{self.path}.{number}"):
                self._disk.rename(f"{self.path}.{number}", f"{self.path}.{number + 1}")
        if self._max_backups:
            self._disk.rename(self.path, f"{self.path}.1")
        else:
            self._disk.remove(self.path)
        return self._open()

    def _fail(self, error: OSError) -> None:
        if not self._lost_in_a_row:
            self._report_error(
                f"cannot write {self.path}: {error.strerror or error}; the broker continues, and"
                " log lines for this file are lost until it can be written again"
            )
        self._lose()
        self.close()

    def _lose(self) -> None:
        self.lost += 1
        self._lost_in_a_row += 1

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
