"""Limits that the operating system sets to this process."""

import resource

# More is of no use, and some systems say "no limit" where they mean a number.
_MOST_DESCRIPTORS = 1 << 20


def raise_descriptor_limit() -> int:
    """Lets the process open as many files as it is allowed to; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > _MOST_DESCRIPTORS:
        wanted = _MOST_DESCRIPTORS
    else:
        wanted = hard
    if soft == resource.RLIM_INFINITY:
        return _MOST_DESCRIPTORS
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
        return wanted
    return soft
