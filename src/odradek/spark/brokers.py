"""What the driver asks brokers: which partitions there are, and which offsets they have."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.client import leaders
from odradek.client.cluster import Topic
from odradek.client.leaders import ListedOffset
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import NO_TOPIC_ID, TopicPartition
from odradek.spark import clients
from odradek.spark.offsets import Offsets
from odradek.spark.options import EARLIEST, LATEST, BadOption, SourceOptions, Where

_log = logging.getLogger("odradek.spark")

_NO_SUCH_RECORD = -1


class Places(NamedTuple):
    """Partitions to read, and the ids of their topics by name."""

    partitions: list[TopicPartition]
    ids: dict[str, str]


class Brokers:
    """Answers for one source's options; holds no connection itself, so it can be pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[TopicPartition]:
        """The partitions to read, in order. A topic that is named must be there."""
        return self.places().partitions

    def places(self) -> Places:
        """The partitions to read, in order, and the ids of their topics."""
        topics = self._options.topics
        admin = clients.admin(self._options.admin_settings())
        found: dict[str, Topic | KafkaError]
        if topics.pattern:
            # From the beginning on and not to the end: what Java calls matches() is fullmatch.
            pattern = re.compile(topics.pattern)
            found = {
                name: topic
                for name, topic in admin.list_topics().items()
                if pattern.fullmatch(name)
            }
        else:
            named = sorted({place.topic for place in topics.partitions}) or topics.names
            found = admin.describe_topics(named)
        places = []
        ids = {}
        for name, topic in sorted(found.items()):
            if isinstance(topic, KafkaError):
                raise BadOption(f"topic {name} cannot be read: {topic}")
            places += [TopicPartition(name, index) for index in topic.partitions]
            if topic.id != NO_TOPIC_ID:
                ids[name] = topic.id.hex()
        return Places(list(topics.partitions) or sorted(places), ids)

    def resolve(self, where: Where, places: Iterable[TopicPartition], *, is_start: bool) -> Offsets:
        """The offsets that an option means, in these partitions."""
        places = list(places)
        if where.is_by_time:
            return self._by_time(where, places, is_start=is_start)
        given = dict(where.offsets)
        if where.offsets:
            self._check_named(given, places)
        wanted = {place: given.get(place, where.offset) for place in places}
        found = {place: offset for place, offset in wanted.items() if offset >= 0}
        for word, timestamp in ((EARLIEST, leaders.EARLIEST), (LATEST, leaders.LATEST)):
            asked = {place: timestamp for place, offset in wanted.items() if offset == word}
            found |= {place: one.offset for place, one in self._list(asked).items()}
        return found

    def latest(self, places: Iterable[TopicPartition]) -> Offsets:
        """Where readers of this isolation level may read to."""
        listed = self._list(dict.fromkeys(places, leaders.LATEST))
        return {place: one.offset for place, one in listed.items()}

    def first_at(self, timestamp_ms: int, places: Iterable[TopicPartition]) -> Offsets:
        """The first record of each partition not older than a time; without one, none."""
        listed = self._list(dict.fromkeys(places, timestamp_ms))
        return {place: one.offset for place, one in listed.items() if one.offset != _NO_SUCH_RECORD}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Says to a group how far the query has come; a refusal costs nothing but the news."""
        admin = clients.admin(self._options.admin_settings())
        try:
            answers = admin.alter_group_offsets(group, offsets)
        except KafkaError as error:
            _log.warning("offsets were not committed to group %s: %s", group, error)
            return
        for place, answer in answers.items():
            if isinstance(answer, KafkaError):
                _log.warning("%s was not committed to group %s: %s", place, group, answer)

    def _by_time(self, where: Where, places: list[TopicPartition], *, is_start: bool) -> Offsets:
        times = dict(where.timestamps_ms)
        if where.timestamp_ms is not None:
            times = dict.fromkeys(places, where.timestamp_ms)
        else:
            self._check_named(times, places)
        listed = self._list({place: times[place] for place in places if place in times})
        found = {place: int(one.offset) for place, one in listed.items()}
        missed = [place for place, offset in found.items() if offset == _NO_SUCH_RECORD]
        if missed and is_start and not self._options.unmatched_time_is_latest:
            raise BadOption(
                f"no record of {missed[0].topic} [{missed[0].partition}] is as new as"
                f" {times[missed[0]]}: to start at the end there, set"
                " startingOffsetsByTimestampStrategy=latest"
            )
        unnamed = [place for place in places if place not in times]
        if unnamed:
            rest = self.resolve(Where(where.offset), unnamed, is_start=is_start)
            found |= rest
        return found | self.latest(missed)

    @staticmethod
    def _check_named(named: Iterable[TopicPartition], places: list[TopicPartition]) -> None:
        if unknown := sorted(set(named) - set(places)):
            first = unknown[0]
            raise BadOption(
                f"an offset is given for {first.topic} [{first.partition}], which is not read"
            )

    def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        if not wanted:
            return {}
        admin = clients.admin(self._options.admin_settings())
        answers = admin.list_offsets(wanted, read_committed=self._options.read_committed)
        found = {}
        for place, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise BadOption(f"{place.topic} [{place.partition}] cannot be read: {answer}")
            found[place] = answer
        return found
