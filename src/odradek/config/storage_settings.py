"""Settings of log directories, housekeeping and topics made without settings of their own.

Defaults of topic settings (`log.segment.bytes` and its like) are declared with the topic
setting they belong to, in `topic_settings`.
"""

import sys

from odradek.config.kinds import boolean, decimal, integer, long, string
from odradek.config.kinds import names as name_list
from odradek.config.setting import Importance, Scope, Settings, without_effect


class StorageSettings(Settings):
    log_dir = string(
        "log.dir",
        "/tmp/odradek-logs",  # noqa: S108  - the place Kafka's default suggests, by our name
        "Where the data lie if log.dirs is not set.",
        importance=Importance.HIGH,
    )
    log_dirs = name_list(
        "log.dirs",
        None,
        "The directories with the data, separated by commas; one that fails is taken offline.",
        importance=Importance.HIGH,
    )
    num_partitions = integer(
        "num.partitions",
        1,
        "Partitions of a topic that is created without a number of its own.",
        at_least=1,
    )
    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        "Create a topic when a client asks for one that does not exist.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = boolean(
        "delete.topic.enable",
        True,
        "Let clients delete topics.",
        importance=Importance.HIGH,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        300_000,
        "How often the broker looks for segments to remove.",
        at_least=1,
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often recovery points are written; recovery after a crash starts there.",
        at_least=0,
        importance=Importance.HIGH,
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often log start offsets are written.",
        at_least=0,
        importance=Importance.HIGH,
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start housekeeping begins.",
        at_least=0,
        importance=Importance.LOW,
    )
    log_dir_failure_timeout_ms = without_effect(
        "a failed directory is reported through the metadata store, which is waited for",
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
        "Room kept on the disk of each log directory for checkpoints and metadata once it is full; "
        "never more than a 64th of the disk.",
        at_least=0,
        importance=Importance.LOW,
    )
    num_recovery_threads_per_data_dir = without_effect(
        "logs are recovered one after the other; more threads of Python would not be faster",
        integer(
            "num.recovery.threads.per.data.dir",
            2,
            "How many logs of a directory are recovered at once.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        86_400_000,
        "How long an idle idempotent producer is remembered.",
        at_least=1,
        scope=Scope.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        600_000,
        "How often forgotten producers are looked for.",
        at_least=1,
        importance=Importance.LOW,
    )
    log_cleaner_enable = boolean(
        "log.cleaner.enable", True, "Compact topics whose cleanup.policy says so."
    )
    log_cleaner_threads = integer(
        "log.cleaner.threads",
        1,
        "Taken for Kafka's sake: one log at a time is compacted, none if it is 0.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        "How long the cleaner sleeps when there is nothing to compact, before it looks again.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * 1024 * 1024,
        "Memory for the keys of one compaction pass; if it is full, another pass follows.",
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = decimal(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How much of log.cleaner.dedupe.buffer.size is used.",
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        "Memory for the cleaner's reads and writes.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = decimal(
        "log.cleaner.io.max.bytes.per.second",
        sys.float_info.max,
        "How many bytes a second the cleaner may read and write, both together.",
        scope=Scope.CLUSTER_WIDE,
    )
