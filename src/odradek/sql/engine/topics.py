"""The topics of streams and tables: looked up, and made where a statement says so."""

from collections.abc import Iterable
from typing import Any

from odradek.client.admin.admin import Admin
from odradek.client.admin.topic_types import NewTopic
from odradek.client.leader_requests import LATEST
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.sql.engine.definitions import TopicWish
from odradek.sql.engine.persistent import Prepared
from odradek.sql.errors import Invalid, Place
from odradek.sql.planning.sources import DataSource
from odradek.streams.process.runner import create_topic, partition_counts
from odradek.streams.running.executor import CannotRun, Executor


async def end_offsets(admin: Admin, topics: Iterable[str]) -> dict[str, list[int]]:
    """Returns where topics end, an offset for each partition: the last stable one, as queries read
    what is committed."""
    counts = await partition_counts(admin, topics)
    wanted = {
        TopicPartition(topic, number): LATEST
        for topic, count in counts.items()
        for number in range(count)
    }
    found = await admin.list_offsets(wanted, read_committed=True) if wanted else {}
    ends: dict[str, list[int]] = {}
    for partition in wanted:
        listed = found[partition]
        if isinstance(listed, KafkaError):
            raise listed
        ends.setdefault(partition.topic, []).append(int(listed.offset))
    return ends


class Topics:
    def __init__(self, replication_factor: int) -> None:
        self._replication_factor = replication_factor

    async def ensure(self, admin: Admin, source: DataSource, wish: TopicWish, place: Place) -> None:
        """Makes the topic of a stream or table, if there is none. Raises `Invalid` if it cannot, or
        if the one that there is has other partitions."""
        try:
            counts = await partition_counts(admin, [wish.name])
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            if wish.partitions is None:
                raise Invalid(
                    f"Kafka topic does not exist: {wish.name}. Give PARTITIONS, and it is created",
                    place,
                ) from None
            await create_topic(admin, self._new_topic(source, wish, wish.partitions))
            return
        found = counts[wish.name]
        if wish.partitions not in (None, found):
            raise Invalid(
                f"A Kafka topic with the name '{wish.name}' already exists, with different"
                f" partition/replica configuration than required. KSQL expects {wish.partitions}"
                f" partitions (topic has {found})",
                place,
            )

    async def ensure_sink(self, admin: Admin, prepared: Prepared) -> None:
        """Makes the topic that a query writes, if there is none. Raises `Invalid` if the topics
        that it joins do not correspond."""
        topics = [source.topic for source in prepared.compiled.sources]
        counts = await partition_counts(admin, topics)
        try:
            Executor(prepared.plan, counts, None)  # type: ignore[arg-type]  # it only checks
        except CannotRun as error:
            raise Invalid(str(error)) from None
        count = prepared.wish.partitions or counts[topics[0]]
        await create_topic(admin, self._new_topic(prepared.sink, prepared.wish, count))

    def _new_topic(self, source: DataSource, wish: TopicWish, count: int) -> NewTopic:
        configs: dict[str, Any] = {}
        if wish.cleanup_policy is not None:
            configs["cleanup.policy"] = wish.cleanup_policy
        elif source.is_table:
            configs["cleanup.policy"] = "compact" if source.window is None else "compact,delete"
        if wish.retention_ms is not None:
            configs["retention.ms"] = wish.retention_ms
        replicas = wish.replicas or self._replication_factor
        return NewTopic(wish.name, count, replicas, configs=configs)
