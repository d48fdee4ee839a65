"""Settings of consumer groups, committed offsets, transactions and quotas."""

from typing import Final

from odradek.config.kinds import boolean, integer, long, names, string
from odradek.config.setting import (
    MAX_INT,
    Importance,
    Kind,
    Scope,
    Setting,
    Settings,
    without_effect,
)
from odradek.config.values import InvalidValue, in_a_line, parse_list

_NO_SHARE_GROUPS: Final = "there are no share groups"
_NO_QUOTAS: Final = "there are no client quotas"
_OWN_LOADING: Final = "coordinators choose the size of their reads themselves"
_PACED: Final = "replication throttles pace every read, without a window"


_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def _read_assignors(text: str) -> tuple[str, ...]:
    named = parse_list(text)
    if not named:
        raise InvalidValue("name at least one of uniform, range")
    for name in named:
        if name not in _ASSIGNORS:
            raise InvalidValue(f"there is no assignor {in_a_line(name)}; it takes uniform, range")
    return tuple(_ASSIGNORS[name] for name in named)


class GroupSettings(Settings):
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout a classic group member may ask for.",
        at_least=0,
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session timeout a classic group member may ask for.",
        at_least=0,
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
        at_least=0,
    )
    group_max_size = integer(
        "group.max.size", MAX_INT, "The most members of a classic group.", at_least=1
    )
    group_coordinator_rebalance_protocols = names(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "The kinds of groups the coordinator serves. Without consumer, members of the new consumer "
        "protocol (KIP-848) are refused; classic cannot be left out, as in Kafka. The default is "
        "Kafka's: there are no streams groups and no share groups here, whatever is set.",
        choices=("classic", "consumer", "share", "streams"),
    )
    group_coordinator_append_linger_ms = without_effect(
        "the coordinator writes at once and groups what arrives meanwhile",
        integer(
            "group.coordinator.append.linger.ms",
            -1,
            "How long the coordinator gathers records before it writes; -1 leaves it to choose.",
            at_least=-1,
        ),
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        45_000,
        "After this silence a member of a new-style group is removed.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest session timeout a new-style group may be set to.",
        at_least=1,
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest session timeout a new-style group may be set to.",
        at_least=1,
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of a new-style group report.",
        at_least=1,
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        "The shortest heartbeat interval a new-style group may be set to.",
        at_least=1,
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest heartbeat interval a new-style group may be set to.",
        at_least=1,
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size", MAX_INT, "The most members of a new-style group.", at_least=1
    )
    group_consumer_assignors: Setting[tuple[str, ...]] = Setting(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "Assignors of new-style groups; the first is used where a member names none.",
        read=_read_assignors,
        takes="a list of uniform, range, or Kafka's classes of these names",
    )
    group_consumer_migration_policy = string(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which groups with members may change between the classic and the consumer protocol.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_share_session_timeout_ms = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.session.timeout.ms",
            45_000,
            "After this silence a member of a share group is removed.",
            at_least=1,
        ),
    )
    group_share_heartbeat_interval_ms = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.heartbeat.interval.ms",
            5_000,
            "How often members of a share group report.",
            at_least=1,
        ),
    )
    group_share_max_size = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.max.size",
            200,
            "The most members of a share group.",
            at_least=1,
            at_most=1000,
        ),
    )
    group_share_record_lock_duration_ms = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.record.lock.duration.ms",
            30_000,
            "How long a share group's member may hold a record.",
            at_least=1000,
            at_most=3_600_000,
        ),
    )
    group_share_delivery_count_limit = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.delivery.count.limit",
            5,
            "How often a share group delivers a record before it gives up.",
            at_least=2,
            at_most=10,
        ),
    )
    group_share_partition_max_record_locks = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.partition.max.record.locks",
            2000,
            "The most records of a partition that a share group holds at once.",
            at_least=100,
            at_most=10_000,
        ),
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4096,
        "The longest note a client may store with a committed offset.",
        at_least=0,
        importance=Importance.HIGH,
    )
    offsets_load_buffer_size = without_effect(
        _OWN_LOADING,
        integer(
            "offsets.load.buffer.size",
            5 * 1024 * 1024,
            "How many bytes of the offsets topic are read at a time at loading.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long offsets of an empty group are kept.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often expired offsets are looked for.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5_000,
        "How long a commit waits for its replicas.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        "Partitions of the offsets topic; never change it once the topic exists.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_topic_replication_factor = integer(
        "offsets.topic.replication.factor",
        3,
        "Replicas of the offsets topic; a smaller cluster uses what it has.",
        at_least=1,
        kind=Kind.SHORT,
        importance=Importance.HIGH,
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * 1024 * 1024,
        "The segment size of the offsets topic.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_topic_compression_codec = without_effect(
        "coordinators write their records uncompressed",
        integer(
            "offsets.topic.compression.codec",
            0,
            "The codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
            at_least=0,
            at_most=4,
            importance=Importance.HIGH,
        ),
    )


class TransactionSettings(Settings):
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of the transaction topic; never change it once the topic exists.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_state_log_replication_factor = integer(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of the transaction topic; a smaller cluster uses what it has.",
        at_least=1,
        kind=Kind.SHORT,
        importance=Importance.HIGH,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "Replicas of the transaction topic that must be in sync.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 * 1024 * 1024,
        "The segment size of the transaction topic.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_state_log_load_buffer_size = without_effect(
        _OWN_LOADING,
        integer(
            "transaction.state.log.load.buffer.size",
            5 * 1024 * 1024,
            "How many bytes of the transaction topic are read at a time at loading.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        900_000,
        "The longest timeout a transactional producer may ask for.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        604_800_000,
        "How long an idle transactional id is remembered.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often overdue transactions are looked for.",
        at_least=1,
        importance=Importance.LOW,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often forgotten transactional ids are looked for.",
        at_least=1,
        importance=Importance.LOW,
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Ask the coordinator whether a partition belongs to the transaction before writing.",
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "How long a leader waits before it asks the transaction coordinator again.",
        at_least=0,
        importance=Importance.LOW,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "The longest of the waits that grow with each repetition.",
        at_least=0,
        importance=Importance.LOW,
    )
    transaction_two_phase_commit_enable = without_effect(
        "two-phase commit (KIP-939) is not available",
        boolean(
            "transaction.two.phase.commit.enable",
            False,
            "Let producers keep a prepared transaction open for an outside coordinator.",
            importance=Importance.LOW,
        ),
    )


class QuotaSettings(Settings):
    quota_window_num = without_effect(
        _NO_QUOTAS,
        integer(
            "quota.window.num",
            11,
            "How many samples a client quota remembers.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    quota_window_size_seconds = without_effect(
        _NO_QUOTAS,
        integer(
            "quota.window.size.seconds",
            1,
            "How long one sample of a client quota lasts.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    replication_quota_window_num = without_effect(
        _PACED,
        integer(
            "replication.quota.window.num",
            11,
            "How many samples a replication quota remembers.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    replication_quota_window_size_seconds = without_effect(
        _PACED,
        integer(
            "replication.quota.window.size.seconds",
            1,
            "How long one sample of a replication quota lasts.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    controller_quota_window_num = without_effect(
        _NO_QUOTAS,
        integer(
            "controller.quota.window.num",
            11,
            "How many samples a topic change quota remembers.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    controller_quota_window_size_seconds = without_effect(
        _NO_QUOTAS,
        integer(
            "controller.quota.window.size.seconds",
            1,
            "How long one sample of a topic change quota lasts.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
