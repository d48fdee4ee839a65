"""Processes of this machine: whether one runs, and waiting for something to be over."""

import os
from collections.abc import Callable
from time import sleep
from typing import Final

from odradek.world import SystemClock
from odradek.world.disk import OsDisk

_LOOK_AGAIN_S: Final = 0.02


def is_alive(pid: int) -> bool:
    """Returns whether a process runs. A zombie process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = OsDisk().read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state != b"Z"


def wait_until(is_over: Callable[[], bool], timeout_s: float) -> bool:
    """Looks until something is over. Returns False on a timeout."""
    clock = SystemClock()
    end_s = clock.monotonic_s() + timeout_s
    while not is_over():
        if clock.monotonic_s() > end_s:
            return False
        sleep(_LOOK_AGAIN_S)
    return True
