"""Limits that the operating system sets to this process."""

import os
import resource

# More is of no use, and some systems say "no limit" where they mean a number.
_MAX_DESCRIPTORS = 1 << 20


def raise_descriptor_limit() -> int:
    """Lets the process open as many files as it is allowed to; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(hard, _MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY:
        return _MAX_DESCRIPTORS
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
        return wanted
    return soft


# Where a container says how much memory it may use: version 2 of control groups, then version 1.
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def memory_bytes() -> int:
    """Returns how much memory this machine has, or its container may use if that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER_LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():  # It may also be "max".
            return min(physical, int(text))
    return physical
