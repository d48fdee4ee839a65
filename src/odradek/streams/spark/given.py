"""What the owner of a query sends to the query's process: how to make its plan, and its settings.

A plan contains functions, which plain pickling refuses. So it is sent in one of two ways. SQL sends
a `MakePlan` that has only the text of the statement, and the process compiles the text. A plan made
in Python is pickled by Spark's cloudpickle, which includes the code of functions.

It contains passwords of clients. So it is never written to a file, but goes from a program to its
own child processes over a socket in a directory that only the user may enter.
"""

import base64
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.streams.plan.nodes import Plan
from odradek.streams.running.executor import (
    BadRecord,
    BadResult,
    raise_for,
    raise_for_result,
)

MakePlan = Callable[[], Plan]


@dataclass(frozen=True)
class ReadyPlan:
    """A plan that is there already."""

    plan: Plan

    def __call__(self) -> Plan:
        return self.plan


@dataclass(frozen=True)
class GivenQuery:
    make_plan: MakePlan
    application_id: str
    client: Mapping[str, Any]
    start: Mapping[str, Sequence[int]]
    replication_factor: int
    on_bad_record: BadRecord = raise_for
    on_bad_result: BadResult = raise_for_result

    def to_text(self) -> str:
        if isinstance(self.make_plan, ReadyPlan):
            # It takes functions that have no name in a module, which plain pickling refuses.
            from pyspark import cloudpickle  # noqa: PLC0415 - for this alone

            data = cloudpickle.dumps(self)
        else:
            data = pickle.dumps(self)
        return base64.b64encode(data).decode()

    @staticmethod
    def of(text: str) -> "GivenQuery":
        found = pickle.loads(base64.b64decode(text))  # noqa: S301 - of the program itself
        assert isinstance(found, GivenQuery)
        return found
