"""Limits that the operating system sets to this process: file descriptors and memory."""

import os
import resource

# More is of no use. Some systems say "no limit" although there is one.
_MAX_DESCRIPTORS = 1 << 20


def raise_descriptor_limit() -> int:
    """Raises the soft limit of open files to the hard limit; returns how many may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _MAX_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        target = min(hard, _MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY:
        return _MAX_DESCRIPTORS
    if soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (OSError, ValueError):
            return soft
        return target
    return soft


# Where a container finds how much memory it may use: control groups version 2, then version 1.
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def memory_bytes() -> int:
    """Returns the memory of this machine, or what its container may use if that is less."""
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
