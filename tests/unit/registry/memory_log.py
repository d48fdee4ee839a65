"""A topic of schemas in memory, for tests: it keeps the newest record of each key, and can fail."""

import asyncio
from collections.abc import Sequence

from odradek.registry.schema_log import Fenced, WriteFailed
from odradek.registry.state import RegistryState
from odradek.statemachine.machine import LogRecord


class MemoryTopic:
    """All records, in order. `writer` is the log that has fenced the others."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.logs: list[MemoryLog] = []
        self.writer: MemoryLog | None = None

    def append(self, records: Sequence[LogRecord]) -> int:
        self.records += records
        for log in self.logs:
            log.catch_up()
        return len(self.records) - 1

    def compacted(self) -> list[LogRecord]:
        """Returns what compaction leaves: the newest record of each key, without tombstones."""
        newest = {record.key: index for index, record in enumerate(self.records)}
        return [
            record
            for index, record in enumerate(self.records)
            if newest[record.key] == index and record.value is not None
        ]


class MemoryLog:
    """What one instance sees of a topic; see `SchemaLog`."""

    def __init__(self, topic: MemoryTopic, state: RegistryState) -> None:
        self.topic = topic
        self.state = state
        self.fail_next: str | None = None
        """`lost`: the next write does not happen. `unknown`: it happens, and an error says that
        nobody knows."""
        self.begun = 0
        self._applied = 0
        self._moved = asyncio.Event()
        topic.logs.append(self)
        self.catch_up()

    @property
    def applied(self) -> int:
        return self._applied

    def catch_up(self) -> None:
        for record in self.topic.records[self._applied :]:
            self.state.apply(record.key, record.value, 1)
        self._applied = len(self.topic.records)

    async def wait_until(self, offset: int) -> None:
        assert self._applied > offset

    async def begin(self) -> None:
        self.begun += 1
        self.topic.writer = self

    async def write(self, changes: Sequence[LogRecord]) -> int:
        await asyncio.sleep(0)
        if self.topic.writer is not self:
            raise Fenced("another producer has the transactional id")
        failure, self.fail_next = self.fail_next, None
        if failure == "lost":
            raise WriteFailed("the broker is away")
        offset = self.topic.append(changes)
        if failure == "unknown":
            raise WriteFailed("no answer")
        return offset

    async def end(self) -> None:
        """Nothing is held."""

    async def conclude(self) -> None:
        """There are no markers of transactions here."""
