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
from odradek.config.schema_validation_settings import SchemaValidationSettings
from odradek.config.setting import (
    MAX_LONG,
    Importance,
    InvalidSetting,
    Scope,
    Setting,
    Synonym,
    UnknownSetting,
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
    return "must be * or a list of partition:broker pairs, as in 0:1,1:2"


def _synonym(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


class TopicSettings(SchemaValidationSettings):
    """The settings of one topic. Topics with equal overrides share one object."""

    cleanup_policy = names(
        "cleanup.policy",
        ("delete",),
        "What happens to old segments: delete (segments are deleted by retention.ms and "
        "retention.bytes), compact (the last record of each key is kept), or both.",
        choices=("compact", "delete"),
        synonyms=_synonym("log.cleanup.policy"),
    )
    compression_type = string(
        "compression.type",
        "producer",
        "The compression codec of the batches on disk. producer: batches stay as the producer "
        "compressed them.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        synonyms=_synonym("compression.type"),
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        "The gzip level, 1 to 9, if the broker compresses batches. -1: the default of gzip.",
        at_least=1,
        at_most=9,
        extra_value=-1,
        synonyms=_synonym("compression.gzip.level"),
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        9,
        "The lz4 level if the broker compresses batches.",
        at_least=1,
        at_most=17,
        synonyms=_synonym("compression.lz4.level"),
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        3,
        "The zstd level if the broker compresses batches.",
        at_least=-131072,
        at_most=22,
        synonyms=_synonym("compression.zstd.level"),
    )
    delete_retention_ms = long(
        "delete.retention.ms",
        _DAY_MS,
        "How long tombstones (records without a value) of a compacted topic are kept. A consumer "
        "that reads the topic from its start must finish within this time to see all deletions.",
        at_least=0,
        synonyms=_synonym("log.cleaner.delete.retention.ms"),
    )
    file_delete_delay_ms = long(
        "file.delete.delay.ms",
        60_000,
        "How long the files of a deleted segment stay on disk, renamed to .deleted, before they "
        "are removed.",
        at_least=0,
        synonyms=_synonym("log.segment.delete.delay.ms"),
    )
    flush_messages = long(
        "flush.messages",
        MAX_LONG,
        "The number of records after which the log is flushed to disk with fsync. With 1 every "
        "acknowledged record survives a power failure.",
        at_least=1,
        synonyms=_synonym("log.flush.interval.messages"),
    )
    flush_ms = long(
        "flush.ms",
        MAX_LONG,
        "The maximum time that a record stays in the page cache before the log is flushed to disk "
        "with fsync.",
        at_least=0,
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    )
    follower_replication_throttled_replicas = names(
        "follower.replication.throttled.replicas",
        (),
        "The replicas whose replication is throttled on the follower, as partition:broker pairs, "
        "or * for all replicas of the topic. See follower.replication.throttled.rate.",
        check=_check_throttled,
    )
    index_interval_bytes = integer(
        "index.interval.bytes",
        4096,
        "The number of bytes of the log between two entries of the offset index.",
        at_least=0,
        synonyms=_synonym("log.index.interval.bytes"),
    )
    leader_replication_throttled_replicas = names(
        "leader.replication.throttled.replicas",
        (),
        "The replicas whose replication is throttled on the leader, as partition:broker pairs, or "
        "* for all replicas of the topic. See leader.replication.throttled.rate.",
        check=_check_throttled,
    )
    local_retention_bytes = without_effect(
        _NO_TIERS,
        long(
            "local.retention.bytes",
            -2,
            "With tiered storage: the maximum size of the local part of a partition. -2: "
            "retention.bytes.",
            at_least=-2,
            synonyms=_synonym("log.local.retention.bytes"),
        ),
    )
    local_retention_ms = without_effect(
        _NO_TIERS,
        long(
            "local.retention.ms",
            -2,
            "With tiered storage: how long segments are kept locally. -2: retention.ms.",
            at_least=-2,
            synonyms=_synonym("log.local.retention.ms"),
        ),
    )
    max_compaction_lag_ms = long(
        "max.compaction.lag.ms",
        MAX_LONG,
        "The maximum time that a record of a compacted topic can stay uncompacted.",
        at_least=1,
        synonyms=_synonym("log.cleaner.max.compaction.lag.ms"),
    )
    max_message_bytes = integer(
        "max.message.bytes",
        1024 * 1024 + 12,
        "The largest record batch that the topic accepts, after compression.",
        at_least=0,
        synonyms=_synonym("message.max.bytes"),
    )
    message_timestamp_after_max_ms = long(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How much later than the clock of the broker the timestamp of a record may be. It applies "
        "to CreateTime only.",
        at_least=0,
        synonyms=_synonym("log.message.timestamp.after.max.ms"),
    )
    message_timestamp_before_max_ms = long(
        "message.timestamp.before.max.ms",
        MAX_LONG,
        "How much earlier than the clock of the broker the timestamp of a record may be. It "
        "applies to CreateTime only.",
        at_least=0,
        synonyms=_synonym("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_type = string(
        "message.timestamp.type",
        "CreateTime",
        "Which timestamp a record has: the time at which the producer created it (CreateTime) or "
        "at which the broker appended it (LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=_synonym("log.message.timestamp.type"),
    )
    min_cleanable_dirty_ratio = decimal(
        "min.cleanable.dirty.ratio",
        0.5,
        "The minimum ratio of the uncompacted part of a log to the whole log before the log is "
        "compacted.",
        at_least=0,
        at_most=1,
        synonyms=_synonym("log.cleaner.min.cleanable.ratio"),
    )
    min_compaction_lag_ms = long(
        "min.compaction.lag.ms",
        0,
        "The minimum time that a record of a compacted topic stays uncompacted.",
        at_least=0,
        synonyms=_synonym("log.cleaner.min.compaction.lag.ms"),
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "The minimum number of in-sync replicas for a write with acks=all. With fewer in-sync "
        "replicas the write fails.",
        at_least=1,
        importance=Importance.HIGH,
        synonyms=_synonym("min.insync.replicas"),
    )
    odradek_encryption_key = string(
        "odradek.encryption.key",
        "",
        "The name of the key that new segments of the topic are encrypted with. The broker's "
        "odradek.key.provider keeps it. If empty, they are not encrypted.",
        importance=Importance.HIGH,
        synonyms=_synonym("odradek.encryption.key"),
    )
    preallocate = without_effect(
        "segments grow as they are written",
        boolean(
            "preallocate",
            False,
            "Allocate the full size of a segment file on disk when it is created.",
            synonyms=_synonym("log.preallocate"),
        ),
    )
    remote_log_copy_disable = without_effect(
        _NO_TIERS,
        boolean(
            "remote.log.copy.disable",
            False,
            "With tiered storage: stop copying segments to the remote storage.",
        ),
    )
    remote_log_delete_on_disable = without_effect(
        _NO_TIERS,
        boolean(
            "remote.log.delete.on.disable",
            False,
            "With tiered storage: delete the remote segments when tiered storage is disabled.",
        ),
    )
    remote_storage_enable = boolean(
        "remote.storage.enable", False, "Enable tiered storage. Odradek has none: true is refused."
    )
    retention_bytes = long(
        "retention.bytes",
        -1,
        "The maximum size of a partition. If it is larger, its oldest segments are deleted "
        "(cleanup.policy=delete). -1: no limit.",
        importance=Importance.HIGH,
        synonyms=_synonym("log.retention.bytes"),
    )
    retention_ms = long(
        "retention.ms",
        _WEEK_MS,
        "How long records are kept. A segment is deleted when its newest record is older than "
        "this (cleanup.policy=delete). -1: no limit.",
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
        "The maximum size of a segment file. When it is reached, a new segment is rolled.",
        # The minimum of Kafka 4 is a megabyte; tests and old tools use smaller segments.
        at_least=14,
        importance=Importance.HIGH,
        synonyms=_synonym("log.segment.bytes"),
    )
    segment_index_bytes = integer(
        "segment.index.bytes",
        10 * 1024 * 1024,
        "The maximum size of the offset index of a segment. When it is reached, a new segment is "
        "rolled.",
        at_least=4,
        synonyms=_synonym("log.index.size.max.bytes"),
    )
    segment_jitter_ms = long(
        "segment.jitter.ms",
        0,
        "The maximum random time that is subtracted from segment.ms, so that not all segments are "
        "rolled at the same time.",
        at_least=0,
        synonyms=(Synonym("log.roll.jitter.ms"), hours("log.roll.jitter.hours", at_least=0)),
    )
    segment_ms = long(
        "segment.ms",
        _WEEK_MS,
        "The age at which a new segment is rolled, also if the current segment is not full.",
        at_least=1,
        synonyms=(Synonym("log.roll.ms"), hours("log.roll.hours", at_least=1)),
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Allow a replica that is not in the ISR to be elected leader if no in-sync replica is "
        "alive. The partition becomes available again, but records can be lost.",
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
                setting = topic_setting(name)
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


def topic_setting(name: str) -> Setting[object]:
    setting = TopicSettings.declared.get(name)
    if setting is None:
        hint = _SPELLER.hint(name)
        raise UnknownSetting(name, f"there is no topic setting {in_a_line(name)}{hint}")
    return setting


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
                expected=setting.expected,
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
