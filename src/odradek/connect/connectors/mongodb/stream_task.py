"""What the tasks that read change streams have in common: steps, and what ends a connection."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from odradek.connect.connectors.cdc.steps import Step, Steps
from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.mongodb.source import MongoServers, translated
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.errors import ConnectError
from odradek.connect.records import SourceRecord


class ChangeStreamTask(SourceTask):
    """A subclass makes the steps. When a call fails, everything that was read is thrown away, and
    the next call begins at the stored position with a new stream."""

    def __init__(
        self, servers: MongoServers, partition: SourcePartition, max_batch_size: int
    ) -> None:
        self._servers = servers
        self._partition = partition
        self._max_batch_size = max_batch_size
        self._steps = Steps()
        self._stream: Any = None

    @abstractmethod
    def _next_step(self, offset: SourceOffset | None, max_records: int) -> Step | None:
        """Returns what comes after `offset`, or None if nothing has come."""

    @abstractmethod
    def _forget(self) -> None:
        """Forgets where the stream is."""

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
        except ConnectError:
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
        self._servers.close()

    def _disconnect(self) -> None:
        self._close_stream()
        self._steps = Steps()
        self._forget()

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with translated():
                stream.close()
