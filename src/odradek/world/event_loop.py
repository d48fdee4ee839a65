"""The event loop of a command: uvloop for brokers and load generators, asyncio's own for tools.

Importing uvloop takes longer than a small tool runs.
"""

import asyncio
from collections.abc import Callable


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns the factory of uvloop's loop if it is installed; None means asyncio's own loop."""
    try:
        import uvloop  # noqa: PLC0415 - only where it is used
    except ImportError:
        return None
    return uvloop.new_event_loop
