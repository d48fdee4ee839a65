"""The settings of a topic, each with the broker settings that give it its default.

A topic's value is its own override, else the first broker synonym that is set, else the
default declared here. The last synonym carries that default in its own unit
(`log.retention.hours` is 168), so DescribeConfigs of a broker shows what Kafka shows.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from odradek.config.kinds import boolean, decimal, integer, long, names, string
from odradek.config.setting import (
    MAX_LONG,
    Importance,
    InvalidSetting,
    Scope,
    Setting,
    Settings,
    Synonym,
    hours,
    minutes,
    without_effect,
)
from odradek.config.spelling import Speller
from odradek.config.values import in_a_line

_DAY_MS = 24 * 60 * 60 * 1000
_WEEK_MS = 7 * _DAY_MS
_HOUR_MS = 60 * 60 * 1000

_NO_TIERS: Final = "there is no tiered storage"

_THROTTLED_REPLICAS = re.compile(r"\d+:\d+")


def _check_throttled(value: tuple[str, ...]) -> str | None:
    if value == ("*",) or all(_THROTTLED_REPLICAS.fullmatch(part) for part in value):
        return None
    return "it takes * or a list of partition:broker pairs, as in 0:1,1:2"


def _synonym(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


class TopicSettings(Settings):
    """The settings of one topic. Topics with equal overrides share one object."""

    cleanup_policy = names(
        "cleanup.policy",
        ("delete",),
        "What happens to old segments: delete removes them by age and size, compact keeps the "
        "newest record of each key; both together are possible.",
        choices=("compact", "delete"),
        synonyms=_synonym("log.cleanup.policy"),
    )
    compression_type = string(
        "compression.type",
        "producer",
        "The codec batches are stored with; producer keeps what the producer sent.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        synonyms=_synonym("compression.type"),
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        "How hard gzip works when the broker recompresses: 1 to 9, or -1 for its own choice.",
        at_least=1,
        at_most=9,
        besides=-1,
        synonyms=_synonym("compression.gzip.level"),
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        9,
        "How hard lz4 works when the broker recompresses.",
        at_least=1,
        at_most=17,
        synonyms=_synonym("compression.lz4.level"),
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        3,
        "How hard zstd works when the broker recompresses.",
        at_least=-131072,
        at_most=22,
        synonyms=_synonym("compression.zstd.level"),
    )
    delete_retention_ms = long(
        "delete.retention.ms",
        _DAY_MS,
        "How long a compacted topic keeps a tombstone, so that readers can see the deletion.",
        at_least=0,
        synonyms=_synonym("log.cleaner.delete.retention.ms"),
    )
    file_delete_delay_ms = long(
        "file.delete.delay.ms",
        60_000,
        "How long a removed segment stays on disk under a .deleted name.",
        at_least=0,
        synonyms=_synonym("log.segment.delete.delay.ms"),
    )
    flush_messages = long(
        "flush.messages",
        MAX_LONG,
        "Sync to disk after this many records; 1 means every acknowledged record survives a "
        "power cut.",
        at_least=1,
        synonyms=_synonym("log.flush.interval.messages"),
    )
    flush_ms = long(
        "flush.ms",
        MAX_LONG,
        "Sync to disk when the oldest unsynced record is this old.",
        at_least=0,
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    )
    follower_replication_throttled_replicas = names(
        "follower.replication.throttled.replicas",
        (),
        "Replicas whose catching up is limited on the follower: partition:broker pairs, or *.",
        check=_check_throttled,
    )
    index_interval_bytes = integer(
        "index.interval.bytes",
        4096,
        "How many bytes of log lie between two entries of the offset index.",
        at_least=0,
        synonyms=_synonym("log.index.interval.bytes"),
    )
    leader_replication_throttled_replicas = names(
        "leader.replication.throttled.replicas",
        (),
        "Replicas whose catching up is limited on the leader: partition:broker pairs, or *.",
        check=_check_throttled,
    )
    local_retention_bytes = without_effect(
        _NO_TIERS,
        long(
            "local.retention.bytes",
            -2,
            "Bytes kept locally under tiered storage; -2 means retention.bytes.",
            at_least=-2,
            synonyms=_synonym("log.local.retention.bytes"),
        ),
    )
    local_retention_ms = without_effect(
        _NO_TIERS,
        long(
            "local.retention.ms",
            -2,
            "Age kept locally under tiered storage; -2 means retention.ms.",
            at_least=-2,
            synonyms=_synonym("log.local.retention.ms"),
        ),
    )
    max_compaction_lag_ms = long(
        "max.compaction.lag.ms",
        MAX_LONG,
        "The longest a record of a compacted topic may wait for compaction.",
        at_least=1,
        synonyms=_synonym("log.cleaner.max.compaction.lag.ms"),
    )
    max_message_bytes = integer(
        "max.message.bytes",
        1024 * 1024 + 12,
        "The largest record batch the topic takes, after compression.",
        at_least=0,
        synonyms=_synonym("message.max.bytes"),
    )
    message_timestamp_after_max_ms = long(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        at_least=0,
        synonyms=_synonym("log.message.timestamp.after.max.ms"),
    )
    message_timestamp_before_max_ms = long(
        "message.timestamp.before.max.ms",
        MAX_LONG,
        "How far a producer's timestamp may lie behind the broker's clock.",
        at_least=0,
        synonyms=_synonym("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_type = string(
        "message.timestamp.type",
        "CreateTime",
        "Whose time a record carries: the producer's (CreateTime) or the broker's (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=_synonym("log.message.timestamp.type"),
    )
    min_cleanable_dirty_ratio = decimal(
        "min.cleanable.dirty.ratio",
        0.5,
        "The share of a compacted log that must be uncompacted before it is worth a pass.",
        at_least=0,
        at_most=1,
        synonyms=_synonym("log.cleaner.min.cleanable.ratio"),
    )
    min_compaction_lag_ms = long(
        "min.compaction.lag.ms",
        0,
        "The shortest time a record stays uncompacted.",
        at_least=0,
        synonyms=_synonym("log.cleaner.min.compaction.lag.ms"),
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "With acks=all, a write needs at least this many replicas in sync.",
        at_least=1,
        importance=Importance.HIGH,
        synonyms=_synonym("min.insync.replicas"),
    )
    preallocate = without_effect(
        "segments grow as they are written",
        boolean(
            "preallocate",
            False,
            "Reserve a segment's full size when it is created.",
            synonyms=_synonym("log.preallocate"),
        ),
    )
    remote_log_copy_disable = without_effect(
        _NO_TIERS,
        boolean("remote.log.copy.disable", False, "Tiered storage: stop copying segments away."),
    )
    remote_log_delete_on_disable = without_effect(
        _NO_TIERS,
        boolean(
            "remote.log.delete.on.disable",
            False,
            "Tiered storage: remove the remote copy when it is switched off.",
        ),
    )
    remote_storage_enable = boolean(
        "remote.storage.enable", False, "Tiered storage, which is not there: true is refused."
    )
    retention_bytes = long(
        "retention.bytes",
        -1,
        "Remove the oldest segments of a partition that is larger than this; -1 means no limit.",
        importance=Importance.HIGH,
        synonyms=_synonym("log.retention.bytes"),
    )
    retention_ms = long(
        "retention.ms",
        _WEEK_MS,
        "Remove segments whose newest record is older than this; -1 means never.",
        at_least=-1,
        importance=Importance.HIGH,
        synonyms=(
            Synonym("log.retention.ms"),
            minutes("log.retention.minutes"),
            hours("log.retention.hours"),
        ),
    )
    segment_bytes = integer(
        "segment.bytes",
        1 << 30,
        "The size at which a new segment begins.",
        # The minimum of Kafka 4 is a megabyte; tests and old tools use smaller segments.
        at_least=14,
        importance=Importance.HIGH,
        synonyms=_synonym("log.segment.bytes"),
    )
    segment_index_bytes = integer(
        "segment.index.bytes",
        10 * 1024 * 1024,
        "The size at which a segment's offset index is full and a new segment begins.",
        at_least=4,
        synonyms=_synonym("log.index.size.max.bytes"),
    )
    segment_jitter_ms = long(
        "segment.jitter.ms",
        0,
        "A random part of segment.ms taken off, so that segments do not all roll at once.",
        at_least=0,
        synonyms=(Synonym("log.roll.jitter.ms"), hours("log.roll.jitter.hours", at_least=0)),
    )
    segment_ms = long(
        "segment.ms",
        _WEEK_MS,
        "The age at which a new segment begins even if the old one is not full.",
        at_least=1,
        synonyms=(Synonym("log.roll.ms"), hours("log.roll.hours", at_least=1)),
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Let a replica that is not in sync become leader: the partition lives, records are lost.",
        importance=Importance.HIGH,
        synonyms=_synonym("unclean.leader.election.enable"),
    )

    overrides: Mapping[str, str]
    problems: tuple[str, ...]

    def __init__(
        self,
        values: Mapping[str, object] = MappingProxyType({}),
        overrides: Mapping[str, str] = MappingProxyType({}),
        problems: tuple[str, ...] = (),
    ) -> None:
        self.__dict__.update(self.defaults)
        self.__dict__.update(values)
        self.__dict__["overrides"] = overrides
        self.__dict__["problems"] = problems

    @classmethod
    def from_broker(cls, properties: Mapping[str, str]) -> Self:
        """Returns the defaults that a broker's properties give to its topics."""
        values: dict[str, object] = {}
        for setting in cls.declared.values():
            for synonym in setting.synonyms:
                if (text := properties.get(synonym.name)) is not None:
                    values[setting.attribute] = _from_broker(synonym, text)
                    break
        return cls(values)

    def with_overrides(self, overrides: Mapping[str, str]) -> "TopicSettings":
        """Returns these settings with the overrides of a topic.

        An override that cannot be used is left out, because it is stored already; `problems` names
        it, as it names overrides without effect.
        """
        values = dict(self.__dict__)
        problems = []
        for name, text in overrides.items():
            try:
                setting = topic_setting(name, text)
                value = values[setting.attribute] = setting.parse(text)
            except InvalidSetting as error:
                problems.append(str(error))
                continue
            if setting.no_effect and value != setting.default:
                problems.append(f"{name}={in_a_line(text)} has no effect here: {setting.no_effect}")
        return TopicSettings(values, dict(overrides), tuple(problems))

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def removes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy


_SPELLER: Final = Speller(TopicSettings.declared)


def topic_setting(name: str, value: object = None) -> Setting[object]:
    setting = TopicSettings.declared.get(name)
    if setting is None:
        hint = _SPELLER.hint(name)
        raise InvalidSetting(name, value, f"there is no topic setting of this name{hint}")
    return setting


def check_topic_overrides(overrides: Mapping[str, str | None], defaults: TopicSettings) -> None:
    """Raises `InvalidSetting` if a topic cannot have these overrides on top of `defaults`."""
    values = dict(defaults.__dict__)
    for name, text in overrides.items():
        setting = topic_setting(name, text)
        if text is None:
            raise InvalidSetting(name, "null", f"it takes {setting.takes}")
        values[setting.attribute] = setting.parse(text)
    _check_together(TopicSettings(values))


def _check_together(settings: TopicSettings) -> None:
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise InvalidSetting(
            "min.compaction.lag.ms",
            settings.min_compaction_lag_ms,
            f"it is more than max.compaction.lag.ms, {settings.max_compaction_lag_ms}",
        )
    if settings.remote_storage_enable:
        raise InvalidSetting(
            "remote.storage.enable", "true", "tiered storage is not available on this broker"
        )


def _from_broker(synonym: Synonym, text: str) -> object:
    value = BROKER_SYNONYMS[synonym.name].parse(text)
    if synonym.factor == 1 or not isinstance(value, int):
        return value
    # Any negative number of hours means "no limit", as -1 ms does.
    return min(value * synonym.factor, MAX_LONG) if value >= 0 else -1


def _broker_settings_of(setting: Setting[object]) -> dict[str, Setting[object]]:
    """Returns the broker settings that give a topic setting its default.

    Only the first of them can be changed while the broker runs.
    """
    made: dict[str, Setting[object]] = {}
    last = setting.synonyms[-1] if setting.synonyms else None
    for synonym in setting.synonyms:
        first = synonym is setting.synonyms[0]
        default = setting.default if synonym is last else None
        doc = f"The default of the topic setting {setting.name}."
        scope = Scope.CLUSTER_WIDE if first else Scope.READ_ONLY
        if synonym.factor == 1:
            made[synonym.name] = Setting(
                synonym.name,
                setting.kind,
                default,
                setting.doc if synonym.name == setting.name else f"{doc} {setting.doc}",
                read=setting.read,
                takes=setting.takes,
                write=setting.write,
                scope=scope,
                importance=setting.importance,
            )
            made[synonym.name].no_effect = setting.no_effect
        else:
            unit = "minutes" if synonym.factor == 60_000 else "hours"
            made[synonym.name] = integer(
                synonym.name,
                default // synonym.factor if isinstance(default, int) else None,
                f"{doc[:-1]}, in {unit}, where {setting.synonyms[0].name} is not set.",
                at_least=synonym.at_least,
                scope=scope,
                importance=setting.importance,
            )
    return made


BROKER_SYNONYMS: Final[dict[str, Setting[object]]] = {
    name: made
    for setting in TopicSettings.declared.values()
    for name, made in _broker_settings_of(setting).items()
}
