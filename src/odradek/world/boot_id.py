"""Since when the kernel runs: what was written since then and not lost by a disk is readable."""

from functools import cache
from pathlib import Path

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot_id() -> str:
    """Another one after every start of the kernel; empty where there is no telling."""
    try:
        return _LINUX.read_text().strip()
    except OSError:
        return ""
