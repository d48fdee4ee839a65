"""Where the work on a record failed: the stage and the class, as Kafka Connect names them.

Dead letters and log lines say it. Everything that a converter or a transform raises is a
`DataError` here: a defect of one of them harms the record that it cannot handle, and not the
others.
"""

from enum import Enum
from typing import NamedTuple

from odradek.connect.errors import DataError, Unavailable
from odradek.world.blocking_calls import MustBlock


class Stage(Enum):
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"


class Place(NamedTuple):
    """A stage, and the class that did the work there by the name of the configuration."""

    stage: Stage
    class_name: str


class FailedAt(DataError):
    """A `DataError` with its place. The error that was raised is its `__cause__`."""

    def __init__(self, place: Place, error: BaseException) -> None:
        text = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
        super().__init__(text)
        self.place = place


def failure(place: Place, error: Exception) -> Exception:
    """Returns what is raised in place of an error, so that it is known where it happened."""
    if isinstance(error, FailedAt | Unavailable | MustBlock):
        return error
    return FailedAt(place, error)
