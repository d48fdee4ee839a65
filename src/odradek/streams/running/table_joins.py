"""Joins of two tables: by key, and by a foreign key.

A join of tables is a table. Its row exists while the joined rows exist that its kind asks for; when
that ends, the row is deleted. A change that leaves a row which does not exist as it is, is not
forwarded. The time of a result is the later one of the two rows' times.

A foreign-key join keeps for each row of the right table which rows of the left one name it, so that
a change on the right finds them. The two tables may have different numbers of partitions: a left
row subscribes in the partition of its foreign key, and results are made in its own.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import JoinKind
from odradek.streams.plan.records import Change, Timestamped
from odradek.streams.plan.windows import Windows
from odradek.streams.running.operators import Handler, Operator

if TYPE_CHECKING:
    from odradek.streams.running.executor import PartitionTask
    from odradek.streams.running.stores import KeyValueStore


class Rows:
    """The rows of a table. `note` stores a change, unless the table has stored it itself."""

    def __init__(self, store: "KeyValueStore", *, is_own: bool) -> None:
        self._store = store
        self._is_own = is_own

    def note(self, key: Any, row: Any, timestamp_ms: int) -> None:
        if self._is_own and key is not None:
            self._store.put(key, None if row is None else Timestamped(row, timestamp_ms))

    def get(self, key: Any) -> Any:
        found = self._store.get(key)
        return None if found is None else found.value

    def timestamp_ms(self, key: Any) -> int:
        """Returns the time of a row, or a time before all others."""
        found = self._store.get(key)
        return -1 if found is None else int(found.timestamp_ms)


def rows_of_parent(task: "PartitionTask", node: nodes.Node, parent: int, own: str) -> Rows:
    """Returns the rows of a table that a join reads: those that the table keeps, or a copy."""
    table = node.parents[parent]
    windows: Windows | None = table.windows if isinstance(table, nodes.Aggregate) else None
    if isinstance(table, nodes.TableSource | nodes.ToTable | nodes.Aggregate) and windows is None:
        return Rows(task.key_value_store(table.store), is_own=False)
    return Rows(task.key_value_store(own), is_own=True)


class TableJoin(Operator[nodes.TableJoin]):
    def __init__(self, task: "PartitionTask", node: nodes.TableJoin) -> None:
        super().__init__(task, node)
        self._sides = (
            rows_of_parent(task, node, 0, f"{node.store}-left"),
            rows_of_parent(task, node, 1, f"{node.store}-right"),
        )

    def handler(self, parent: int) -> Handler:
        return partial(self._change, parent)

    def _change(self, side: int, key: Any, value: Change, timestamp_ms: int) -> None:
        if key is None:
            return
        self._sides[side].note(key, value.new, timestamp_ms)
        other = self._sides[1 - side]
        partner = other.get(key)
        if side == 0:
            old, new = self._joined(key, value.old, partner), self._joined(key, value.new, partner)
        else:
            old, new = self._joined(key, partner, value.old), self._joined(key, partner, value.new)
        # As Kafka Streams: a deletion is passed on where the other side has a row, also if nothing
        # is known to be deleted.
        if old is not None or new is not None or partner is not None:
            latest_ms = max(timestamp_ms, other.timestamp_ms(key))
            self.forward(key, Change(old, new), latest_ms)

    def _joined(self, key: Any, left: Any, right: Any) -> Any:
        """Returns the row that two rows make, or None if there is none."""
        kind = self.node.kind
        has_left = left is not None or (kind is JoinKind.OUTER and right is not None)
        has_right = right is not None or kind is not JoinKind.INNER
        return self.node.joiner(key, left, right) if has_left and has_right else None


class ForeignKeyJoin(Operator[nodes.ForeignKeyJoin]):
    def __init__(self, task: "PartitionTask", node: nodes.ForeignKeyJoin) -> None:
        super().__init__(task, node)
        self._left = rows_of_parent(task, node, 0, f"{node.store}-left")
        self._right = rows_of_parent(task, node, 1, f"{node.store}-right")
        # From a foreign key to the left rows that name it, each with the partition it is in.
        self._subscribers = task.key_value_store(f"{node.store}-subscriptions")

    def handler(self, parent: int) -> Handler:
        return self._left_change if parent == 0 else self._right_change

    def _left_change(self, key: Any, value: Change, timestamp_ms: int) -> None:
        if key is None:
            return
        self._left.note(key, value.new, timestamp_ms)
        old_key, new_key = self._foreign(key, value.old), self._foreign(key, value.new)
        moves = old_key is not None and old_key != new_key
        if moves:
            self._owner(old_key).unsubscribe(old_key, key)
        old = self._owner(old_key).joined(old_key, key, value.old)
        new = self._owner(new_key).joined(new_key, key, value.new)
        if new_key is not None and old_key != new_key:
            self._owner(new_key).subscribe(new_key, key, self.task.partition)
        if moves and self.node.kind is JoinKind.LEFT:
            # As Kafka Streams, which has two answers then: of the row that is left, and of the one
            # that is named now.
            alone = self._row(key, value.new, None)
            left_ms = self._owner(old_key).right_timestamp_ms(old_key)
            self.forward(key, Change(old, alone), max(timestamp_ms, left_ms))
            old = alone
        is_unset = value.old is not None and (new_key is not None or value.new is None)
        if old is not None or new is not None or is_unset:
            is_deleted = value.new is None and self.node.kind is JoinKind.INNER
            named = old_key if is_deleted else new_key
            right_ms = self._owner(named).right_timestamp_ms(named)
            self.forward(key, Change(old, new), max(timestamp_ms, right_ms))

    def _right_change(self, key: Any, value: Change, timestamp_ms: int) -> None:
        if key is None:
            return
        self._right.note(key, value.new, timestamp_ms)
        subscribers = self._subscribers.get(key) or {}
        # As Kafka Streams: in the order of their bytes.
        encode = self.node.left_codec.encode
        for left_key, partition in sorted(
            subscribers.items(), key=lambda subscriber: encode(subscriber[0]) or b""
        ):
            owner = self._in_partition(partition)
            owner.right_changed(left_key, value, timestamp_ms)

    def right_changed(self, key: Any, value: Change, timestamp_ms: int) -> None:
        """Called in the partition of the left row, when the right row that it names changes."""
        left = self._left.get(key)
        old, new = self._row(key, left, value.old), self._row(key, left, value.new)
        if left is not None:
            # As Kafka Streams: the time of the right row alone, also if the left row is newer.
            self.forward(key, Change(old, new), timestamp_ms)

    def subscribe(self, foreign_key: Any, key: Any, partition: int) -> None:
        subscribers = self._subscribers.get(foreign_key) or {}
        self._subscribers.put(foreign_key, {**subscribers, key: partition})

    def unsubscribe(self, foreign_key: Any, key: Any) -> None:
        subscribers = dict(self._subscribers.get(foreign_key) or {})
        subscribers.pop(key, None)
        self._subscribers.put(foreign_key, subscribers or None)

    def joined(self, foreign_key: Any, key: Any, left: Any) -> Any:
        """Called in the partition of the foreign key: returns the row of a left row, or None."""
        right = None if foreign_key is None else self._right.get(foreign_key)
        return self._row(key, left, right)

    def right_timestamp_ms(self, foreign_key: Any) -> int:
        return -1 if foreign_key is None else self._right.timestamp_ms(foreign_key)

    def _row(self, key: Any, left: Any, right: Any) -> Any:
        if left is None or (right is None and self.node.kind is JoinKind.INNER):
            return None
        return self.node.joiner(key, left, right)

    def _foreign(self, key: Any, row: Any) -> Any:
        return None if row is None else self.node.foreign_key(key, row)

    def _owner(self, foreign_key: Any) -> "ForeignKeyJoin":
        """Returns this operator in the partition of a foreign key."""
        if foreign_key is None:
            return self
        executor = self.task.executor
        data = self.node.right_codec.encode(foreign_key)
        count = executor.partitions_below(self.node.parents[1])
        return self._in_partition(executor.partition_of(data, count))

    def _in_partition(self, partition: int) -> "ForeignKeyJoin":
        operator = self.task.executor.task(partition).operator(self.node)
        assert isinstance(operator, ForeignKeyJoin)
        return operator
