"""Whether a task still belongs to the plan of its connector.

A source task asks this after it has fenced its transactional id. The leader writes a new plan
first and fences the ids of the old one after that. So a task of the old plan that starts again on
a worker which stood still is either fenced by the leader, or reads here that it is not wanted any
more. It never writes beside the tasks of the new plan.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from odradek.connect.engine.engine import TaskSpec
from odradek.connect.errors import ConnectError


class PlannedAnew(ConnectError):
    """The connector has other tasks by now."""


class PlanCheck(ABC):
    @abstractmethod
    async def check(self, task: TaskSpec) -> None:
        """Reads the newest plan. Raises `PlannedAnew` if the task is not in it."""

    async def run(self) -> None:
        """Keeps the plans read, in a process that has no other reader of them."""
        return


class NoPlanCheck(PlanCheck):
    """For who has tasks without a worker, such as tests, and for a standalone worker, where no
    other process has tasks of the same connectors."""

    async def check(self, task: TaskSpec) -> None:
        return


def compare(task: TaskSpec, planned: Sequence[Mapping[str, str]]) -> None:
    """Raises `PlannedAnew` if `planned` are not the tasks among which `task` was."""
    number = task.id.number
    if number >= len(planned) or dict(planned[number]) != dict(task.planned):
        raise PlannedAnew(
            f"the tasks of connector {task.id.connector} were planned again meanwhile; this worker"
            " starts those that are its share when it has heard of them"
        )
