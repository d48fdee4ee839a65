"""Which event loop a command runs on: uvloop for brokers and load, asyncio's own otherwise.

uvloop takes longer to import than a small tool takes to answer.
"""

import asyncio
from collections.abc import Callable


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; None means asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - only where it is used
    except ImportError:
        return None
    return uvloop.new_event_loop
