"""Gathers records, and writes an object when there are enough of them.

The records of a partition are gathered from its committed offset on, for one or more objects. When
there are enough, or the first of them has waited long enough, all objects of the partition are
written, and the engine commits the offset after them. What is gathered is not committed
(`unsafe`), so it comes again after a failure, and its objects get the same names again: each name
has the offset of the first record of its group after the committed offset.

So each record is in one object only, however often a worker is killed. What would break it: names
that depend on the clock, and more than one set of objects for a partition between two commits;
therefore an object has all that was gathered, even if that is more than `flush.size`.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.connector import FailedRecord, PartitionName, SinkTask
from odradek.connect.connectors.object_sink.formats import ObjectFormat
from odradek.connect.connectors.object_sink.layout import Layout
from odradek.connect.connectors.object_sink.stores import Store
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord

# The memory of a task is that of so many partitions that are nearly due by their size.
_PARTITIONS_IN_MEMORY: Final = 2


class Rotation(NamedTuple):
    """When the objects of a partition are written. None never is a reason."""

    records: int | None
    size: int
    age_s: float | None = None
    # At every multiple of these seconds of the clock.
    schedule_s: float | None = None


@dataclass(slots=True)
class Group:
    """The records of one object."""

    schema: Schema | None
    first_offset: int
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Gathered:
    """What was read of a partition and is not written yet. Records before `next_offset` were
    taken already: a call that failed is made again with the same records."""

    next_offset: int = -1
    first_offset: int = -1
    groups: dict[tuple[str, Schema | None], Group] = field(default_factory=dict)
    count: int = 0
    size: int = 0
    since_s: float = 0.0
    # By the clock of the day, for `schedule_s`.
    began_s: float = 0.0


class ObjectSinkTask(SinkTask):
    def __init__(
        self, store: Store, layout: Layout, format_: ObjectFormat, rotation: Rotation, shape: Any
    ) -> None:
        """`shape` makes of a record what is written of it: a schema and a value, or None."""
        self._store = store
        self._layout = layout
        self._format = format_
        self._rotation = rotation
        self._shape = shape
        self._gathered: dict[PartitionName, Gathered] = {}
        # A call that failed is made again, and skips what was taken: these too.
        self._refused: list[FailedRecord] = []

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        for record in records:
            try:
                self._gather(record)
            except DataError as error:
                self._refused.append(FailedRecord(record, error))
        for gathered in self._gathered.values():
            if gathered.count and self._is_due(gathered):
                self._flush(gathered)
        self._make_room()
        refused, self._refused = self._refused, []
        return refused

    def unsafe(self) -> dict[PartitionName, int]:
        return {
            name: gathered.first_offset
            for name, gathered in self._gathered.items()
            if gathered.count
        }

    def lost(self, partitions: Iterable[PartitionName]) -> None:
        for name in partitions:
            self._gathered.pop(name, None)

    def close(self) -> None:
        self._gathered.clear()

    def _gather(self, record: SinkRecord) -> None:
        name = record.original_topic, record.original_partition
        gathered = self._gathered.setdefault(name, Gathered())
        if record.offset < gathered.next_offset:
            return
        gathered.next_offset = record.offset + 1
        shaped = self._shape(record)
        if shaped is None:
            return
        schema, value = shaped
        item = self._format.item(schema, value)
        known = self._layout.group(record), schema if self._format.has_schema else None
        group = gathered.groups.get(known)
        if group is None:
            group = gathered.groups[known] = Group(schema, record.offset)
        if self._layout.keeps_last:
            group.items.clear()
            group.schema = schema
        group.items.append(item.data)
        if not gathered.count:
            gathered.first_offset = record.offset
            gathered.since_s = time.monotonic()
            gathered.began_s = time.time()
        gathered.count += 1
        gathered.size += item.size

    def _make_room(self) -> None:
        """Writes the largest partitions if all of them together take too much memory."""
        total = sum(gathered.size for gathered in self._gathered.values())
        largest = sorted(self._gathered.values(), key=lambda gathered: gathered.size)
        while total > self._rotation.size * _PARTITIONS_IN_MEMORY:
            gathered = largest.pop()
            total -= gathered.size
            self._flush(gathered)

    def _is_due(self, gathered: Gathered) -> bool:
        rotation = self._rotation
        if rotation.records is not None and gathered.count >= rotation.records:
            return True
        if gathered.size >= rotation.size:
            return True
        if rotation.age_s is not None and time.monotonic() >= gathered.since_s + rotation.age_s:
            return True
        schedule_s = rotation.schedule_s
        return schedule_s is not None and time.time() // schedule_s > gathered.began_s // schedule_s

    def _flush(self, gathered: Gathered) -> None:
        for (name, _), group in gathered.groups.items():
            content = self._format.content(group.schema, group.items)
            self._store.put(self._layout.name(name, group.first_offset), content)
        gathered.groups.clear()
        gathered.count = gathered.size = 0
