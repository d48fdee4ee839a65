"""The exactly-once write of a task, attempt by attempt, on a broker and without Spark."""

import threading
from collections.abc import Iterable, Iterator
from uuid import uuid4

import pyarrow as pa
import pytest

from odradek.client.admin.group_types import GroupOffset
from odradek.client.group.offsets import OffsetAndMetadata
from odradek.client.sync import Admin
from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.encoding import RecordColumns, record_columns
from odradek.spark.arrow.producer import BatchProducer
from odradek.spark.exactly_once import Outcome, write_once
from odradek.spark.markers import ReplayDiffers, TaskWrite, WriteRefused
from odradek.spark.options import SinkOptions
from odradek.spark.replays import CommitFailed, TaskReport, abort_batch, commit_batch
from odradek.spark.sink import send_all
from odradek.testing import Cluster
from tests.spark.topics import values_in

pytestmark = pytest.mark.xdist_group("spark")


class Query:
    """Attempts at the tasks of one query into one topic."""

    def __init__(self, brokers: Cluster, topic: str, query_id: str | None = None) -> None:
        self._brokers = brokers
        self._topic = topic
        self.id = query_id or str(uuid4())

    def options(self, prefix: str = "odradek-sink") -> SinkOptions:
        given = {
            "kafka.bootstrap.servers": self._brokers.bootstrap,
            "topic": self._topic,
            "transactionalIdPrefix": prefix,
        }
        return SinkOptions.read(given, is_streaming=True)

    def name(self, prefix: str = "odradek-sink", task: int = 0) -> str:
        return f"{prefix}-{self.id}-{self._topic}-{task}"

    def attempt(
        self,
        batch_id: int,
        values: Iterable[bytes],
        *,
        run: str = "run",
        write: str | None = None,
        prefix: str = "odradek-sink",
        task: int = 0,
    ) -> Outcome:
        """Spark numbers writes, so each batch of a run has another number unless one is given."""
        options = self.options(prefix)

        def send(producer: BatchProducer, columns: Iterator[RecordColumns]) -> tuple[int, set[str]]:
            return send_all(options, producer, columns)

        work = TaskWrite(self.name(prefix, task), batch_id, run, write or str(batch_id))
        return write_once(work, options, columns_of(values), send=send)

    def replay(self, batch_id: int, *tasks: list[bytes], run: str) -> list[TaskReport]:
        """A batch as Spark runs it: all of its tasks; the driver's part is left to the test."""
        reports = []
        for index, values in enumerate(tasks):
            outcome = self.attempt(batch_id, values, run=run, task=index)
            task = TaskWrite(self.name(task=index), batch_id, run, str(batch_id))
            reports.append(TaskReport(task, outcome.rows, outcome.was_done_before, outcome.pending))
        return reports


def columns_of(values: Iterable[bytes]) -> Iterator[RecordColumns]:
    held = list(values)
    if held:
        yield record_columns(pa.record_batch({"value": pa.array(held, pa.binary())}), 0)


def test_an_attempt_after_a_commit_writes_nothing(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    assert query.attempt(0, [b"a"]) == Outcome(1, was_done_before=False)
    assert query.attempt(0, [b"a"]) == Outcome(0, was_done_before=True)
    assert query.attempt(0, [b"a"], run="restarted", write="9") == Outcome(0, was_done_before=True)
    assert query.attempt(1, [b"b"], run="restarted") == Outcome(1, was_done_before=False)
    assert values_in(brokers, topic, 1) == [b"a", b"b"]


def test_a_checkpoint_that_is_older_than_the_topic_is_refused(brokers: Cluster) -> None:
    """Restored from a backup, batch 1 has other rows than it had, and batch 2 was written."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    for batch_id, value in enumerate([b"a", b"b", b"c"]):
        query.attempt(batch_id, [value])
    with pytest.raises(WriteRefused, match="the checkpoint is older than the topic"):
        query.attempt(1, [b"b", b"c", b"d"], run="restored")
    with pytest.raises(WriteRefused, match="the checkpoint is older than the topic"):
        query.attempt(1, [], run="restored")
    assert values_in(brokers, topic, 1) == [b"a", b"b", b"c"]


def test_a_task_is_refused_if_another_task_is_beyond_its_batch(brokers: Cluster) -> None:
    """Restored from a backup, a batch may be split into more tasks than it was."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    for batch_id, value in enumerate([b"a", b"b", b"c"]):
        query.attempt(batch_id, [value])
    with pytest.raises(WriteRefused, match="the checkpoint is older than the topic"):
        query.attempt(1, [b"c"], run="restored", task=1)
    assert query.attempt(3, [b"d"], run="restarted", task=1) == Outcome(1, False)
    assert values_in(brokers, topic, 1) == [b"a", b"b", b"c", b"d"]


def test_rows_that_differ_in_the_middle_only_are_not_taken_for_the_same(
    brokers: Cluster,
) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b'{"type": "click", "id": "0001", "kind": "page"}'])
    with pytest.raises(
        ReplayDiffers, match=r"its replay has 1 that differ[^\n]*put back the newest checkpoint, or"
    ):
        query.attempt(0, [b'{"type": "click", "id": "0002", "kind": "page"}'], run="restored")


def test_the_same_query_into_another_topic_writes_there_too(brokers: Cluster) -> None:
    blue, green = brokers.create_topic(), brokers.create_topic()
    query = Query(brokers, blue)
    query.attempt(0, [b"a"])
    assert Query(brokers, green, query.id).attempt(0, [b"a"]) == Outcome(1, was_done_before=False)
    assert values_in(brokers, green, 1) == [b"a"]


def test_a_topic_that_was_made_anew_has_nothing_written(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(4, [b"a"])
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic)
        # What the broker may not have noticed yet: a marker of the old topic, of another id.
        stale = f'{{"rows": 1, "total": 7, "topic_id": "{"ab" * 16}", "run": "run", "write": "4"}}'
        admin.alter_group_offsets(
            query.name(), {TopicPartition(topic, 0): GroupOffset(5, -1, stale)}
        )
    assert query.attempt(4, [b"a"]) == Outcome(1, was_done_before=False)
    assert values_in(brokers, topic, 1) == [b"a"]


def test_a_second_write_of_a_batch_into_the_same_topic_is_refused(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"a"], write="10")
    with pytest.raises(WriteRefused, match="another write of the same foreachBatch"):
        query.attempt(0, [b"a"], write="11")
    with pytest.raises(WriteRefused, match="another write of the same foreachBatch"):
        query.attempt(0, [b"b"], write="11")
    # A run that replays the batch makes both writes anew, with numbers of its own.
    assert query.attempt(0, [b"a"], run="replay", write="3").was_done_before
    assert values_in(brokers, topic, 1) == [b"a"]


def test_a_batch_that_was_written_under_another_prefix_is_refused(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"a"], prefix="old")
    query.attempt(1, [b"b"], prefix="old")
    with pytest.raises(WriteRefused, match="transactionalIdPrefix=old"):
        query.attempt(1, [b"b"], run="changed", prefix="new")
    assert query.attempt(1, [b"b"], run="set back", prefix="old").was_done_before
    assert query.attempt(2, [b"c"], run="changed", prefix="new") == Outcome(1, False)
    # And back again: the marker of `old` is of batch 1, but batch 2 is written.
    with pytest.raises(WriteRefused, match="transactionalIdPrefix=new"):
        query.attempt(2, [b"c"], run="back", prefix="old")
    assert values_in(brokers, topic, 1) == [b"a", b"b", b"c"]


def test_an_open_transaction_under_another_prefix_is_fenced(brokers: Cluster) -> None:
    """A task of a driver that died may still run under the prefix that the query had then."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"a"], prefix="old")
    left = BatchProducer(query.options("old").producer_settings(query.name("old")))
    try:
        left.init_transactions()
        left.begin_transaction()
        left.send_offsets({TopicPartition(topic, 0): _note(2)}, query.name("old"))
        assert query.attempt(1, [b"b"], run="changed", prefix="new") == Outcome(1, False)
        with pytest.raises(Exception, match="taken over"):
            left.commit_transaction()
    finally:
        left.close(1_000)


def _note(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, '{"rows": 1, "total": 1}')


def test_an_empty_task_waits_for_the_end_of_the_batch_before(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    before = BatchProducer(query.options().producer_settings(query.name()))
    try:
        before.init_transactions()
        before.begin_transaction()
        before.send_offsets({TopicPartition(topic, 0): _note(5)}, query.name())
        ending = threading.Timer(0.3, before.commit_transaction)
        ending.start()
        assert query.attempt(5, []) == Outcome(0, was_done_before=False)
        ending.join()
        with pytest.raises(ReplayDiffers):
            query.attempt(4, [])
    finally:
        before.close(1_000)


def test_an_empty_task_ends_a_transaction_that_nobody_ends(
    brokers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.spark.exactly_once._MAX_UNSTABLE_READS", 1)
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    left = BatchProducer(query.options().producer_settings(query.name()))
    try:
        left.init_transactions()
        left.begin_transaction()
        left.send_offsets({TopicPartition(topic, 0): _note(5)}, query.name())
        assert query.attempt(4, []) == Outcome(0, was_done_before=False)
        with pytest.raises(Exception, match="taken over"):
            left.commit_transaction()
    finally:
        left.close(1_000)


def test_an_offset_that_somebody_else_committed_is_no_marker(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.alter_group_offsets(query.name(), {TopicPartition(topic, 0): 3})
    with pytest.raises(WriteRefused, match="was not committed by this sink"):
        query.attempt(0, [b"a"])


def test_rows_that_name_their_topics_are_written_once_in_each(brokers: Cluster) -> None:
    """One group for all of their topics: a marker in each, and none is enough for another."""
    one, other = brokers.create_topic(), brokers.create_topic()
    given = {"kafka.bootstrap.servers": brokers.bootstrap}
    options = SinkOptions.read(given, is_streaming=True)
    query = str(uuid4())

    def attempt(batch_id: int, *topics: str, run: str = "run") -> Outcome:
        values, names = pa.array([b"v"] * len(topics), pa.binary()), pa.array(topics)
        columns = record_columns(pa.record_batch({"value": values, "topic": names}), 0)
        task = TaskWrite(f"odradek-sink-{query}-*-0", batch_id, run, str(batch_id))

        def send(producer: BatchProducer, columns: Iterator[RecordColumns]) -> tuple[int, set[str]]:
            return send_all(options, producer, columns)

        return write_once(task, options, iter([columns]), send=send)

    assert attempt(0, one, other) == Outcome(2, was_done_before=False)
    assert attempt(1, other) == Outcome(1, was_done_before=False)
    assert attempt(1, other, run="replay") == Outcome(0, was_done_before=True)
    with pytest.raises(ReplayDiffers):
        attempt(1, one, run="replay")
    with pytest.raises(WriteRefused, match="the checkpoint is older than the topic"):
        attempt(0, one, run="restored")
    assert attempt(2, one, run="replay") == Outcome(1, was_done_before=False)
    assert [len(values_in(brokers, topic, 1)) for topic in (one, other)] == [2, 2]


def test_a_replay_that_is_split_into_fewer_tasks_doubles_no_row(brokers: Cluster) -> None:
    """Task 1 was written when the driver died; in the replay task 0 has the rows of both."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"b"], task=1)
    reports = query.replay(0, [b"a", b"b"], run="replay")
    with pytest.raises(ReplayDiffers, match="split into tasks in another way"):
        commit_batch(query.options(), reports)
    assert values_in(brokers, topic, 1) == [b"b"]
    # As it was split at first it goes through.
    commit_batch(query.options(), query.replay(0, [b"a"], [b"b"], run="as before"))
    assert sorted(values_in(brokers, topic, 1)) == [b"a", b"b"]


def test_a_replay_that_is_split_into_more_tasks_doubles_no_row(brokers: Cluster) -> None:
    """Task 0 was written with all rows; in the replay some of them are those of task 1."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"a", b"b"])
    outcome = query.attempt(0, [b"b"], run="replay", task=1)
    assert outcome.pending is not None
    with pytest.raises(ReplayDiffers):
        query.attempt(0, [b"a"], run="replay")
    # Spark tells the driver that the batch has failed, with what the other task has said.
    task = TaskWrite(query.name(task=1), 0, "replay", "0")
    abort_batch(query.options(), [TaskReport(task, 1, False, outcome.pending)])
    assert values_in(brokers, topic, 1) == [b"a", b"b"]


def test_a_replay_of_a_batch_that_is_half_written_writes_the_rest(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"b"], task=1)
    reports = query.replay(0, [b"a"], [b"b"], [], run="replay")
    assert [one.pending is None for one in reports] == [False, True, True]
    assert values_in(brokers, topic, 1) == [b"b"]
    commit_batch(query.options(), reports)
    assert sorted(values_in(brokers, topic, 1)) == [b"a", b"b"]
    # The next batch of the run needs no driver: each task commits for itself.
    assert query.attempt(1, [b"c"], run="replay") == Outcome(1, was_done_before=False)
    # A driver that died here would replay it once more.
    commit_batch(query.options(), query.replay(1, [b"c"], [b"d"], run="again"))
    assert sorted(values_in(brokers, topic, 1)) == [b"a", b"b", b"c", b"d"]


def test_a_replay_fences_tasks_that_it_does_not_have(brokers: Cluster) -> None:
    """Task 1 of an earlier driver still runs, and could commit after all was looked at."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    for index, value in enumerate([b"a", b"b", b"c"]):
        query.attempt(0, [value], task=index)
    query.attempt(1, [b"d"])
    left = BatchProducer(query.options().producer_settings(query.name(task=2)))
    try:
        left.init_transactions()
        left.begin_transaction()
        left.send_offsets({TopicPartition(topic, 0): _note(2)}, query.name(task=2))
        commit_batch(query.options(), query.replay(1, [b"d"], [b"e"], run="replay"))
        with pytest.raises(Exception, match="taken over"):
            left.commit_transaction()
    finally:
        left.close(1_000)
    assert sorted(values_in(brokers, topic, 1)) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_commit_that_comes_too_late_fails_and_says_so(brokers: Cluster) -> None:
    """Another attempt at the task has begun after it handed its transaction to the driver."""
    topic = brokers.create_topic()
    query = Query(brokers, topic)
    query.attempt(0, [b"b"], task=1)
    reports = query.replay(0, [b"a"], [b"b"], run="replay")
    second = query.attempt(0, [b"a"], run="replay")
    assert second.pending is not None
    with pytest.raises(CommitFailed, match="Start the query again"):
        commit_batch(query.options(), reports)
    assert values_in(brokers, topic, 1) == [b"b"]
