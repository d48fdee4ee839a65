"""What every test has: `async def` tests run on a fresh asyncio loop of their own.

Hypothesis looks for new examples on a developer's machine; in CI it repeats the same ones, so
that a change is judged by the change. Invariants are checked thoroughly (`odradek.invariants`).
"""

import asyncio
import inspect
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from odradek.invariants import check_thoroughly

check_thoroughly(True)
# A shell without job control starts what runs in the background with SIGINT ignored, and programs
# inherit that. Tests interrupt the programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The developer's own profiles do not matter to tests.
os.environ["ODRADEK_CONFIG"] = os.devnull

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") == "true" else "exploring")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def logger_levels_stay() -> Iterator[None]:
    """Fails a test that leaves the level of a logger changed: a later test might miss a line."""
    before = _logger_levels()
    yield
    after = _logger_levels()
    # A module that the test imported may have made a logger, with a level of its own.
    after = {name: level for name, level in after.items() if name in before}
    assert after == before, "the level of a logger was left changed"


def _logger_levels() -> dict[str, int]:
    """The levels of the project's loggers, and of the root logger."""
    levels = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith("odradek")
    }
    return {"root": logging.root.level, **levels}
