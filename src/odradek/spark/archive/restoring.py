"""Restores topics from Parquet files, with partition, order, key, value, headers and timestamp.

The name of a restore is made of the archive, the topic, the target topic and the time range. So the
same command continues an interrupted restore, and does nothing when it is complete. `sending`
explains why each record is written once.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.admin.topic_types import NewTopic
from odradek.client.cluster_view import Topic
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.archive import local_intervals
from odradek.spark.archive.archiving import Archive
from odradek.spark.archive.entries import DataFile, State
from odradek.spark.archive.local_intervals import LocalFile, Sending
from odradek.spark.archive.parquet import settings
from odradek.spark.archive.plans import Interval, files_with, rounds
from odradek.spark.archive.sending import (
    FORMAT,
    RestoreDataSource,
    RestoreFailed,
    RestoreProgress,
    Work,
    reached_by,
    work_options,
)
from odradek.spark.options import SinkOptions
from odradek.spark.preflight import not_archived
from odradek.wording import counted
from odradek.world.clock import SystemClock

_log = logging.getLogger("odradek.spark")

DEFAULT_TRANSACTION_RECORDS: Final = 500_000
# Each interval is a branch of one Spark plan, and one task. More tasks at once would only wait.
_PARTITIONS_AT_ONCE: Final = 16
_HOUR_MS: Final = 3_600_000
_COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp", "offset")


@dataclass(frozen=True, slots=True)
class Restoring:
    """What to restore and the target topic. `sink` holds options of the data source's sink
    (`kafka.*`)."""

    topic: str
    sink: Mapping[str, str]
    to_topic: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    name: str | None = None
    transaction_records: int = DEFAULT_TRANSACTION_RECORDS
    topic_configs: Mapping[str, str] | None = None

    @property
    def target(self) -> str:
        return self.to_topic or self.topic

    def options(self) -> SinkOptions:
        return SinkOptions.read({**self.sink, "topic": self.target}, is_streaming=False)

    def described(self, archive_id: str) -> str:
        """Describes what is restored. The text is stored with the progress."""
        times = "".join(
            f" {word} {at_ms} ms"
            for word, at_ms in (("from", self.since_ms), ("until", self.until_ms))
            if at_ms is not None
        )
        return f"topic {self.topic} of archive {archive_id}{times}"

    def group(self, archive_id: str) -> str:
        """The group that stores the restore's progress. The same restore has the same group, so
        that it can be continued."""
        if self.name:
            return f"odradek-restore-{self.name}"
        parts = (archive_id, self.topic, self.target, self.since_ms, self.until_ms)
        digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
        return f"odradek-restore-{digest[:16]}"


class Restored(NamedTuple):
    """The result: how many records were written, whether an earlier run had written some, and the
    group that stores the progress."""

    records: int
    was_begun: bool
    group: str


class _Restore:
    def __init__(self, archive: Archive, wanted: Restoring) -> None:
        self._archive = archive
        self._wanted = wanted
        self._options = wanted.options()
        self._state: State = archive.state()
        if wanted.topic not in self._state.topics:
            raise RestoreFailed(not_archived(wanted.topic, self._state.topics))
        self._partitions = self._state.partitions_of(wanted.topic)
        self.group = wanted.group(self._state.archive_id)
        self._source = wanted.described(self._state.archive_id)
        self._files = [file for file in self._state.files_of(wanted.topic) if self._may_hold(file)]

    def _may_hold(self, file: DataFile) -> bool:
        restoring = self._wanted
        return not (
            (restoring.since_ms is not None and file.last_ms < restoring.since_ms)
            or (restoring.until_ms is not None and file.first_ms >= restoring.until_ms)
        )

    # The topic

    def prepare_topic(self) -> None:
        """Creates the topic if it does not exist. Raises if the existing topic cannot be the
        target."""
        admin = clients.admin(self._options.admin_settings())
        name = self._wanted.target
        topic = admin.describe_topics([name])[name]
        if isinstance(topic, Topic):
            self._check_topic(topic)
            return
        if topic.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RestoreFailed(f"topic {name} cannot be written: {topic}")
        # With a retention time, old records would be deleted as soon as they are written.
        configs = {"retention.ms": "-1", **(self._wanted.topic_configs or {})}
        new = NewTopic(name, partitions=self._partitions, configs=configs)
        answer = admin.create_topics([new])[name]
        if isinstance(answer, KafkaError):
            raise RestoreFailed(f"topic {name} cannot be made: {answer}")
        _log.info(
            "made topic %s with %s, %s", name, counted(self._partitions, "partition"), configs
        )

    def _check_topic(self, topic: Topic) -> None:
        if len(topic.partitions) < self._partitions:
            raise RestoreFailed(
                f"topic {topic.name} has {counted(len(topic.partitions), 'partition')}, but the"
                f" archive has {self._partitions}: odradek topics --alter --topic {topic.name}"
                f" --partitions {self._partitions}, or another --to-topic"
            )
        admin = clients.admin(self._options.admin_settings())
        resource = ConfigResource(ConfigType.TOPIC, topic.name)
        configs = admin.describe_configs([resource])[resource]
        if isinstance(configs, KafkaError):
            # A client that may write need not be allowed to describe the topic's settings.
            return
        values = {name: config.value for name, config in configs.items()}
        if values.get("message.timestamp.type") == "LogAppendTime":
            raise RestoreFailed(
                f"topic {topic.name} gives records its own time (message.timestamp.type="
                "LogAppendTime), so theirs would be lost: set CreateTime, or use another --to-topic"
            )
        retention_ms = int(values.get("retention.ms") or -1)
        oldest_ms = min((file.first_ms for file in self._files), default=None)
        now_ms = SystemClock().now_ms()
        if oldest_ms is not None and 0 <= retention_ms < now_ms - oldest_ms:
            _log.warning(
                "topic %s keeps records for %s, and some in the archive are older: brokers"
                " will delete them; set retention.ms=-1",
                topic.name,
                counted(retention_ms // _HOUR_MS, "hour"),
            )

    # The records

    def progress(self) -> dict[int, RestoreProgress]:
        """Returns how far each partition is restored. Open transactions of an earlier run may yet
        change it."""
        partitions = [
            TopicPartition(self._wanted.target, partition) for partition in range(self._partitions)
        ]
        progress_of = reached_by(
            self._options, self.group, self._source, partitions, require_stable=False
        )
        return {
            topic_partition.partition: progress for topic_partition, progress in progress_of.items()
        }

    def run(self, on_progress: Callable[[int, int], None]) -> Restored:
        before = now = self.progress()
        position = {partition: progress.offset for partition, progress in before.items()}
        jobs = rounds(
            self._files,
            position,
            rows=self._wanted.transaction_records,
            partitions=_PARTITIONS_AT_ONCE,
        )
        total = sum(file.rows for file in self._files)
        for job in jobs:
            on_progress(sum(progress.records for progress in now.values()), total)
            self._run_job(job, now)
            now = self.progress()
        done = sum(progress.records for progress in now.values())
        on_progress(done, total)
        earlier = sum(progress.records for progress in before.values())
        return Restored(done - earlier, any(position.values()), self.group)

    def _run_job(self, job: list[Interval], now: dict[int, RestoreProgress]) -> None:
        work = [
            Work(
                self.group,
                self._source,
                TopicPartition(self._wanted.target, interval.partition),
                now[interval.partition].offset,
                interval.end,
            )
            for interval in job
        ]
        root = self._archive.directory.local_path("")
        if root is None:
            self._send_by_spark(job, work)
        else:
            tasks = [self._sending(root, *pair) for pair in zip(job, work, strict=True)]
            local_intervals.send(self._archive.session, tasks)

    def _sending(self, root: str, interval: Interval, work: Work) -> Sending:
        restoring = self._wanted
        files = [
            LocalFile(file.first_offset, f"{root}/{file.path}")
            for file in files_with(self._files, interval)
        ]
        return Sending(work, self._options, interval, files, restoring.since_ms, restoring.until_ms)

    def _send_by_spark(self, job: list[Interval], work: list[Work]) -> None:
        self._archive.session.dataSource.register(RestoreDataSource)
        # Otherwise Spark would make one task of all intervals, because each has only one partition.
        with settings(self._archive.session, {"spark.sql.unionOutputPartitioning": "false"}):
            frames = [self._records(interval) for interval in job]
            (
                reduce(DataFrame.unionAll, frames)
                .write.format(FORMAT)
                .options(**{**self._wanted.sink, **work_options(work)})
                .mode("append")
                .save()
            )

    def _records(self, interval: Interval) -> DataFrame:
        """Returns the records of one interval as one Spark partition, in order and without a
        shuffle."""
        records = self._archive.read_files(files_with(self._files, interval))
        records = records.filter(
            (f.col("partition") == interval.partition)
            & (f.col("offset") >= interval.start)
            & (f.col("offset") < interval.end)
        )
        time, restoring = f.col("timestamp"), self._wanted
        if restoring.since_ms is not None:
            records = records.filter(time >= f.timestamp_millis(f.lit(restoring.since_ms)))
        if restoring.until_ms is not None:
            records = records.filter(time < f.timestamp_millis(f.lit(restoring.until_ms)))
        return records.select(*_COLUMNS).coalesce(1).sortWithinPartitions("offset")


def restore(
    archive: Archive,
    wanted: Restoring,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Restored:
    """Writes the archived records of a topic into a topic, or the rest of them."""
    work = _Restore(archive, wanted)
    work.prepare_topic()
    return work.run(on_progress)
