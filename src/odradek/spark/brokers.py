"""The questions that the driver asks the brokers: which partitions exist, and their offsets."""

import json
import logging
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client.arguments import FIRST_MILLISECONDS
from odradek.client.cluster_view import Topic
from odradek.client.leader_requests import EARLIEST as EARLIEST_TIMESTAMP
from odradek.client.leader_requests import LATEST as LATEST_TIMESTAMP
from odradek.client.leader_requests import ListedOffset
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import NO_TOPIC_ID, TopicPartition
from odradek.spark import clients, data_loss
from odradek.spark.offsets import Offsets, to_json
from odradek.spark.option_names import BadOption
from odradek.spark.options import EARLIEST, LATEST, OffsetSpec, SourceOptions
from odradek.spark.reachability import require_reachable

_log = logging.getLogger("odradek.spark")

_NO_SUCH_RECORD = -1
_SHOWN_PARTITIONS = 8
# Patterns that this process has warned of: a stream asks again for each micro-batch.
_warned_patterns: set[str] = set()


class Subscription(NamedTuple):
    """The partitions that the options subscribe to, and the ids of their topics by name."""

    partitions: list[TopicPartition]
    ids: dict[str, str]


class Brokers:
    """Asks the brokers on behalf of one source. It holds no connection, so Spark can pickle it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def require_reachable(self) -> None:
        """Raises `NoBrokerAvailable` at once if no broker can be reached; called before the first
        question of a query."""
        require_reachable(self._options.admin_settings())

    def partitions(self) -> list[TopicPartition]:
        """Returns the partitions to read, sorted. A topic that an option names must exist."""
        return self.subscription().partitions

    def subscription(self) -> Subscription:
        """Returns the partitions to read, sorted, and the ids of their topics."""
        partitions = []
        ids = {}
        for name, topic in sorted(self._topics().items()):
            if isinstance(topic, KafkaError):
                raise self._unreadable(name, topic)
            partitions += [TopicPartition(name, index) for index in topic.partitions]
            if topic.id != NO_TOPIC_ID:
                ids[name] = topic.id.hex()
        assigned = self._options.topics.partitions
        if missing := sorted(set(assigned) - set(partitions)):
            topic_name, index = missing[0]
            count = len([partition for partition in partitions if partition.topic == topic_name])
            raise BadOption(f"assign: {topic_name} has no partition {index}; it has {count}")
        return Subscription(list(assigned) or sorted(partitions), ids)

    def _topics(self) -> dict[str, Topic | KafkaError]:
        topics = self._options.topics
        admin = clients.admin(self._options.admin_settings())
        if not topics.pattern:
            named = sorted({partition.topic for partition in topics.partitions}) or topics.names
            return admin.describe_topics(named)
        # Spark's Kafka source uses Java's matches(), which is fullmatch in Python.
        pattern = re.compile(topics.pattern)
        known = admin.list_topics()
        matching: dict[str, Topic | KafkaError] = {
            name: topic for name, topic in known.items() if pattern.fullmatch(name)
        }
        if not matching and topics.pattern not in _warned_patterns:
            _warned_patterns.add(topics.pattern)
            _log.warning(
                "no topic matches subscribePattern=%s with its whole name%s",
                topics.pattern,
                did_you_mean(topics.pattern, known),
            )
        return matching

    def _unreadable(self, name: str, error: KafkaError) -> BadOption:
        if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            advice = f"for a pattern, set subscribePattern={name}"
            if " " in name:
                advice = f"separate topics with commas: {','.join(name.split())}"
            return BadOption(f"{name!r} cannot be the name of a topic; {advice}")
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return BadOption(f"topic {name} cannot be read: {error}")
        existing = list(clients.admin(self._options.admin_settings()).list_topics())
        advice = did_you_mean(name, existing) or (
            f"; create it with: odradek topics --create --topic {shlex.quote(name)}"
        )
        return BadOption(f"topic {name} does not exist{advice}")

    def resolve(
        self, spec: OffsetSpec, partitions: Iterable[TopicPartition], *, is_start: bool
    ) -> Offsets:
        """Returns the offset in each partition that an option asks for."""
        partitions = list(partitions)
        if spec.is_by_time:
            return self._by_time(spec, partitions, is_start=is_start)
        named = dict(spec.offsets)
        option = "startingOffsets" if is_start else "endingOffsets"
        if named:
            _check_named(option, named, partitions, EARLIEST if is_start else LATEST)
        requested = {partition: named.get(partition, spec.offset) for partition in partitions}
        offsets = self._within_log(
            option, {partition: offset for partition, offset in requested.items() if offset >= 0}
        )
        for word, timestamp in (
            (EARLIEST, EARLIEST_TIMESTAMP),
            (LATEST, LATEST_TIMESTAMP),
        ):
            times = {
                partition: timestamp for partition, offset in requested.items() if offset == word
            }
            answers = self._list(times)
            offsets |= {partition: answer.offset for partition, answer in answers.items()}
        return offsets

    def _within_log(self, option: str, named: Offsets) -> Offsets:
        """Checks offsets that a user has named. Those beyond the end become the end, if data loss
        is allowed."""
        # An offset above the last stable one will be readable when the transactions before it end.
        earliest, latest = (
            {
                partition: int(answer.offset)
                for partition, answer in self._list(
                    dict.fromkeys(named, timestamp), read_committed=False
                ).items()
            }
            for timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        losses = data_loss.outside_log(option, named, earliest, latest)
        data_loss.report(losses, fail_on_data_loss=self._options.fail_on_data_loss)
        return {partition: min(offset, latest[partition]) for partition, offset in named.items()}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the end offsets for readers of this isolation level."""
        answers = self._list(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {partition: answer.offset for partition, answer in answers.items()}

    def first_at(self, timestamp_ms: int, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the offset of the first record at or after a time. Partitions without such a
        record are left out."""
        answers = self._list(dict.fromkeys(partitions, timestamp_ms))
        return {
            partition: answer.offset
            for partition, answer in answers.items()
            if answer.offset != _NO_SUCH_RECORD
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the query's offsets to a consumer group, for monitoring. A failure is only
        logged."""
        admin = clients.admin(self._options.admin_settings())
        try:
            answers = admin.alter_group_offsets(group, offsets, may_create=True)
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
            option = "startingOffsetsByTimestamp" if is_start else "endingOffsetsByTimestamp"
            _check_named(option, times, partitions, max(times.values()))
        for time_ms in sorted(set(times.values())):
            if remark := _in_seconds(time_ms):
                _log.warning("the time %d%s: milliseconds are wanted", time_ms, remark)
        answers = self._list({partition: times[partition] for partition in partitions})
        offsets = {partition: int(answer.offset) for partition, answer in answers.items()}
        without_record = [
            partition for partition, offset in offsets.items() if offset == _NO_SUCH_RECORD
        ]
        if without_record and is_start and not self._options.unmatched_time_is_latest:
            first = without_record[0]
            raise BadOption(
                f"no record of {first.topic} [{first.partition}] is as new as"
                f" {times[first]}{_in_seconds(times[first])}: to start at the end there, set"
                " startingOffsetsByTimestampStrategy=latest"
            )
        return offsets | self.latest(without_record)

    def _list(
        self, requested: Mapping[TopicPartition, int], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        if not requested:
            return {}
        if read_committed is None:
            read_committed = self._options.read_committed
        admin = clients.admin(self._options.admin_settings())
        offsets = {}
        answers = admin.list_offsets(requested, read_committed=read_committed)
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise BadOption(
                    f"{partition.topic} [{partition.partition}] cannot be read: {answer}"
                )
            offsets[partition] = answer
        return offsets


def _check_named(
    option: str, named: Offsets, partitions: list[TopicPartition], for_others: int
) -> None:
    """Raises unless an option names exactly the partitions that are read, as Spark's Kafka source
    does: a partition that is left out may be one that somebody forgot. `for_others` is what to
    write for it."""
    if unknown := sorted(set(named) - set(partitions)):
        first = unknown[0]
        raise BadOption(f"{option}: {first.topic} [{first.partition}] is named, and it is not read")
    left_out = sorted(set(partitions) - set(named))
    if not left_out:
        return
    shown = ", ".join(f"{topic} [{index}]" for topic, index in left_out[:_SHOWN_PARTITIONS])
    more = len(left_out) - _SHOWN_PARTITIONS
    others = f" and {more} more" if more > 0 else ""
    meaning = {EARLIEST: " (-2 is earliest)", LATEST: " (-1 is latest)"}.get(for_others, "")
    line = f"for these, {for_others}{meaning}"
    if len(partitions) <= _SHOWN_PARTITIONS:
        whole = named | dict.fromkeys(left_out, for_others)
        line = f"{json.dumps(to_json(whole))}{meaning}"
    raise BadOption(
        f"{option} leaves out {shown}{others}: name every partition that is read, for instance"
        f" {line}"
    )


def _in_seconds(timestamp_ms: int) -> str:
    """Returns a remark if a time in milliseconds is probably one in seconds."""
    is_seconds = 10**9 <= timestamp_ms < FIRST_MILLISECONDS
    return ", which is in 1970 (are these seconds?)" if is_seconds else ""
