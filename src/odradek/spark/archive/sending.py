"""One task of a restore: the records of one interval, in order, in one transaction.

Each partition of the target topic has its own transactional id, and an offset in the restore's
group: the next archived offset. An attempt

1. initialises the id: older attempts are fenced, and a transaction that they left open is aborted,
   or completed if its commit was decided already;
2. reads the group's offset. Records below it are in the topic already;
3. sends the others, and the interval's end as the group's offset, in one transaction.

So the group's offset and the partition's content change together or not at all, and a restore that
is started again continues exactly at that offset, however it ended before. The offset's metadata
counts the records and says what is restored; a group that was used to restore something else is
refused.
"""

import json
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from odradek.client.admin.group_types import GroupOffset
from odradek.client.group.offsets import OffsetAndMetadata
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns
from odradek.spark.arrow.producer import BatchProducer
from odradek.spark.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "odradek-restore"
_CLOSE_TIMEOUT_MS: Final = 5_000


class RestoreFailed(Exception):
    """A restore cannot go on; the message says why and what to do."""


class RestoreProgress(NamedTuple):
    """How far a partition is restored: the next archived offset, and the number of records so
    far."""

    offset: int = 0
    records: int = 0

    def to_metadata(self, source: str) -> str:
        return json.dumps({"records": self.records, "source": source})

    @classmethod
    def read(cls, group: str, source: str, committed: GroupOffset) -> "RestoreProgress":
        """Reads a committed offset. Raises if its metadata says that something else was
        restored."""
        try:
            document = json.loads(committed.metadata)
            other, records = str(document["source"]), int(document["records"])
        except (ValueError, KeyError, TypeError):
            other, records = "something else", 0
        if other != source:
            raise RestoreFailed(
                f"{group} was used to restore {other}, and not {source}: nothing is written,"
                " because its progress would be taken for this one's; use another --restore-id"
            )
        return cls(int(committed.offset), records)


class Work(NamedTuple):
    """The work of one task. `least` is the offset that its partition had reached when the job was
    planned.

    `source` describes what is restored: the archive, its topic, the times. It is stored with the
    group's offsets, so that offsets of another restore are not mistaken for progress.
    """

    group: str
    source: str
    target: TopicPartition
    least: int
    end: int

    @property
    def transactional_id(self) -> str:
        return f"{self.group}-{self.target.partition}"


def work_options(work: list[Work]) -> dict[str, str]:
    """Writes the work of a job's tasks as options of the data source."""
    parts = {str(task.target.partition): [task.least, task.end] for task in work}
    first = work[0]
    return {
        "topic": first.target.topic,
        "group": first.group,
        "source": first.source,
        "work": json.dumps(parts),
    }


class RestoreDataSource(DataSource):
    """The sink of a restore's jobs. The rows of a partition arrive together and in order."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _RestoreWriter(self.options)


class _RestoreWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = SinkOptions.read(options, is_streaming=False)
        self._group, self._source = options["group"], options["source"]
        self._work = json.loads(options["work"])

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        assert self._options.topic is not None
        seen: set[int] = set()
        # Usually one partition. Spark may combine tasks, but never mixes their rows.
        for partition, rows in groupby(_by_partition(iterator), key=itemgetter(0)):
            if partition in seen:
                raise RestoreFailed(f"the records of partition {partition} are not consecutive")
            seen.add(partition)
            target = TopicPartition(self._options.topic, partition)
            work = Work(self._group, self._source, target, *self._work[str(partition)])
            restore(work, self._options, map(itemgetter(1), rows))
        return WriterCommitMessage()


def _by_partition(
    batches: "Iterator[pa.RecordBatch]",
) -> "Iterator[tuple[int, pa.RecordBatch]]":
    for batch in batches:
        partitions = np.asarray(batch.column("partition"))
        cuts = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        for begin, end in pairwise(cuts):
            if begin < end:
                yield int(partitions[begin]), batch.slice(begin, end - begin)


def restore(work: Work, options: SinkOptions, batches: "Iterator[pa.RecordBatch]") -> None:
    """Returns when the records are in the topic, written by this attempt or by an earlier one."""
    producer = BatchProducer(options.producer_settings(work.transactional_id))
    try:
        producer.init_transactions()
        reached = reached_by(options, work.group, work.source, [work.target], require_stable=True)[
            work.target
        ]
        if reached.offset >= work.end:
            return
        if reached.offset < work.least:
            raise RestoreFailed(
                f"{work.target.topic} [{work.target.partition}] was restored up to offset"
                f" {work.least}, but the brokers know of {reached.offset} only: the topic or the"
                f" group {work.group} was deleted meanwhile; delete the topic and start the restore"
                " again"
            )
        producer.begin_transaction()
        records = reached.records + _send(work, options, producer, batches, reached.offset)
        note = OffsetAndMetadata(
            work.end, RestoreProgress(work.end, records).to_metadata(work.source)
        )
        producer.send_offsets({work.target: note}, work.group)
        producer.commit_transaction()
    finally:
        # Aborts a transaction that is still open after an error, or because Spark kills the
        # attempt.
        producer.close(_CLOSE_TIMEOUT_MS)


def _send(
    work: Work,
    options: SinkOptions,
    producer: BatchProducer,
    batches: "Iterator[pa.RecordBatch]",
    reached: int,
) -> int:
    settings = options.producer_settings()
    encoder = ArrowEncoder(
        work.target.topic,
        producer.partition_count,
        codec=settings.codec,
        level=settings.compression_level,
        batch_bytes=options.batch_bytes,
    )
    rows, last = 0, -1
    for whole in batches:
        offsets = np.asarray(whole.column("offset"))
        kept = int(np.searchsorted(offsets, reached))
        batch = whole.slice(kept)
        if not batch.num_rows:
            continue
        if offsets[kept] <= last or bool((np.diff(offsets[kept:]) <= 0).any()):
            raise RestoreFailed(f"archived records of {work.target} came out of order, or twice")
        last = int(offsets[-1])
        rows += batch.num_rows
        for encoded in encoder.encode(record_columns(batch.drop_columns(["offset"]), 0)):
            producer.send(encoded.topic, encoded.partition, encoded.batch)
    producer.flush()
    return rows


def reached_by(
    options: SinkOptions,
    group: str,
    source: str,
    partitions: list[TopicPartition],
    *,
    require_stable: bool,
) -> dict[TopicPartition, RestoreProgress]:
    """Returns how far partitions are restored, according to the committed offsets."""
    admin = clients.admin(options.admin_settings())
    answers = admin.list_group_offsets(group, partitions, require_stable=require_stable)
    progress = dict.fromkeys(partitions, RestoreProgress())
    for topic_partition, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise answer
        if answer.offset >= 0:
            progress[topic_partition] = RestoreProgress.read(group, source, answer)
    return progress
