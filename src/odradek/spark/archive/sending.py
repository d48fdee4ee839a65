"""One task of a restore: the records of one interval, in order, in one transaction.

Each partition of the new topic has a transactional id of its own, and a place in the restore's
group: the archived offset it goes on at. An attempt

1. initialises the id: older attempts are fenced, what they left open is aborted, or finished if
   its commit was decided;
2. reads the group's offset. Records below it are there already;
3. sends the others, and the interval's end as the group's offset, in one transaction.

So the group's offset and what is in the partition change together or not at all, and a restore
that is begun again, however it ended, goes on exactly there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from odradek.client.arrow.encoding import ArrowEncoder, record_columns
from odradek.client.arrow.producer import BatchProducer
from odradek.client.group_offsets import OffsetAndMetadata
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA: Final = "partition int, rows bigint"
_CLOSE_TIMEOUT_MS: Final = 5_000


class RestoreFailed(Exception):
    """A restore cannot go on; the message says why and what to do."""


class Work(NamedTuple):
    """What one task sends. `least` is the offset that its partition was known to have reached."""

    options: SinkOptions
    name: str
    partition: int
    least: int
    end: int

    @property
    def target(self) -> TopicPartition:
        assert self.options.topic is not None
        return TopicPartition(self.options.topic, self.partition)

    @property
    def transactional_id(self) -> str:
        return f"{self.name}-{self.partition}"

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """For Spark's `mapInArrow`: sends, and answers with one row."""
        import pyarrow as pa  # noqa: PLC0415 - in the worker

        rows = restore(self, batches)
        columns = [pa.array([self.partition], pa.int32()), pa.array([rows], pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=["partition", "rows"])


def restore(work: Work, batches: "Iterator[pa.RecordBatch]") -> int:
    """How many records this attempt has written; 0 if another one had."""
    producer = BatchProducer(work.options.producer_settings(work.transactional_id))
    try:
        producer.init_transactions()
        reached = reached_by(work.options, work.name, work.target, require_stable=True)
        if reached >= work.end:
            return 0
        if reached < work.least:
            raise RestoreFailed(
                f"{work.target.topic} [{work.partition}] was restored up to offset {work.least},"
                f" but the brokers know of {reached} only: the topic or the group {work.name} was"
                " deleted meanwhile; delete the topic and restore it anew"
            )
        producer.begin_transaction()
        rows = _send(work, producer, batches, reached)
        producer.send_offsets({work.target: OffsetAndMetadata(work.end, "")}, work.name)
        producer.commit_transaction()
        return rows
    finally:
        # Aborts what is still open: after an error, or when Spark kills the attempt.
        producer.close(_CLOSE_TIMEOUT_MS)


def _send(
    work: Work, producer: BatchProducer, batches: "Iterator[pa.RecordBatch]", reached: int
) -> int:
    settings = work.options.producer_settings()
    encoder = ArrowEncoder(
        work.target.topic,
        producer.partition_count,
        codec=settings.codec,
        level=settings.compression_level,
        batch_bytes=work.options.batch_bytes,
    )
    rows, last = 0, -1
    for given in batches:
        offsets = np.asarray(given.column("offset"))
        kept = int(np.searchsorted(offsets, reached))
        batch = given.slice(kept)
        if not batch.num_rows:
            continue
        if offsets[kept] <= last or bool((np.diff(offsets[kept:]) <= 0).any()):
            raise RestoreFailed(f"archived records of {work.target} came out of order, or twice")
        last = int(offsets[-1])
        rows += batch.num_rows
        for packed in encoder.pack(record_columns(batch.drop_columns(["offset"]), 0)):
            producer.send(packed.topic, packed.partition, packed.records)
    producer.flush()
    return rows


def reached_by(
    options: SinkOptions, group: str, place: TopicPartition, *, require_stable: bool
) -> int:
    """The archived offset that a partition goes on at; 0 before the first transaction."""
    admin = clients.admin(options.admin_settings())
    answers = admin.list_group_offsets(group, [place], require_stable=require_stable)
    answer = answers.get(place)
    if isinstance(answer, KafkaError):
        raise answer
    return 0 if answer is None or answer.offset < 0 else int(answer.offset)
