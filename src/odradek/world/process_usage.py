"""What the operating system says about this process: processor time, memory, files, disk traffic.

Figures that a system does not have are left out (0, or None): `/proc` is Linux'.
"""

import os
import resource
import time
from functools import cache
from typing import NamedTuple


class ProcessUsage(NamedTuple):
    """The process at one moment. `disk_read_bytes` and `disk_written_bytes` are what it caused to
    be read from and written to disks; None where the kernel does not tell."""

    cpu_s: float
    open_files: int
    max_files: int
    resident_bytes: int
    virtual_bytes: int
    disk_read_bytes: int | None
    disk_written_bytes: int | None


def process_usage() -> ProcessUsage:
    """Returns the figures of this process. Costs some system calls, a tenth of a millisecond."""
    times = os.times()
    pages = _words("/proc/self/statm")
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    traffic = dict(line.split(": ", 1) for line in _lines("/proc/self/io") if ": " in line)
    read, written = traffic.get("read_bytes"), traffic.get("write_bytes")
    return ProcessUsage(
        times.user + times.system,
        _open_files(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        int(pages[1]) * page_bytes if pages else 0,
        int(pages[0]) * page_bytes if pages else 0,
        None if read is None else int(read),
        None if written is None else int(written),
    )


def thread_cpu_s() -> float:
    """Returns the processor time of the calling thread: that of the event loop."""
    return time.thread_time()


@cache
def start_time_s() -> float:
    """Returns when the process began, in seconds since 1970."""
    # The 22nd field, after the name, which may contain blanks.
    fields = " ".join(_lines("/proc/self/stat")).rpartition(")")[2].split()
    boot = next(
        (line.split()[1] for line in _lines("/proc/stat") if line.startswith("btime")), None
    )
    if boot is None or len(fields) < 20:
        return time.time() - time.process_time()
    return int(boot) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # One is that of the listing.
    except OSError:
        return 0


def _words(path: str) -> list[str]:
    lines = _lines(path)
    return lines[0].split() if lines else []


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
