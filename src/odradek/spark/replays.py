"""Decides whether a micro-batch that an earlier run has begun to write can be committed as a whole.

Each task commits for itself (`exactly_once`), so a driver that dies may leave a batch of which some
tasks are written and some are not. The next run replays it. If a task of the earlier run has
written its rows, the task of the same number skips them, provided that they are the same rows. But
a replay may be split differently: into another number of tasks, or by a plan that is not
deterministic. Then a task may have rows that a task with another number has already written.

No task can see that; the driver can. So a task that has rows to write, and finds that an earlier
run has written some of its batch, writes them but leaves its transaction open. When Spark has
the messages of all tasks, the driver calls `commit_batch`. It fences the tasks that the replay does
not have, and commits the open transactions if every task that earlier runs have written is part of
the replay, with the same rows. Otherwise it aborts all of them, and the topic is as it was. If the
driver dies half-way, the next run finds more tasks that are written, and the same argument holds.

Invariant: in a replay no transaction is committed before all rows that earlier runs have committed
are known to belong to tasks of the replay.
"""

import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from odradek.client.errors import ClientError
from odradek.client.producer.transaction_requests import Identity
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from odradek.spark import clients
from odradek.spark.markers import Marker, ReplayDiffers, TaskWrite, read_all
from odradek.spark.options import SinkOptions

_log = logging.getLogger("odradek.spark")


class CommitFailed(RuntimeError):
    """A transaction that was handed over to the driver does not exist any more; the next run
    replays the batch."""


class TaskReport(NamedTuple):
    """What a task has done, as it reports to the driver. `pending` is its transaction, if it is
    open."""

    task: TaskWrite
    rows: int
    was_done_before: bool
    pending: Identity | None

    @property
    def is_written(self) -> bool:
        """Whether the task's marker, if it has one, was compared with its rows or written with
        them."""
        return self.pending is None and (self.was_done_before or self.rows > 0)


class EarlierMarker(NamedTuple):
    """A marker that an earlier run has left, and the group whose committed offset it is."""

    group: str
    marker: Marker


def groups(options: SinkOptions, is_wanted: Callable[[str], bool]) -> list[str]:
    listed = clients.admin(options.admin_settings()).list_groups()
    return sorted({listing.group_id for listing in listed if is_wanted(listing.group_id)})


def topic_id_of(options: SinkOptions) -> Callable[[str], TopicId]:
    """Returns a function that asks the brokers for a topic's current id."""

    def ask(topic: str) -> TopicId:
        answer = clients.admin(options.admin_settings()).describe_topics([topic])[topic]
        if isinstance(answer, KafkaError):
            if answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return NO_TOPIC_ID
            raise answer
        return TopicId(answer.id)

    return ask


def of_query(options: SinkOptions, same_query: str) -> list[str]:
    """Returns the groups of all tasks of a query that write to a topic, whatever their
    `transactionalIdPrefix`."""
    return groups(options, lambda name: name.rstrip("0123456789").endswith(same_query))


def last_batch_of_earlier_runs(
    options: SinkOptions, same_query: str, run: str
) -> tuple[EarlierMarker, ...]:
    """Returns the markers of all tasks of the last batch that earlier runs have written.

    If the current run is not known, every marker is treated as one of an earlier run.
    """
    admin, topic_id = clients.admin(options.admin_settings()), cache(topic_id_of(options))
    earlier: list[EarlierMarker] = []
    for name in of_query(options, same_query):
        for marker in read_all(admin.list_group_offsets(name)):
            is_there = marker.topic_id in {NO_TOPIC_ID, topic_id(marker.topic)}
            if is_there and (not run or marker.run != run):
                earlier.append(EarlierMarker(name, marker))
    last = max((left.marker.done_offset for left in earlier), default=0)
    return tuple(left for left in earlier if left.marker.done_offset == last)


def commit_batch(options: SinkOptions, reports: Iterable[TaskReport]) -> None:
    """Commits the transactions that tasks have left open, if the invariant of this module allows
    it.

    Called by the sink at the driver when all tasks are done. If an earlier run has written rows of
    this batch that no task of the replay has compared, it aborts the open transactions and raises
    `ReplayDiffers`.
    """
    reports = list(reports)
    if not any(report.pending is not None or report.was_done_before for report in reports):
        # The batch is not a replay: each task has committed its own transaction.
        return
    try:
        _check_accounted(options, reports)
    except BaseException:
        abort_batch(options, reports)
        raise
    answers = _end(options, reports, is_commit=True)
    for name, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise CommitFailed(
                f"the transaction of {name} could not be committed: {answer} Another attempt at"
                " the task, or transaction.timeout.ms, has ended it. Start the query again: it"
                " finds out what is written, and writes what is not"
            ) from answer


def abort_batch(options: SinkOptions, reports: Iterable[TaskReport]) -> None:
    """Aborts the transactions that tasks have left open. One that cannot be aborted now is aborted
    by the next attempt at its task."""
    try:
        answers = _end(options, list(reports), is_commit=False)
    except (ClientError, KafkaError) as error:
        _log.warning("transactions of a batch that failed are left open: %s", error)
        return
    for name, answer in answers.items():
        if isinstance(answer, KafkaError):
            _log.warning("transaction %s is left as it is: %s", name, answer)


def _check_accounted(options: SinkOptions, reports: list[TaskReport]) -> None:
    task = reports[0].task
    same_query = task.name_of_all_tasks(options.id_prefix)
    _fence_absent(options, same_query, {report.task.name for report in reports})
    accounted = {report.task.name for report in reports if report.is_written}
    for group, marker in last_batch_of_earlier_runs(options, same_query, task.run):
        if marker.done_offset == task.done_offset and group not in accounted:
            raise ReplayDiffers(
                f"batch {task.batch_id} has been begun by an earlier run, in which {group} has"
                f" written {marker.fingerprint.rows} rows, and in its replay these rows are not"
                " those of that task: the batch is split into tasks in another way, so that rows"
                " would be written twice. Nothing of the replay is written. Run the query with"
                " the parallelism (repartition, coalesce, minPartitions, cores) and the"
                " transactionalIdPrefix that it had until the batch is done, or set"
                " option('deliveryGuarantee', 'at-least-once')"
            )


def _fence_absent(options: SinkOptions, same_query: str, present: set[str]) -> None:
    """Fences the tasks of an earlier run that the replay does not have, because they may still
    run."""
    absent = [name for name in of_query(options, same_query) if name not in present]
    answers = clients.admin(options.admin_settings()).fence_producers(absent)
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer


def _end(
    options: SinkOptions, reports: list[TaskReport], *, is_commit: bool
) -> dict[str, bool | KafkaError]:
    pending = [report.pending for report in reports if report.pending is not None]
    if not pending:
        return {}
    admin = clients.admin(options.admin_settings())
    answers: dict[str, bool | KafkaError] = admin.end_transactions(pending, is_commit=is_commit)
    return answers
