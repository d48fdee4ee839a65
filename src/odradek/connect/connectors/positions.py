"""How far a connector's source was read: an offset for each part of it.

A part of a source (a file, a table, a database's log) is a `SourcePartition`, and how far it was
read is a `SourceOffset`. Both are JSON objects that the connector chooses. They stand in the topic
of offsets of Kafka Connect, and users see them at `/connectors/NAME/offsets`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from odradek.connect.errors import DataError

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


def name_of(partition: SourcePartition) -> str:
    """Returns the same text for partitions that are equal, whatever the order of their fields."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


def check_partition(partition: SourcePartition, wanted: SourcePartition) -> None:
    """Raises `DataError` unless a user has named the only partition that a connector has."""
    if dict(partition) != wanted:
        raise DataError(f"the partition of this connector must be {wanted}")


class Positions:
    """The offsets of several partitions. It is never changed: `with_offset` makes another one."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Iterable[tuple[SourcePartition, SourceOffset]] = ()) -> None:
        self._offsets = {name_of(partition): (partition, offset) for partition, offset in offsets}

    def of(self, partition: SourcePartition) -> SourceOffset | None:
        """Returns how far the partition was read; None if nothing of it was."""
        found = self._offsets.get(name_of(partition))
        return None if found is None else found[1]

    def with_offset(self, partition: SourcePartition, offset: SourceOffset) -> "Positions":
        return Positions([*self, (self.as_known(partition), offset)])

    def as_known(self, partition: SourcePartition) -> SourcePartition:
        """Returns the partition with its fields in the order in which it is known here. In the
        topic of offsets their order makes another key, and it would not be known which is newer."""
        found = self._offsets.get(name_of(partition))
        return partition if found is None else found[0]

    def since(self, before: "Positions") -> "Positions":
        """Returns those offsets that are not the same in `before`."""
        return Positions(
            (partition, offset) for partition, offset in self if before.of(partition) != offset
        )

    def __iter__(self) -> Iterator[tuple[SourcePartition, SourceOffset]]:
        return iter(self._offsets.values())

    def __len__(self) -> int:
        return len(self._offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self._offsets == other._offsets

    def __hash__(self) -> int:
        return hash(frozenset(self._offsets))

    def __repr__(self) -> str:
        return f"Positions({[*self]!r})"
