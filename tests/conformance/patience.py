"""Waiting for what a broker has promised but may show a moment later.

Apache Kafka answers an administrator when its controller has decided; its broker learns of it a few
milliseconds after. A test therefore asks until it sees what it expects, and fails at a deadline.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 30.0


def eventually(read: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """Read until the value is as wanted; the last value read is in the failure."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value = read()
        if wanted(value):
            return value
        assert time.monotonic() < deadline, f"still {value!r} after {PATIENCE_S} s"
        time.sleep(0.01)
