"""Writes the rows of one task of one micro-batch exactly once, however often it is tried.

The argument, in short (docs/spark.md has it in full). A task is named by its query, the topic that
it writes to, and its number. Its transactional id and its group are that name. An attempt at
batch N

1. initialises the transactional id. From here on every older attempt is fenced, and what it left
   open is aborted, or, if its commit was decided, finished;
2. reads the marker: the group's committed offset and its metadata. Nothing can change it any more
   but this attempt, or a newer one that fences it. An offset of N + 1 says that an earlier attempt
   has committed this batch: done, if the rows are the same;
3. writes the rows, and the offset N + 1, in one transaction, and commits it. If an earlier run of
   the query has written other tasks of batch N, it leaves the commit to the driver, which knows
   what all tasks have: see `replays`.

So the rows of (task, N) are in the log under a commit marker at most once, and a batch succeeds
only if they are there. A reader may see one task's rows before another's.

Rows would be lost or doubled if a marker were taken for work that it does not describe. So
`markers` refuses every marker that does not fit this very attempt: one of a later batch (the
checkpoint is older than the topic), one with other rows (the replay differs), one of another write
of the same batch, one that was written under another `transactionalIdPrefix`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.group.offsets import OffsetAndMetadata
from odradek.client.producer.transaction_requests import Identity
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.markers import (
    Fingerprint,
    Marker,
    TaskWrite,
    done,
    read_all,
    refuse_older,
    refuse_other_prefix,
)
from odradek.spark.options import SinkOptions
from odradek.spark.replays import Left, groups, last_batch_of_earlier_runs, topic_id_of

if TYPE_CHECKING:
    from odradek.spark.arrow.encoding import RecordColumns
    from odradek.spark.arrow.producer import BatchProducer

_SUM_MASK: Final = (1 << 64) - 1
_CLOSE_TIMEOUT_MS: Final = 5_000
# The end of the batch before may still be on its way to the group's partition.
_SETTLING_LOOKS: Final = 100
_BETWEEN_LOOKS_S: Final = 0.05

Send = Callable[["BatchProducer", Iterator["RecordColumns"]], tuple[int, set[str]]]


class Outcome(NamedTuple):
    """`pending` is the transaction with the rows, if the driver is to end it (`replays`)."""

    rows: int
    was_done_before: bool
    pending: Identity | None = None


class _Counted:
    """Passes columns on and counts them on their way."""

    def __init__(self, columns: "Iterator[RecordColumns]") -> None:
        self._columns = columns
        self.rows = 0
        self.total = 0

    def __iter__(self) -> "Iterator[RecordColumns]":
        for columns in self._columns:
            self.rows += columns.row_count
            self.total = (self.total + columns.fingerprint()) & _SUM_MASK
            yield columns

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.rows, self.total)


def write_once(
    task: TaskWrite,
    options: SinkOptions,
    columns: "Iterator[RecordColumns]",
    *,
    send: Send,
) -> Outcome:
    """Writes the rows unless that was done before; returns when they are committed.

    Called by the sink in a Python worker of Spark's. Raises `ReplayDiffers` or `WriteRefused`,
    before it has written anything, where it cannot tell whether the rows were written.
    """
    first = next(columns, None)
    if first is None:
        return _write_nothing(task, options)
    counted = _Counted(chain((first,), columns))
    with _initialised(options, task.name) as producer:
        markers = _markers(options, task.name)
        marker = done(task, markers, topic_id_of(options))
        if marker is not None:
            for _ in counted:
                pass
            task.compare(marker, counted.fingerprint)
            return Outcome(0, was_done_before=True)
        is_first = not any(task.run and earlier.run == task.run for earlier in markers)
        is_replay = is_first and _is_begun(task, options)
        producer.begin_transaction()
        rows, topics = send(producer, iter(counted))
        # With each topic that was written to: one that is deleted takes its offset along.
        offsets = {
            TopicPartition(topic, 0): OffsetAndMetadata(
                task.done_offset,
                Marker.of(task, topic, producer.topic_id(topic), counted.fingerprint).to_metadata(),
            )
            for topic in sorted(topics)
        }
        producer.send_offsets(offsets, task.name)
        if is_replay:
            return Outcome(rows, was_done_before=False, pending=producer.hand_over_transaction())
        producer.commit_transaction()
        return Outcome(rows, was_done_before=False)


@contextmanager
def _initialised(options: SinkOptions, transactional_id: str) -> "Iterator[BatchProducer]":
    """A producer that has fenced all others of its transactional id."""
    from odradek.spark.arrow.producer import BatchProducer  # noqa: PLC0415 - see `sink`

    producer = BatchProducer(options.producer_settings(transactional_id))
    try:
        producer.init_transactions()
        yield producer
    finally:
        # Aborts what is still open: after an error, or when Spark kills the attempt.
        producer.close(_CLOSE_TIMEOUT_MS)


def _write_nothing(task: TaskWrite, options: SinkOptions) -> Outcome:
    """A task without rows writes no marker, but the batch may have had rows before.

    It does not fence: most tasks of a large shuffle are empty, and each would cost a transaction.
    Only where a transaction of the same name stays open does it end that one, as a task with rows
    would.
    """
    try:
        markers = _settled_markers(task, options)
    except KafkaError as error:
        if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            raise
        with _initialised(options, task.name):
            markers = _markers(options, task.name)
    marker = done(task, markers, topic_id_of(options))
    if marker is None:
        return Outcome(0, was_done_before=False)
    task.compare(marker, Fingerprint(0, 0))
    return Outcome(0, was_done_before=True)


def _settled_markers(task: TaskWrite, options: SinkOptions) -> list[Marker]:
    """The markers, once no transaction is about to change them any more."""
    pause = threading.Event()
    for _ in range(_SETTLING_LOOKS):
        try:
            return _markers(options, task.name)
        except KafkaError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        pause.wait(_BETWEEN_LOOKS_S)
    return _markers(options, task.name)


def _markers(options: SinkOptions, group: str) -> list[Marker]:
    """By name where the topic is known: a group's first offset, if it is not committed yet, is not
    among all of its offsets, but whoever asks for it is told to wait."""
    admin = clients.admin(options.admin_settings())
    partitions = None if options.topic is None else [TopicPartition(options.topic, 0)]
    return read_all(admin.list_group_offsets(group, partitions, require_stable=True))


def _is_begun(task: TaskWrite, options: SinkOptions) -> bool:
    """Whether an earlier run has written tasks of this batch; before the first write in a run.

    From then on the task's own marker names the run. Refused are a batch that some task of the
    query is already beyond, and a batch that this task has written under another
    `transactionalIdPrefix`; one that it could still write under another prefix is fenced.
    """
    left = _left(options, task.name_of_all_tasks(options.id_prefix), task.run)
    for earlier in left:
        refuse_older(task, earlier.marker)
    same_task = task.name.removeprefix(options.id_prefix)
    for name in groups(options, lambda name: name.endswith(same_task)):
        if name != task.name:
            with _initialised(options, name):
                markers = _markers(options, name)
            if done(task, markers, topic_id_of(options)) is not None:
                refuse_other_prefix(task, name.removesuffix(same_task))
    return any(earlier.marker.done_offset == task.done_offset for earlier in left)


@cache
def _left(options: SinkOptions, same_query: str, run: str) -> tuple[Left, ...]:
    """Asked once by each process in each run, for there is a group for each task."""
    return last_batch_of_earlier_runs(options, same_query, run)
