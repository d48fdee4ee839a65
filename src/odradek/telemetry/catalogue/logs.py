"""Logs, log directories and the log cleaner."""

from odradek.telemetry.declarations import Served, counter, gauge

_LOG = "kafka.log:type=Log"
_CLEANER = "kafka.log:type=LogCleaner"
_LABELS = ("topic", "partition")

SIZE = gauge(
    "kafka_log_log_size",
    "Size of the log in bytes.",
    f"{_LOG},name=Size",
    _LABELS,
    served=Served.REPLICA,
)
SEGMENTS = gauge(
    "kafka_log_log_numlogsegments",
    "Segments of the log.",
    f"{_LOG},name=NumLogSegments",
    _LABELS,
    served=Served.REPLICA,
)
START_OFFSET = gauge(
    "kafka_log_log_logstartoffset",
    "The first offset of the log that can be read.",
    f"{_LOG},name=LogStartOffset",
    _LABELS,
    served=Served.REPLICA,
)
END_OFFSET = gauge(
    "kafka_log_log_logendoffset",
    "The offset of the next record.",
    f"{_LOG},name=LogEndOffset",
    _LABELS,
    served=Served.REPLICA,
)
OFFLINE_DIRECTORIES = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "Log directories that failed. Should be 0.",
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)
DIRECTORY_OFFLINE = gauge(
    "kafka_log_logmanager_logdirectoryoffline",
    "1 if the log directory failed.",
    "kafka.log:type=LogManager,name=LogDirectoryOffline",
    ("logDirectory",),
)
DIRECTORY_FULL = gauge(
    "odradek_log_directory_full",
    "1 if the log directory is full, so that its partitions take no records.",
    labels=("directory",),
)
DIRECTORY_FREE = gauge(
    "odradek_log_directory_free_bytes",
    "Free bytes on the disk of the log directory.",
    labels=("directory",),
)
DIRECTORY_TOTAL = gauge(
    "odradek_log_directory_total_bytes",
    "Size of the disk of the log directory.",
    labels=("directory",),
)
DIRECTORY_LOGS = gauge(
    "odradek_log_directory_logs_bytes",
    "Size of all logs in the log directory.",
    labels=("directory",),
)

CLEANER_DIRTY = gauge(
    "kafka_log_logcleanermanager_max_dirty_percent",
    "The dirtiest compacted log, in percent of its bytes.",
    "kafka.log:type=LogCleanerManager,name=max-dirty-percent",
)
CLEANER_UNCLEANABLE = gauge(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "Compacted logs that are damaged and set aside by the cleaner.",
    "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)
CLEANER_UNCLEANABLE_BYTES = gauge(
    "kafka_log_logcleanermanager_uncleanable_bytes",
    "The size of those logs.",
    "kafka.log:type=LogCleanerManager,name=uncleanable-bytes",
)
CLEANER_RECOPY = gauge(
    "kafka_log_logcleaner_cleaner_recopy_percent",
    "Of what the last pass of the cleaner read, how much it wrote again, in percent.",
    f"{_CLEANER},name=cleaner-recopy-percent",
)
CLEANER_MAX_TIME = gauge(
    "kafka_log_logcleaner_max_clean_time_secs",
    "The longest pass of the cleaner since the start, in seconds.",
    f"{_CLEANER},name=max-clean-time-secs",
)
CLEANER_DELAY = gauge(
    "kafka_log_logcleaner_max_compaction_delay_secs",
    "The longest wait of a log beyond max.compaction.lag.ms, in seconds.",
    f"{_CLEANER},name=max-compaction-delay-secs",
)
CLEANER_PASSES = counter(
    "odradek_log_cleaner_passes_total",
    "Passes of the cleaner that came to their end.",
)
CLEANER_PROGRESS = gauge(
    "odradek_log_cleaner_progress",
    "How much of the pass under way is done, 0 to 1.",
)
