"""What happens when a test needs a tool that is not there; the one place that decides.

On a user's machine the test is skipped, and the reason says how to install the tool. Where
``CI=true`` it fails, so that no test can go missing unnoticed.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from benchmarks.broker_process import ToolMissing

T = TypeVar("T")


def need(provide: Callable[[], T]) -> T:
    """What ``provide`` gives; where the machine cannot, skip by name, or fail in CI."""
    try:
        return provide()
    except ToolMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have every tool: {missing}")
        pytest.skip(str(missing))
