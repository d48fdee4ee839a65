"""The options of the source and the sink, read once and checked; no pyspark, no brokers.

Names and meanings are those of Spark's own Kafka source, so that a user changes one word. Options
that only make sense for its Java consumers are accepted and have no effect.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
from odradek.config.values import InvalidValue, parse_boolean, parse_duration_ms
from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.sizes import DEFAULT_BATCH_BYTES
from odradek.spark.option_names import (
    PREFIX,
    RESERVED_FOR_READING,
    RESERVED_FOR_WRITING,
    BadOption,
    check_names,
    check_word,
)

EARLIEST: Final = -2
LATEST: Final = -1

_OFFSETS_EXAMPLE: Final = '{"topic": {"0": 23}}'

# Options that have an effect only in one kind of query, and why they have none in the other.
_ONLY_BATCHES: Final = {
    "endingOffsets": "a stream has no end",
    "endingOffsetsByTimestamp": "a stream has no end",
    "endingTimestamp": "a stream has no end",
    "pushFilters": "Spark gives a stream no filters",
}
_ALL_AT_ONCE: Final = "a batch query reads all at once, up to endingOffsets"
_ONLY_STREAMS: Final = {
    "maxOffsetsPerTrigger": _ALL_AT_ONCE,
    "minOffsetsPerTrigger": _ALL_AT_ONCE,
    "maxTriggerDelay": _ALL_AT_ONCE,
    "commitOffsetsToGroup": "a batch query commits no offsets",
}

# The longest time that a task may take. Brokers allow 15 minutes by default.
_TRANSACTION_TIMEOUT_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions to read: exactly one of the three fields is set."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """An offset in every partition: the same for all, one for each, or the first one after a time.

    `offset` may be EARLIEST or LATEST. `offsets` and `timestamps_ms` name every partition, which
    `Brokers.resolve` checks.
    """

    offset: int = EARLIEST
    offsets: tuple[tuple[TopicPartition, int], ...] = ()
    timestamp_ms: int | None = None
    timestamps_ms: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def is_by_time(self) -> bool:
        return self.timestamp_ms is not None or bool(self.timestamps_ms)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: tuple[tuple[str, str], ...]
    topics: Topics
    starting: OffsetSpec
    ending: OffsetSpec
    unmatched_time_is_latest: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    commit_group: str | None
    push_filters: bool

    @classmethod
    def read(cls, options: Mapping[str, str], *, is_streaming: bool) -> "SourceOptions":
        values = {name.lower(): value for name, value in options.items()}
        _refuse(values, RESERVED_FOR_READING)
        _refuse_of_other_kind(values, is_streaming=is_streaming)
        starting = _offset_spec(values, "starting", LATEST if is_streaming else EARLIEST)
        ending = _offset_spec(values, "ending", LATEST)
        if not is_streaming and _has(starting, LATEST):
            raise BadOption("startingOffsets of a batch query cannot be latest: nothing would come")
        if _has(ending, EARLIEST):
            raise BadOption("endingOffsets cannot be earliest: nothing would come")
        strategy = check_word(
            "startingOffsetsByTimestampStrategy",
            values.get("startingoffsetsbytimestampstrategy", "error"),
            ("error", "latest"),
        )
        return cls(
            client=_client_properties(values),
            topics=_topics(values),
            starting=starting,
            ending=ending,
            unmatched_time_is_latest=strategy == "latest",
            max_offsets_per_trigger=_count(values, "maxOffsetsPerTrigger"),
            min_offsets_per_trigger=_count(values, "minOffsetsPerTrigger"),
            max_trigger_delay_ms=_duration_ms(values.get("maxtriggerdelay", "15m")),
            min_partitions=_count(values, "minPartitions"),
            max_records_per_partition=_count(values, "maxRecordsPerPartition"),
            fail_on_data_loss=_flag(values, "failOnDataLoss", default=True),
            include_headers=_flag(values, "includeHeaders", default=False),
            commit_group=values.get("commitoffsetstogroup") or None,
            push_filters=_flag(values, "pushFilters", default=False),
        )

    def consumer_settings(self, *, warns_of_producers: bool = False) -> ConsumerSettings:
        """Settings with large fetches, because a task reads one partition from start to end.

        Queries that read and write often share their options, so settings of producers may be among
        them. `load()` warns of them; each of Spark's processes need not."""
        of_producers = set() if warns_of_producers else _names_of_producers_only()
        properties = {
            "max.partition.fetch.bytes": str(8 << 20),
            "fetch.min.bytes": "1",
            **{name: to for name, to in self.client if name not in of_producers},
        }
        return ConsumerSettings.from_properties(properties, group_id=None)

    def admin_settings(self) -> AdminSettings:
        return _admin_settings(self.client)

    @property
    def read_committed(self) -> bool:
        return self.consumer_settings().isolation_level == "read_committed"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    client: tuple[tuple[str, str], ...]
    topic: str | None
    exactly_once: bool
    id_prefix: str
    batch_bytes: int

    @classmethod
    def read(cls, options: Mapping[str, str], *, is_streaming: bool) -> "SinkOptions":
        values = {name.lower(): value for name, value in options.items()}
        _refuse(values, RESERVED_FOR_WRITING)
        default = "exactly-once" if is_streaming else "at-least-once"
        guarantee = check_word(
            "deliveryGuarantee",
            values.get("deliveryguarantee", default),
            ("exactly-once", "at-least-once"),
        )
        return cls(
            client=_client_properties(values),
            topic=values.get("topic") or None,
            exactly_once=guarantee == "exactly-once",
            id_prefix=values.get("transactionalidprefix") or "odradek-sink",
            batch_bytes=int(values.get("kafka.batch.size", DEFAULT_BATCH_BYTES)),
        )

    def producer_settings(self, transactional_id: str | None = None) -> ProducerSettings:
        """Settings with buffers that are large enough for whole encoded batches."""
        properties = {
            "max.request.size": str(max(4 << 20, 2 * self.batch_bytes)),
            "buffer.memory": str(64 << 20),
            "transaction.timeout.ms": str(_TRANSACTION_TIMEOUT_MS),
            **dict(self.client),
        }
        properties.pop("batch.size", None)
        return ProducerSettings.from_properties(properties, transactional_id=transactional_id)

    def admin_settings(self) -> AdminSettings:
        return _admin_settings(self.client)


def check_options(options: Mapping[str, str]) -> None:
    """Checks the options of a source as far as they mean the same in a batch and in a stream."""
    check_names(options, is_reading=True)
    only_batches = {name.lower() for name in _ONLY_BATCHES}
    common = {name: value for name, value in options.items() if name.lower() not in only_batches}
    SourceOptions.read(common, is_streaming=True).consumer_settings(warns_of_producers=True)


def _names_of_producers_only() -> set[str]:
    of_consumers = {name for name, _, _ in ConsumerSettings.describe()}
    return {name for name, _, _ in ProducerSettings.describe()} - of_consumers


def _admin_settings(client: tuple[tuple[str, str], ...]) -> AdminSettings:
    existing = {name for name, _, _ in AdminSettings.describe()}
    return AdminSettings.from_properties({name: to for name, to in client if name in existing})


def _refuse(values: Mapping[str, str], reserved: Mapping[str, str]) -> None:
    for name, advice in reserved.items():
        if name in values:
            raise BadOption(f"{name} cannot be set here: {advice}")


def _refuse_of_other_kind(values: Mapping[str, str], *, is_streaming: bool) -> None:
    """Raises for an option that would have no effect in a query of this kind."""
    for name, reason in (_ONLY_BATCHES if is_streaming else _ONLY_STREAMS).items():
        if name.lower() in values:
            if is_streaming:
                raise BadOption(f"{name} is for batch queries: {reason}")
            raise BadOption(
                f"{name} is for streams: {reason}; leave it out, or write readStream for read"
            )


def _client_properties(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    properties = {
        name.removeprefix(PREFIX): value
        for name, value in values.items()
        if name.startswith(PREFIX)
    }
    if not properties.get("bootstrap.servers"):
        raise BadOption("kafka.bootstrap.servers is missing: for instance localhost:9092")
    properties.pop("group.id", None)
    return tuple(sorted(properties.items()))


def _topics(values: Mapping[str, str]) -> Topics:
    ways = [name for name in ("subscribe", "subscribepattern", "assign") if values.get(name)]
    if len(ways) != 1:
        raise BadOption("set exactly one of subscribe, subscribePattern and assign")
    text = values[ways[0]]
    if ways[0] == "subscribe":
        names = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
        if not names:
            raise BadOption("subscribe names no topic")
        return Topics(names=names)
    if ways[0] == "subscribepattern":
        try:
            re.compile(text)
        except re.error as error:
            raise BadOption(f"subscribePattern is not a regular expression: {error}") from None
        return Topics(pattern=text)
    assignment = _json("assign", text)
    partitions = [
        TopicPartition(topic, _number("assign", index))
        for topic, indexes in assignment.items()
        if isinstance(indexes, list)
        for index in indexes
    ]
    if not partitions:
        raise BadOption('assign names no partition: {"topic": [0, 1]}')
    return Topics(partitions=tuple(sorted(partitions)))


def _offset_spec(values: Mapping[str, str], side: str, default: int) -> OffsetSpec:
    """Reads `startingTimestamp`, `...OffsetsByTimestamp` or `...Offsets`."""
    if values.get(f"{side}timestamp"):
        return OffsetSpec(
            default, timestamp_ms=_number(f"{side}Timestamp", values[f"{side}timestamp"])
        )
    if values.get(f"{side}offsetsbytimestamp"):
        name = f"{side}OffsetsByTimestamp"
        return OffsetSpec(default, timestamps_ms=_by_partition(name, values[name.lower()]))
    text = values.get(f"{side}offsets", "").strip()
    if not text:
        return OffsetSpec(default)
    if text.startswith("{"):
        return OffsetSpec(default, offsets=_by_partition(f"{side}Offsets", text))
    word = check_word(f"{side}Offsets", text, ("earliest", "latest"), _OFFSETS_EXAMPLE)
    return OffsetSpec(EARLIEST if word == "earliest" else LATEST)


def _has(spec: OffsetSpec, offset: int) -> bool:
    if spec.is_by_time:
        return False
    if spec.offsets:
        return any(named == offset for _, named in spec.offsets)
    return spec.offset == offset


def _by_partition(name: str, text: str) -> tuple[tuple[TopicPartition, int], ...]:
    by_partition = []
    for topic, offsets in _json(name, text).items():
        if not isinstance(offsets, dict):
            raise BadOption(f"{name} must look like {_OFFSETS_EXAMPLE}")
        for partition, offset in offsets.items():
            topic_partition = TopicPartition(topic, _number(name, partition))
            number = _number(name, offset)
            if number < (0 if name.endswith("Timestamp") else EARLIEST):
                meant = "" if name.endswith("Timestamp") else "; -2 is earliest, -1 is latest"
                raise BadOption(f"{name}: {number} cannot be negative{meant}")
            by_partition.append((topic_partition, number))
    return tuple(sorted(by_partition))


def _json(name: str, text: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        example = '{"topic": [0, 1]}' if name == "assign" else _OFFSETS_EXAMPLE
        raise BadOption(f"{name} is not JSON like {example}: {error}") from None
    if not isinstance(document, dict):
        raise BadOption(f"{name} must be a JSON object with topics as names")
    return document


def _number(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        unit = " of milliseconds since 1970" if name.endswith("Timestamp") else ""
        raise BadOption(f"{name}: {value!r} is not a whole number{unit}") from None


def _count(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return None
    count = _number(name, text)
    if count <= 0:
        raise BadOption(f"{name}={count}: must be above 0")
    return count


def _flag(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name.lower(), str(default))
    try:
        return parse_boolean(text)
    except InvalidValue as error:
        raise BadOption(f"{name}={text.lower()}: {error}") from None


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text, default_unit="ms")
    except InvalidValue:
        raise BadOption(f"maxTriggerDelay={text}: must be like 90s, 15m or 1h") from None
