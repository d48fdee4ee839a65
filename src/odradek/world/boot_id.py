"""The id of the running kernel. While it is the same, the page cache is the same too: everything
that a killed process had written is still readable."""

from functools import cache

_LINUX = "/proc/sys/kernel/random/boot_id"


@cache
def boot_id() -> str:
    """Returns a value that changes with every start of the kernel; empty if the system has none."""
    try:
        # Not `pathlib`: importing it takes 3 ms of the start of a broker.
        with open(_LINUX) as file:
            return file.read().strip()
    except OSError:
        return ""
