"""The process: time, memory, files, stalls of its event loop, and the cost of serving metrics."""

from odradek.telemetry.declarations import counter, gauge, histogram

_SYSTEM = "java.lang:type=OperatingSystem"

CPU = counter("process_cpu_seconds_total", "Processor time of the process, in seconds.")
OPEN_FILES = gauge(
    "process_open_fds",
    "Open file descriptors.",
    _SYSTEM,
    attribute="OpenFileDescriptorCount",
)
MAX_FILES = gauge(
    "process_max_fds",
    "The limit of open file descriptors.",
    _SYSTEM,
    attribute="MaxFileDescriptorCount",
)
RESIDENT = gauge("process_resident_memory_bytes", "Resident memory.")
VIRTUAL = gauge(
    "process_virtual_memory_bytes",
    "Virtual memory.",
    _SYSTEM,
    attribute="CommittedVirtualMemorySize",
)
START_TIME = gauge("process_start_time_seconds", "When the process began, in seconds since 1970.")
DISK_READ = gauge(
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "Bytes that the process caused to be read from disks.",
    "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
)
DISK_WRITE = gauge(
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "Bytes that the process caused to be written to disks.",
    "kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
)
STALLS = histogram(
    "odradek_loop_stall_seconds",
    "How late the event loop came back from a short sleep: everything that a broker does waits as "
    "long.",
)
LONGEST_STALL = gauge(
    "odradek_loop_longest_stall_seconds", "The longest stall of the event loop since the start."
)
PARTITIONS_LEFT_OUT = gauge(
    "odradek_metrics_partitions_left_out",
    "Partitions without series of their own, because of odradek.metrics.max.partitions.",
)
SCRAPE_TIME = gauge(
    "odradek_metrics_scrape_seconds", "How long the last scrape before this one took."
)
