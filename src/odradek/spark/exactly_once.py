"""Writes the rows of one task of one micro-batch exactly once, however often it is tried.

The argument in short; docs/spark.md has it in full. A task is named by its query, the topic that it
writes to, and its number. Its transactional id and its group are that name. An attempt at batch N

1. initialises the transactional id. From here on every older attempt is fenced. A transaction that
   it left open is aborted, or completed if its commit was decided already;
2. reads the marker: the group's committed offset and its metadata. Only this attempt can change it
   now, or a newer attempt that fences this one. An offset of N + 1 says that an earlier attempt
   has committed this batch: nothing is left to do, if the rows are the same;
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
from odradek.spark.replays import EarlierMarker, groups, last_batch_of_earlier_runs, topic_id_of

if TYPE_CHECKING:
    from odradek.spark.arrow.encoding import RecordColumns
    from odradek.spark.arrow.producer import BatchProducer

_SUM_MASK: Final = (1 << 64) - 1
_CLOSE_TIMEOUT_MS: Final = 5_000
# The commit marker of the previous batch's transaction possibly has not reached the group's
# partition yet.
_MAX_UNSTABLE_READS: Final = 100
_UNSTABLE_READ_INTERVAL_S: Final = 0.05

Send = Callable[["BatchProducer", Iterator["RecordColumns"]], tuple[int, set[str]]]


class Outcome(NamedTuple):
    """What an attempt has done. `pending` is its open transaction, if the driver is to end it (see
    `replays`)."""

    rows: int
    was_done_before: bool
    pending: Identity | None = None


class _Counted:
    """Passes columns on, and counts their rows and sums their fingerprints."""

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
    """Writes the rows unless an earlier attempt has done so; returns when they are committed.

    Called by the sink in a Python worker of Spark. Where it cannot tell whether the rows were
    written, it raises `ReplayDiffers` or `WriteRefused` before it has written anything.
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
        # The marker is stored once for each topic that was written to: deleting a topic deletes the
        # offsets committed for it, and with them its marker.
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
    """Yields a producer that has fenced all other producers of its transactional id."""
    from odradek.spark.arrow.producer import BatchProducer  # noqa: PLC0415 - see `sink`

    producer = BatchProducer(options.producer_settings(transactional_id))
    try:
        producer.init_transactions()
        yield producer
    finally:
        # Aborts a transaction that is still open after an error, or because Spark kills the
        # attempt.
        producer.close(_CLOSE_TIMEOUT_MS)


def _write_nothing(task: TaskWrite, options: SinkOptions) -> Outcome:
    """Handles a task without rows: it writes no marker, but an earlier attempt may have written
    rows.

    It does not initialise the transactional id: most tasks of a large shuffle are empty, and each
    would cost a transaction. Only if a transaction of this id stays open does it initialise it,
    which ends the transaction, as a task with rows would.
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
    """Returns the markers when no open transaction can change them any more."""
    pause = threading.Event()
    for _ in range(_MAX_UNSTABLE_READS):
        try:
            return _markers(options, task.name)
        except KafkaError as error:
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        pause.wait(_UNSTABLE_READ_INTERVAL_S)
    return _markers(options, task.name)


def _markers(options: SinkOptions, group: str) -> list[Marker]:
    """Reads the markers of a group. If the topic is known, its offset is requested by name: while a
    group's first offset is in an open transaction, a request for all offsets leaves it out, but a
    request by name is answered with UNSTABLE_OFFSET_COMMIT."""
    admin = clients.admin(options.admin_settings())
    partitions = None if options.topic is None else [TopicPartition(options.topic, 0)]
    return read_all(admin.list_group_offsets(group, partitions, require_stable=True))


def _is_begun(task: TaskWrite, options: SinkOptions) -> bool:
    """Returns whether an earlier run of the query has written tasks of this batch.

    Called before the first write of a task in a run; after it, the task's own marker names the run.
    Raises if a task of the query has written a later batch, or if this task has written the batch
    under another `transactionalIdPrefix`. Attempts that run under another prefix are fenced.
    """
    left = _earlier_markers(options, task.name_of_all_tasks(options.id_prefix), task.run)
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
def _earlier_markers(options: SinkOptions, same_query: str, run: str) -> tuple[EarlierMarker, ...]:
    """Cached, so that each process asks once in a run: there is one group for each task of the
    query."""
    return last_batch_of_earlier_runs(options, same_query, run)
