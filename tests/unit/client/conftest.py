"""What tests of the client share."""

import logging
from collections.abc import Iterator

import pytest


class Lines(logging.Handler):
    """What the client logs; in a simulation its messages go to no other handler."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    """The warnings of the client."""
    handler = Lines()
    logger = logging.getLogger("odradek.client")
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)
