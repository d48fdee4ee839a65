"""Writes the rows of one task of one micro-batch exactly once, however often it is tried.

The argument, in short (docs/spark.md has it in full). A task is named by its query and its number.
Its transactional id and its group are that name. An attempt at batch N

1. initialises the transactional id. From here on every older attempt is fenced, and what it left
   open is aborted, or, if its commit was decided, finished;
2. reads the group's committed offset. Nothing can change it any more but this attempt, or a newer
   one that fences it. If it is above N, an earlier attempt has committed these rows: done;
3. writes the rows, and the offset N + 1, in one transaction, and commits it.

So the rows of (task, N) are in the log under a commit marker at most once, and a task succeeds only
if they are there. It holds for each task, not for the batch as a whole: a reader may see one task's
rows before another's.

Rows would be lost or doubled if a replayed batch gave a task other rows than before. So the offset
carries a fingerprint of the rows, and a replay that differs is refused, not skipped.
"""

import json
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.admin_group_types import GroupOffset
from odradek.client.group_offsets import OffsetAndMetadata
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.options import SinkOptions

if TYPE_CHECKING:
    from odradek.client.arrow.encoding import RecordColumns
    from odradek.client.arrow.producer import BatchProducer

_SUM_MASK: Final = (1 << 64) - 1
_CLOSE_TIMEOUT_MS: Final = 5_000

Send = Callable[["BatchProducer", Iterator["RecordColumns"]], tuple[int, set[str]]]


class Step(Enum):
    """Where an attempt stands; tests end it there."""

    INITIALISED = "initialised"
    WRITTEN = "written"
    COMMITTED = "committed"


class ReplayDiffers(RuntimeError):
    """A replayed batch gives a task other rows than it has already written."""


class TaskWrite(NamedTuple):
    """One task of one micro-batch. `name` is transactional id and group at once."""

    name: str
    batch_id: int

    @property
    def done_offset(self) -> int:
        """What the group's offset is once this batch is written."""
        return self.batch_id + 1


class Outcome(NamedTuple):
    rows: int
    was_done_before: bool


class Fingerprint(NamedTuple):
    """Rows counted and summed, in whichever order they came."""

    rows: int
    total: int

    def to_metadata(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_metadata(cls, text: str) -> "Fingerprint":
        return cls(**json.loads(text))


class _Counted:
    """Passes columns on and counts them on their way."""

    def __init__(self, columns: "Iterator[RecordColumns]") -> None:
        self._columns = columns
        self.rows = 0
        self.total = 0

    def __iter__(self) -> "Iterator[RecordColumns]":
        for one in self._columns:
            self.rows += one.row_count
            self.total = (self.total + one.fingerprint()) & _SUM_MASK
            yield one

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.rows, self.total)


def write_once(
    task: TaskWrite,
    options: SinkOptions,
    columns: "Iterator[RecordColumns]",
    *,
    send: Send,
    reached: Callable[[Step], None],
) -> Outcome:
    """Writes the rows unless that was done before; returns when they are committed."""
    from odradek.client.arrow.producer import BatchProducer  # noqa: PLC0415 - see `sink`

    first = next(columns, None)
    if first is None:
        # Nothing to write and nothing to fence, but the batch may have had rows before.
        done = _done(task, options)
        if done is not None:
            _compare(task, done, Fingerprint(0, 0))
        return Outcome(0, was_done_before=done is not None)
    counted = _Counted(chain((first,), columns))
    producer = BatchProducer(options.producer_settings(task.name))
    try:
        producer.init_transactions()
        reached(Step.INITIALISED)
        done = _done(task, options)
        if done is not None:
            for _ in counted:
                pass
            _compare(task, done, counted.fingerprint)
            return Outcome(0, was_done_before=True)
        producer.begin_transaction()
        rows, topics = send(producer, iter(counted))
        note = OffsetAndMetadata(task.done_offset, counted.fingerprint.to_metadata())
        # With each topic that was written to: one that is deleted takes its offset along.
        offsets = {TopicPartition(topic, 0): note for topic in sorted(topics)}
        producer.send_offsets(offsets, task.name)
        reached(Step.WRITTEN)
        producer.commit_transaction()
        reached(Step.COMMITTED)
        return Outcome(rows, was_done_before=False)
    finally:
        # Aborts what is still open: after an error, or when Spark kills the attempt.
        producer.close(_CLOSE_TIMEOUT_MS)


def _done(task: TaskWrite, options: SinkOptions) -> GroupOffset | None:
    """The group's position if this batch, or a later one, was written."""
    admin = clients.admin(options.admin_settings())
    newest: GroupOffset | None = None
    for answer in admin.list_group_offsets(task.name, require_stable=True).values():
        if isinstance(answer, KafkaError):
            raise answer
        if newest is None or answer.offset > newest.offset:
            newest = answer
    if newest is None or newest.offset < task.done_offset:
        return None
    return newest


def _compare(task: TaskWrite, done: GroupOffset, now: Fingerprint) -> None:
    """What was written for this very batch must be what would be written now."""
    if done.offset != task.done_offset:
        return
    before = Fingerprint.from_metadata(done.metadata)
    if before != now:
        raise ReplayDiffers(
            f"batch {task.batch_id} has been written by {task.name} with {before.rows} rows, and"
            f" its replay has {now.rows} that differ: the query does not give the same rows to"
            " the same task twice (see docs/spark.md); its sink can only be"
            " option('deliveryGuarantee', 'at-least-once')"
        )
