"""What runs the tasks of connectors: the interface between the worker and its engines.

The worker decides which tasks run here, and with which properties. An engine runs them, and
reports what becomes of them. There are three: Spark's shared lane, Spark's own lane for a
connector, and the one in the worker's process, which needs no Java.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.connect.engine.figures import FailureFigures, TaskFigures


class TaskId(NamedTuple):
    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task that is to run. Secrets stand in `properties` in plain text: never write them to a log
    or a topic."""

    id: TaskId
    properties: Mapping[str, str]
    planned: Mapping[str, str] = field(default_factory=dict)
    """The properties as the leader has planned them, with references instead of secrets."""


class TaskListener(ABC):
    """What an engine tells the worker. All methods are called on the worker's event loop."""

    @abstractmethod
    def running(self, task: TaskId) -> None:
        """The task reads: it has its offsets, and its connector has been made."""

    @abstractmethod
    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        """The task has ended, or hangs. `reason` is one line for the user, which the worker logs.
        The worker starts the task again after a pause."""

    @abstractmethod
    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        """The task does no work, and has not ended: a call takes long, or the engine starts again.
        It is shown as failed, so that its state is true. `running` follows if it goes on, `failed`
        if the engine gives it up."""

    @abstractmethod
    def stopped(self, task: TaskId) -> None:
        """The task has ended because it was told to."""

    @abstractmethod
    def used_topic(self, task: TaskId, topic: str) -> None:
        """The task has written to or read from the topic, for the first time since it started."""


class Engine(ABC):
    @abstractmethod
    async def start(self, task: TaskSpec) -> None:
        """Begins to run a task. What becomes of it is told to the listener."""

    @abstractmethod
    async def stop(self, task: TaskId) -> None:
        """Ends a task, and returns when it writes nothing any more. A task that hangs is ended by
        force after a time-out."""

    @abstractmethod
    async def close(self) -> None:
        """Ends all tasks and the engine."""

    def figures(self) -> "Mapping[TaskId, tuple[TaskFigures, FailureFigures | None]]":
        """Returns what each task has counted since it started, for the worker's metrics."""
        return {}
