"""What every connector does. Connectors are plain Python, and an engine runs them.

A connector divides its work into tasks. A **source task** has no position of its own. The engine
asks how far it can read (`reach`), and then for the records in between (`read`), and stores the end
of that range together with the records. So a range can be read again after a failure, and gives the
same records as long as the source still has them; if it has not, the task raises `DataError`.

A **sink task** writes records, and returns when they are safe. The engine stores the offsets of the
records afterwards, so records come again after a failure: a sink should write idempotently.

Methods of tasks may block. The engine calls them in threads, one call of a task at a time. A method
raises `Unavailable` if the other side does not answer or is busy: the engine calls it again, later.
Any other exception ends the task, which is then shown as failed with that exception's text.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord, SourceRecord
from odradek.connect.settings import PluginSettings


class SourceTask(ABC):
    """Invariant: `read(start, end)` returns at most the records that `reach` has counted, in the
    order of the source. The `source_partition` and `source_offset` of a record say how far the
    source was read with it."""

    @abstractmethod
    def reach(self, start: Positions, max_records: int) -> Positions:
        """Returns how far the task can read now from `start`, by `max_records` at most. The same
        positions mean that there is nothing new. At the first call `start` has all stored offsets
        of the connector, those of its other tasks too; a partition without one is read from its
        beginning."""

    @abstractmethod
    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        """Returns the records between two positions."""

    def stored(self, positions: Positions) -> None:  # noqa: B027 - most sources keep everything
        """Called when everything before these positions is safe in the topic. For sources that keep
        what was not read, such as a database's log."""

    def close(self) -> None:  # noqa: B027 - many have nothing open
        """Ends what the task has opened. It may be called from another thread than `read`."""


class FailedRecord(NamedTuple):
    """A record that a sink task could not write, while it has written the others."""

    record: SinkRecord
    error: DataError


PartitionName = tuple[str, int]
"""A topic and a partition of it, as records were read: before transforms have changed them."""


class SinkTask(ABC):
    @abstractmethod
    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        """Writes the records, and returns when they are safe, or kept and named by `unsafe`.
        Returns those that the other side refuses for what they contain; `errors.tolerance` says
        what becomes of them. Raises `DataError` if it cannot write at all."""

    def unsafe(self) -> Mapping[PartitionName, int]:
        """Returns, for a task that gathers records over several calls, the first offset of each
        partition that it keeps and has not written. The engine commits no further, and calls
        `write` at least each second, without records if there are none."""
        return {}

    def lost(self, partitions: Iterable[PartitionName]) -> None:  # noqa: B027 - most keep nothing
        """Called when the group gives partitions to other tasks, where their records come again
        from the committed offset on: what is kept of them must be forgotten."""

    def close(self) -> None:  # noqa: B027 - many have nothing open
        """Ends what the task has opened."""


class Connector(ABC):
    settings_class: ClassVar[type[PluginSettings]]
    # Whether nothing outside of Kafka knows how far the connector has come: no slot of a database,
    # no file that was moved away. Users are told so when they set its offsets.
    keeps_no_offsets: ClassVar[bool] = False

    # How often `task_properties` is asked again, in seconds, for connectors whose tasks depend on
    # what the source has at the time; None if the tasks depend on the properties alone.
    replan_s: float | None = None

    @abstractmethod
    def __init__(self, settings: Any) -> None: ...

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        """Returns the properties of each task, at most `max_tasks`. By default there is one task,
        with those of the connector. It may block, and may raise `Unavailable`."""
        return [dict(properties)]

    def wrong_outside(self) -> dict[str, list[str]]:
        """Returns what is wrong with the settings that only the other side can say, by the name of
        the setting: a host that does not answer, a table that is not there. It may block;
        validation calls it when everything else is right."""
        return {}


class SourceConnector(Connector):
    @abstractmethod
    def task(self) -> SourceTask: ...

    def preview_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties for a look at the next records, which is not to leave anything
        after in the source. It may block, and may raise `Unavailable`."""
        return dict(properties)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        """Raises `DataError` if a user sets an offset that the connector could not read from."""


class SinkConnector(Connector):
    @abstractmethod
    def task(self) -> SinkTask: ...

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        """There are as many tasks as there may be. Their group shares the partitions out."""
        return [dict(properties) for _ in range(max_tasks)]
