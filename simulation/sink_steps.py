"""The steps of an exactly-once write of the Spark sink at which tests and scenarios act."""

from enum import Enum


class Step(Enum):
    """The moments of an attempt between which a crash has different consequences."""

    INITIALISED = "initialised"
    WRITTEN = "written"
    COMMITTED = "committed"
