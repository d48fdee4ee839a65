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
_OWN_LOADING: Final = "coordinators choose the size of their reads"
_PACED: Final = "replication throttles limit each read and keep no samples"


_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def _read_assignors(text: str) -> tuple[str, ...]:
    assignors = parse_list(text)
    if not assignors:
        raise InvalidValue("must name at least one assignor: uniform or range")
    for name in assignors:
        if name not in _ASSIGNORS:
            raise InvalidValue(f"there is no assignor {in_a_line(name)}; must be uniform or range")
    return tuple(_ASSIGNORS[name] for name in assignors)


class GroupSettings(Settings):
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6_000,
        "The minimum session timeout of members of classic groups.",
        at_least=0,
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        1_800_000,
        "The maximum session timeout of members of classic groups.",
        at_least=0,
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long the coordinator waits for more members to join an empty classic group before "
        "the first rebalance.",
        at_least=0,
    )
    group_max_size = integer(
        "group.max.size", MAX_INT, "The maximum number of members of a classic group.", at_least=1
    )
    group_coordinator_rebalance_protocols = names(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "The group protocols that the coordinator accepts. Without consumer, members of the "
        "consumer protocol (KIP-848) are refused. classic must be in the list, as in Kafka. "
        "streams and share have no effect: Odradek has neither streams groups nor share groups.",
        choices=("classic", "consumer", "share", "streams"),
    )
    group_coordinator_append_linger_ms = without_effect(
        "the coordinator writes at once; records that arrive during a write are written together",
        integer(
            "group.coordinator.append.linger.ms",
            -1,
            "How long the coordinator collects records before it writes them. -1: the coordinator "
            "adapts this time itself.",
            at_least=-1,
        ),
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        45_000,
        "The session timeout of members of consumer groups (KIP-848). A member whose heartbeats "
        "do not arrive for this long is removed.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The minimum session timeout that can be set for a consumer group.",
        at_least=1,
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The maximum session timeout that can be set for a consumer group.",
        at_least=1,
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often the members of consumer groups (KIP-848) send heartbeats.",
        at_least=1,
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        "The minimum heartbeat interval that can be set for a consumer group.",
        at_least=1,
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The maximum heartbeat interval that can be set for a consumer group.",
        at_least=1,
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size",
        MAX_INT,
        "The maximum number of members of a consumer group (KIP-848).",
        at_least=1,
    )
    group_consumer_assignors: Setting[tuple[str, ...]] = Setting(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "The assignors that consumer groups (KIP-848) may use. The first one is the default for "
        "groups whose members do not choose one.",
        read=_read_assignors,
        expected="a list of uniform, range, or Kafka's classes of these names",
    )
    group_consumer_migration_policy = string(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether a group with members may be converted between the classic and the consumer "
        "protocol: upgrade (classic to consumer), downgrade (consumer to classic), bidirectional "
        "(both) or disabled.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_share_session_timeout_ms = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.session.timeout.ms",
            45_000,
            "The session timeout of members of share groups.",
            at_least=1,
        ),
    )
    group_share_heartbeat_interval_ms = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.heartbeat.interval.ms",
            5_000,
            "How often the members of share groups send heartbeats.",
            at_least=1,
        ),
    )
    group_share_max_size = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.max.size",
            200,
            "The maximum number of members of a share group.",
            at_least=1,
            at_most=1000,
        ),
    )
    group_share_record_lock_duration_ms = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.record.lock.duration.ms",
            30_000,
            "How long a member of a share group may hold the lock on a record that it acquired.",
            at_least=1000,
            at_most=3_600_000,
        ),
    )
    group_share_delivery_count_limit = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.delivery.count.limit",
            5,
            "The maximum number of times that a share group delivers a record.",
            at_least=2,
            at_most=10,
        ),
    )
    group_share_partition_max_record_locks = without_effect(
        _NO_SHARE_GROUPS,
        integer(
            "group.share.partition.max.record.locks",
            2000,
            "The maximum number of records of a partition that the members of a share group may "
            "have acquired at the same time.",
            at_least=100,
            at_most=10_000,
        ),
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4096,
        "The maximum size of the metadata text that a client may store with a committed offset.",
        at_least=0,
        importance=Importance.HIGH,
    )
    offsets_load_buffer_size = without_effect(
        _OWN_LOADING,
        integer(
            "offsets.load.buffer.size",
            5 * 1024 * 1024,
            "The number of bytes that the coordinator reads at a time when it loads a partition "
            "of the offsets topic.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long committed offsets are kept after their group has become empty, or after the "
        "last commit of a consumer that is not a member of a group.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often the coordinator removes expired offsets.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5_000,
        "How long an offset commit waits until it is replicated to the ISR of the offsets topic. "
        "After that it fails.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        "The number of partitions of the offsets topic (__consumer_offsets). It must not be "
        "changed once the topic exists.",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_topic_replication_factor = integer(
        "offsets.topic.replication.factor",
        3,
        "The replication factor of the offsets topic. If it is set, the topic is created, and "
        "groups work, when that many brokers live. If it is not set, the topic is created at "
        "once, with at most as many replicas as there are brokers.",
        at_least=1,
        kind=Kind.SHORT,
        importance=Importance.HIGH,
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * 1024 * 1024,
        "The segment size of the offsets topic (segment.bytes).",
        at_least=1,
        importance=Importance.HIGH,
    )
    offsets_topic_compression_codec = without_effect(
        "coordinators write their records uncompressed",
        integer(
            "offsets.topic.compression.codec",
            0,
            "The compression codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
            at_least=0,
            at_most=4,
            importance=Importance.HIGH,
        ),
    )


class TransactionSettings(Settings):
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "The number of partitions of the transaction topic (__transaction_state). It must not be "
        "changed once the topic exists.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_state_log_replication_factor = integer(
        "transaction.state.log.replication.factor",
        3,
        "The replication factor of the transaction topic. If it is set, the topic is created, and "
        "transactions work, when that many brokers live. If it is not set, the topic is created "
        "at once, with at most as many replicas as there are brokers.",
        at_least=1,
        kind=Kind.SHORT,
        importance=Importance.HIGH,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "The number of replicas of the transaction topic that must be in sync before a write is "
        "accepted (min.insync.replicas). It is at most the replication factor of the topic.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 * 1024 * 1024,
        "The segment size of the transaction topic (segment.bytes).",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_state_log_load_buffer_size = without_effect(
        _OWN_LOADING,
        integer(
            "transaction.state.log.load.buffer.size",
            5 * 1024 * 1024,
            "The number of bytes that the coordinator reads at a time when it loads a partition "
            "of the transaction topic.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        900_000,
        "The maximum transaction timeout that a producer may ask for.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        604_800_000,
        "How long the coordinator keeps a transactional id that is not used. After that, the id "
        "has no state and no producer id.",
        at_least=1,
        importance=Importance.HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often the coordinator aborts transactions that have timed out.",
        at_least=1,
        importance=Importance.LOW,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often the coordinator removes expired transactional ids.",
        at_least=1,
        importance=Importance.LOW,
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Before a partition leader writes the first records of a transaction, it verifies with "
        "the transaction coordinator that the partition belongs to the transaction.",
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "The longest time that a partition leader waits before it repeats a request to the "
        "transaction coordinator to verify or add a partition. The first waits are shorter.",
        at_least=0,
        importance=Importance.LOW,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long a partition leader repeats such a request. After that, the write fails with "
        "the last error of the coordinator.",
        at_least=0,
        importance=Importance.LOW,
    )
    transaction_two_phase_commit_enable = without_effect(
        "two-phase commit (KIP-939) is not available",
        boolean(
            "transaction.two.phase.commit.enable",
            False,
            "Allow producers to keep a prepared transaction open until an external transaction "
            "coordinator decides about it.",
            importance=Importance.LOW,
        ),
    )


class QuotaSettings(Settings):
    quota_window_num = integer(
        "quota.window.num",
        11,
        "The number of samples that are kept for client quotas. The use of a client is measured "
        "over the time of all samples.",
        at_least=1,
        importance=Importance.LOW,
    )
    quota_window_size_seconds = integer(
        "quota.window.size.seconds",
        1,
        "The time span of each sample for client quotas. At once, a client may use what its quota "
        "allows in this time.",
        at_least=1,
        importance=Importance.LOW,
    )
    replication_quota_window_num = without_effect(
        _PACED,
        integer(
            "replication.quota.window.num",
            11,
            "The number of samples that are kept for replication quotas.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    replication_quota_window_size_seconds = without_effect(
        _PACED,
        integer(
            "replication.quota.window.size.seconds",
            1,
            "The time span of each sample for replication quotas.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    controller_quota_window_num = integer(
        "controller.quota.window.num",
        11,
        "The number of samples that are kept for quotas on changes of topics.",
        at_least=1,
        importance=Importance.LOW,
    )
    controller_quota_window_size_seconds = integer(
        "controller.quota.window.size.seconds",
        1,
        "The time span of each sample for quotas on changes of topics.",
        at_least=1,
        importance=Importance.LOW,
    )
