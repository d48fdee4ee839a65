"""The id of the running kernel. While it is the same, the page cache is the same too: everything
that a killed process had written is still readable."""

from functools import cache
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Returns a value that changes with every start of the kernel; empty if the system has none."""
    try:
        return _LINUX.read_text().strip()
    except OSError:
        return ""
