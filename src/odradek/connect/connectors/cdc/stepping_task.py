"""The task that reads a stream of changes in steps: a change stream, a binary log."""

from abc import abstractmethod
from collections.abc import Iterator

from odradek.connect.connectors.cdc.steps import Step, Steps
from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.errors import ConnectError
from odradek.connect.records import SourceRecord


class SteppingTask(SourceTask):
    """A subclass makes the steps and has the connection. When a call fails, everything that was
    read is thrown away, and the next call begins at the stored position with a new connection."""

    def __init__(self, partition: SourcePartition, max_batch_size: int) -> None:
        self._partition = partition
        self._max_batch_size = max_batch_size
        self._steps = Steps()

    @abstractmethod
    def _next_step(self, offset: SourceOffset | None, max_records: int) -> Step | None:
        """Returns what comes after `offset`, or None if nothing has come. Connects if need be."""

    @abstractmethod
    def _end_connection(self) -> None:
        """Closes the connection, if there is one, and forgets where it was in the stream."""

    def reach(self, start: Positions, max_records: int) -> Positions:
        offset = start.of(self._partition)
        try:
            if not self._steps.is_known(offset):
                self._disconnect()
                self._steps.begin_at(offset)
            known = self._steps.after(offset)
            if known is not None:
                return start.with_offset(self._partition, known)
            step = self._next_step(offset, min(max_records, self._max_batch_size))
        except (ConnectError, OSError):
            self._disconnect()
            raise
        if step is None:
            return start
        assert step.offset is not None
        self._steps.add(step)
        return start.with_offset(self._partition, step.offset)

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        return self._steps.between(start.of(self._partition), end.of(self._partition))

    def stored(self, positions: Positions) -> None:
        self._steps.stored(positions.of(self._partition))

    def close(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        """Everything that is not stored is read again."""
        self._end_connection()
        self._steps = Steps()
