"""Settings of log directories, of periodic work on logs and of topic creation.

The broker settings that give topic settings their default, such as `log.segment.bytes`, are
declared together with the topic setting, in `topic_settings`.
"""

import sys

from odradek.config.kinds import boolean, decimal, integer, long, string
from odradek.config.kinds import names as name_list
from odradek.config.setting import Importance, Scope, Settings, without_effect


class StorageSettings(Settings):
    log_dir = string(
        "log.dir",
        "/tmp/odradek-logs",  # noqa: S108  - like Kafka's default, /tmp/kafka-logs
        "The directory of the log data. It is used only if log.dirs is unset.",
        importance=Importance.HIGH,
    )
    log_dirs = name_list(
        "log.dirs",
        None,
        "The directories of the log data, separated by commas. If the disk of one of them fails, "
        "its replicas go offline; the others are still served.",
        importance=Importance.HIGH,
    )
    num_partitions = integer(
        "num.partitions",
        1,
        "The number of partitions of topics that are created without one, also of topics that are "
        "created automatically.",
        at_least=1,
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        "Create a topic automatically when a client asks for the metadata of a topic that does "
        "not exist and allows its creation.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = boolean(
        "delete.topic.enable",
        True,
        "Allow clients to delete topics. If it is false, DeleteTopics is refused.",
        importance=Importance.HIGH,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        "How often the broker checks whether segments can be deleted by retention.ms or "
        "retention.bytes.",
        at_least=1,
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often the recovery points of the logs, and the high watermarks, are written to "
        "checkpoint files. After a crash, recovery of a log starts at its recovery point.",
        at_least=0,
        importance=Importance.HIGH,
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often the log start offsets are written to a checkpoint file.",
        at_least=0,
        importance=Importance.HIGH,
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start the broker applies retention for the first time.",
        at_least=0,
        importance=Importance.LOW,
    )
    log_dir_failure_timeout_ms = without_effect(
        "the broker reports a failed directory to the metadata store, without a time limit",
        long(
            "log.dir.failure.timeout.ms",
            30_000,
            "How long a broker with a failed directory waits for the controller to know.",
            at_least=1,
            importance=Importance.LOW,
        ),
    )
    odradek_log_dirs_reserve_bytes = long(
        "odradek.log.dirs.reserve.bytes",
        4 << 20,
        "The number of bytes that are reserved on the disk of each log directory, so that "
        "checkpoints and metadata can still be written when the disk is full. At most 1/64 of the "
        "disk is reserved.",
        at_least=0,
        importance=Importance.LOW,
    )
    num_recovery_threads_per_data_dir = without_effect(
        "logs are recovered one after the other; more Python threads would not be faster",
        integer(
            "num.recovery.threads.per.data.dir",
            2,
            "The number of logs of one log directory that are recovered at the same time.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        86_400_000,
        "How long a partition leader keeps the state of an idempotent producer that has stopped "
        "writing. After that, the producer id is unknown to the partition.",
        at_least=1,
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often the broker removes expired producer ids.",
        at_least=1,
        importance=Importance.LOW,
    )
    log_cleaner_enable = boolean(
        "log.cleaner.enable",
        True,
        "Run the log cleaner, which compacts topics with cleanup.policy=compact.",
    )
    log_cleaner_threads = integer(
        "log.cleaner.threads",
        1,
        "Whether the log cleaner runs: with 0 no log is compacted. Odradek compacts one log at a "
        "time, also with values above 1.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        "How long the log cleaner sleeps when there is no log to compact.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * 1024 * 1024,
        "The memory, in bytes, for the keys that the log cleaner deduplicates in one pass over a "
        "log. If it is too small for all keys, another pass follows.",
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = decimal(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "The fraction of log.cleaner.dedupe.buffer.size that may be filled with keys.",
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        "The memory, in bytes, for the reads and writes of the log cleaner.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = decimal(
        "log.cleaner.io.max.bytes.per.second",
        sys.float_info.max,
        "The maximum rate, in bytes a second, at which the log cleaner reads and writes; reads "
        "and writes are added together.",
        scope=Scope.CLUSTER_WIDE,
    )
