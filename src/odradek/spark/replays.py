"""Decides about a micro-batch as a whole that an earlier run of the query has begun to write.

Each task commits for itself (`exactly_once`), so a driver that dies may leave a batch of which some
tasks are written and some are not. The next run replays it. What a task has written is skipped by
the task of the same number, if its rows are the same. But a replay may be split in another way: by
another number of tasks, or by a plan that is not deterministic. A task that is new then has rows
which another task, one that has changed or that is not there any more, has already written.

No task can see that; the driver can. So a task that has rows to write, and finds that an earlier
run has written some of its batch, writes them but leaves its transaction open. When Spark has
the messages of all tasks, the driver calls `commit_batch`. It fences the tasks that the replay does
not have, and commits the open transactions if every task that earlier runs have written is part of
the replay, with the same rows. Otherwise it aborts all of them, and the topic is as it was. If the
driver dies half-way, the next run finds more tasks that are written, and the same argument holds.

Invariant: in a replay nothing becomes visible before all that is visible already is accounted for.
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
    """A transaction that was handed to the driver is gone; the next run replays the batch."""


class TaskShare(NamedTuple):
    """What a task did, as it tells the driver; `pending` is its transaction, if it is open."""

    task: TaskWrite
    rows: int
    was_done_before: bool
    pending: Identity | None

    @property
    def is_written(self) -> bool:
        """Whether its marker, if there is one, was compared with its rows or made of them."""
        return self.pending is None and (self.was_done_before or self.rows > 0)


class Left(NamedTuple):
    """A marker that an earlier run has left, and the group that it is the offset of."""

    group: str
    marker: Marker


def groups(options: SinkOptions, is_wanted: Callable[[str], bool]) -> list[str]:
    listed = clients.admin(options.admin_settings()).list_groups()
    return sorted({listing.group_id for listing in listed if is_wanted(listing.group_id)})


def topic_id_of(options: SinkOptions) -> Callable[[str], TopicId]:
    """Asks brokers for a topic's id as it is now."""

    def ask(topic: str) -> TopicId:
        found = clients.admin(options.admin_settings()).describe_topics([topic])[topic]
        if isinstance(found, KafkaError):
            if found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return NO_TOPIC_ID
            raise found
        return TopicId(found.id)

    return ask


def of_query(options: SinkOptions, same_query: str) -> list[str]:
    """The groups of all tasks of a query into a topic, under whichever `transactionalIdPrefix`."""
    return groups(options, lambda name: name.rstrip("0123456789").endswith(same_query))


def last_batch_of_earlier_runs(options: SinkOptions, same_query: str, run: str) -> tuple[Left, ...]:
    """The markers of the last batch that earlier runs have written, of all of its tasks.

    Where Spark does not tell the run, every marker counts.
    """
    admin, topic_id = clients.admin(options.admin_settings()), cache(topic_id_of(options))
    found: list[Left] = []
    for name in of_query(options, same_query):
        for marker in read_all(admin.list_group_offsets(name)):
            is_there = marker.topic_id in {NO_TOPIC_ID, topic_id(marker.topic)}
            if is_there and (not run or marker.run != run):
                found.append(Left(name, marker))
    last = max((left.marker.done_offset for left in found), default=0)
    return tuple(left for left in found if left.marker.done_offset == last)


def commit_batch(options: SinkOptions, shares: Iterable[TaskShare]) -> None:
    """Commits what tasks have left open, if the batch accounts for all that is written of it.

    Called by the sink at the driver when all tasks are done. Raises `ReplayDiffers`, and aborts
    what is open, if a task has written rows of this batch that no task of the replay has compared.
    """
    shares = list(shares)
    if not any(share.pending is not None or share.was_done_before for share in shares):
        # The batch is no replay, and each task has committed for itself.
        return
    try:
        _check_accounted(options, shares)
    except BaseException:
        abort_batch(options, shares)
        raise
    answers = _end(options, shares, is_commit=True)
    for name, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise CommitFailed(
                f"the transaction of {name} could not be committed: {answer} Another attempt at"
                " the task, or transaction.timeout.ms, has ended it. Start the query again: it"
                " finds out what is written, and writes what is not"
            ) from answer


def abort_batch(options: SinkOptions, shares: Iterable[TaskShare]) -> None:
    """Aborts what tasks have left open; what stays open is aborted by their next attempts."""
    try:
        answers = _end(options, list(shares), is_commit=False)
    except (ClientError, KafkaError) as error:
        _log.warning("transactions of a batch that failed are left open: %s", error)
        return
    for name, answer in answers.items():
        if isinstance(answer, KafkaError):
            _log.warning("transaction %s is left as it is: %s", name, answer)


def _check_accounted(options: SinkOptions, shares: list[TaskShare]) -> None:
    task = shares[0].task
    same_query = task.name_of_all_tasks(options.id_prefix)
    _fence_absent(options, same_query, {share.task.name for share in shares})
    accounted = {share.task.name for share in shares if share.is_written}
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
    """Tasks of an earlier run that the replay does not have may still run: they end here."""
    absent = [name for name in of_query(options, same_query) if name not in present]
    answers = clients.admin(options.admin_settings()).fence_producers(absent)
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer


def _end(
    options: SinkOptions, shares: list[TaskShare], *, is_commit: bool
) -> dict[str, bool | KafkaError]:
    pending = [share.pending for share in shares if share.pending is not None]
    if not pending:
        return {}
    admin = clients.admin(options.admin_settings())
    answers: dict[str, bool | KafkaError] = admin.end_transactions(pending, is_commit=is_commit)
    return answers
