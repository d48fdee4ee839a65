"""The questions that the driver asks the brokers: which partitions exist, and their offsets."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.cluster_view import Topic
from odradek.client.leader_requests import EARLIEST as EARLIEST_TIMESTAMP
from odradek.client.leader_requests import LATEST as LATEST_TIMESTAMP
from odradek.client.leader_requests import ListedOffset
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import NO_TOPIC_ID, TopicPartition
from odradek.spark import clients
from odradek.spark.offsets import Offsets
from odradek.spark.options import EARLIEST, LATEST, BadOption, OffsetSpec, SourceOptions

_log = logging.getLogger("odradek.spark")

_NO_SUCH_RECORD = -1


class Subscription(NamedTuple):
    """The partitions that the options subscribe to, and the ids of their topics by name."""

    partitions: list[TopicPartition]
    ids: dict[str, str]


class Brokers:
    """Asks the brokers on behalf of one source. It holds no connection, so Spark can pickle it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[TopicPartition]:
        """Returns the partitions to read, sorted. A topic that an option names must exist."""
        return self.subscription().partitions

    def subscription(self) -> Subscription:
        """Returns the partitions to read, sorted, and the ids of their topics."""
        topics = self._options.topics
        admin = clients.admin(self._options.admin_settings())
        found: dict[str, Topic | KafkaError]
        if topics.pattern:
            # Spark's Kafka source uses Java's matches(), which is fullmatch in Python.
            pattern = re.compile(topics.pattern)
            found = {
                name: topic
                for name, topic in admin.list_topics().items()
                if pattern.fullmatch(name)
            }
        else:
            named = sorted({partition.topic for partition in topics.partitions}) or topics.names
            found = admin.describe_topics(named)
        partitions = []
        ids = {}
        for name, topic in sorted(found.items()):
            if isinstance(topic, KafkaError):
                raise BadOption(f"topic {name} cannot be read: {topic}")
            partitions += [TopicPartition(name, index) for index in topic.partitions]
            if topic.id != NO_TOPIC_ID:
                ids[name] = topic.id.hex()
        return Subscription(list(topics.partitions) or sorted(partitions), ids)

    def resolve(
        self, spec: OffsetSpec, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> Offsets:
        """Returns the offset in each partition that an option asks for."""
        partitions = list(partitions)
        if spec.is_by_time:
            return self._by_time(spec, partitions, is_start=is_start)
        given = dict(spec.offsets)
        if spec.offsets:
            self._check_named(given, partitions)
        requested = {partition: given.get(partition, spec.offset) for partition in partitions}
        found = {partition: offset for partition, offset in requested.items() if offset >= 0}
        for word, timestamp in (
            (EARLIEST, EARLIEST_TIMESTAMP),
            (LATEST, LATEST_TIMESTAMP),
        ):
            asked = {
                partition: timestamp for partition, offset in requested.items() if offset == word
            }
            found |= {partition: listed.offset for partition, listed in self._list(asked).items()}
        return found

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the end offsets for readers of this isolation level."""
        listed = self._list(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {partition: answer.offset for partition, answer in listed.items()}

    def first_at(self, timestamp_ms: int, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the offset of the first record at or after a time. Partitions without such a
        record are left out."""
        listed = self._list(dict.fromkeys(partitions, timestamp_ms))
        return {
            partition: answer.offset
            for partition, answer in listed.items()
            if answer.offset != _NO_SUCH_RECORD
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the query's offsets to a consumer group, for monitoring. A failure is only
        logged."""
        admin = clients.admin(self._options.admin_settings())
        try:
            answers = admin.alter_group_offsets(group, offsets)
        except KafkaError as error:
            _log.warning("offsets were not committed to group %s: %s", group, error)
            return
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                _log.warning("%s was not committed to group %s: %s", partition, group, answer)

    def _by_time(
        self, spec: OffsetSpec, partitions: list[TopicPartition], *, is_start: bool
    ) -> Offsets:
        times = dict(spec.timestamps_ms)
        if spec.timestamp_ms is not None:
            times = dict.fromkeys(partitions, spec.timestamp_ms)
        else:
            self._check_named(times, partitions)
        listed = self._list(
            {partition: times[partition] for partition in partitions if partition in times}
        )
        found = {partition: int(answer.offset) for partition, answer in listed.items()}
        missed = [partition for partition, offset in found.items() if offset == _NO_SUCH_RECORD]
        if missed and is_start and not self._options.unmatched_time_is_latest:
            raise BadOption(
                f"no record of {missed[0].topic} [{missed[0].partition}] is as new as"
                f" {times[missed[0]]}: to start at the end there, set"
                " startingOffsetsByTimestampStrategy=latest"
            )
        unnamed = [partition for partition in partitions if partition not in times]
        if unnamed:
            rest = self.resolve(OffsetSpec(spec.offset), unnamed, is_start=is_start)
            found |= rest
        return found | self.latest(missed)

    @staticmethod
    def _check_named(named: Iterable[TopicPartition], partitions: list[TopicPartition]) -> None:
        if unknown := sorted(set(named) - set(partitions)):
            first = unknown[0]
            raise BadOption(
                f"an offset is given for {first.topic} [{first.partition}], which is not read"
            )

    def _list(self, requested: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        if not requested:
            return {}
        admin = clients.admin(self._options.admin_settings())
        answers = admin.list_offsets(requested, read_committed=self._options.read_committed)
        found = {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise BadOption(
                    f"{partition.topic} [{partition.partition}] cannot be read: {answer}"
                )
            found[partition] = answer
        return found
