"""The levels of the project's loggers during a test."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.telemetry import logs


@contextmanager
def default_levels() -> Iterator[None]:
    """The levels are those of a fresh process, and at the end those that they were before."""
    before = {name: logging.getLogger(name).level for name in logs.loggers()}
    defaults = dict(logs._default_levels)
    for name in before:
        logs.set_level(name, None)
    try:
        yield
    finally:
        logs._default_levels.update(defaults)
        for name in logs.loggers():
            logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))
