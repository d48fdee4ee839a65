"""What public dashboards for Kafka ask Prometheus for: names of series, labels and functions.

These are facts about two projects, written down from their files and not a copy of them:

- Strimzi (strimzi/strimzi-kafka-operator, examples/metrics/grafana-dashboards, August 2026):
  strimzi-kafka.json, strimzi-kafka-exporter.json, strimzi-kraft.json, strimzi-kafka-oauth.json;
- kafka_exporter (danielqsj/kafka_exporter, kafka_exporter_overview.json, January 2026).

Strimzi's other dashboards are about other programs: Cruise Control, the bridge, Connect,
MirrorMaker and the operators. Their series are not of brokers.
"""

from dataclasses import dataclass
from typing import Final

# A scrape of Kubernetes adds these labels to all series of a pod; a broker does not know them.
POD: Final = {
    "namespace": "kafka",
    "strimzi_io_cluster": "orders",
    "strimzi_io_name": "orders-kafka",
    "container": "kafka",
}
POD_NAME: Final = "kubernetes_pod_name"

# Of a Java process, of Kubernetes, of KRaft and of Strimzi's own log-in: brokers of Odradek have no
# such thing.
LEFT_OUT: Final = frozenset(
    {
        "container_cpu_usage_seconds_total",
        "container_memory_usage_bytes",
        "jvm_gc_collection_seconds_count",
        "jvm_gc_collection_seconds_sum",
        "jvm_memory_used_bytes",
        "jvm_threads_current",
        "kubelet_volume_stats_available_bytes",
        "kafka_server_raftchannelmetrics_incoming_byte_total",
        "kafka_server_raftchannelmetrics_outgoing_byte_total",
        "kafka_server_raftchannelmetrics_request_total",
        "kafka_server_raftchannelmetrics_response_total",
        "kafka_server_raftmetrics_append_records_rate",
        "kafka_server_raftmetrics_commit_latency_avg",
        "kafka_server_raftmetrics_current_epoch",
        "kafka_server_raftmetrics_current_leader",
        "kafka_server_raftmetrics_current_state",
        "kafka_server_raftmetrics_current_vote",
        "kafka_server_raftmetrics_fetch_records_rate",
        "kafka_server_raftmetrics_high_watermark",
        "kafka_server_raftmetrics_log_end_offset",
        "strimzi_oauth_http_requests_count_total",
        "strimzi_oauth_http_requests_totaltimems_total",
        "strimzi_oauth_validation_requests_count_total",
        "strimzi_oauth_validation_requests_totaltimems_total",
    }
)


@dataclass(frozen=True)
class Shown:
    """A series that a dashboard shows. `of` are its own labels that the dashboard selects by,
    `by` those that it adds up by, and `through` is the function over time, if there is one."""

    series: str
    of: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    through: str = ""

    def expression(self, from_scrape: tuple[str, ...]) -> str:
        """Returns the expression as Grafana sends it when everything is chosen. `from_scrape` are
        the labels of the scrape that the dashboard selects by."""
        selected = ",".join(f'{label}=~".+"' for label in (*self.of, *from_scrape))
        found = f"{self.series}{{{selected}}}"
        if self.through:
            found = f"{self.through}({found}[5m])"
        return f"sum by ({','.join(self.by)}) ({found})"


_KUBERNETES: Final = ("namespace", "strimzi_io_cluster", POD_NAME)
_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")
_GROUP: Final = ("consumergroup", "topic")
_GROUP_PARTITION: Final = ("consumergroup", "topic", "partition")
_POD: Final = (POD_NAME,)
_PER_TOPIC: Final = "kafka_server_brokertopicmetrics_"

STRIMZI_KAFKA: Final = (
    Shown("kafka_server_replicamanager_leadercount"),
    Shown("kafka_controller_kafkacontroller_activecontrollercount"),
    Shown("kafka_controller_controllerstats_uncleanleaderelections_total", through="irate"),
    Shown("kafka_server_replicamanager_partitioncount"),
    Shown("kafka_server_replicamanager_underreplicatedpartitions"),
    Shown("kafka_cluster_partition_atminisr"),
    Shown("kafka_cluster_partition_underminisr"),
    Shown("kafka_cluster_partition_replicascount", by=_TOPIC),
    Shown("kafka_controller_kafkacontroller_offlinepartitionscount"),
    Shown("process_open_fds", ("container",), _POD),
    Shown(f"{_PER_TOPIC}bytesin_total", _TOPIC, through="irate"),
    Shown(f"{_PER_TOPIC}bytesout_total", _TOPIC, through="irate"),
    Shown(f"{_PER_TOPIC}messagesin_total", _TOPIC, through="irate"),
    Shown(f"{_PER_TOPIC}totalproducerequests_total", _TOPIC, through="irate"),
    Shown(f"{_PER_TOPIC}failedproducerequests_total", _TOPIC, through="irate"),
    Shown(f"{_PER_TOPIC}totalfetchrequests_total", _TOPIC, through="irate"),
    Shown(f"{_PER_TOPIC}failedfetchrequests_total", _TOPIC, through="irate"),
    Shown("kafka_network_socketserver_networkprocessoravgidle_percent", by=_POD),
    Shown("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", by=_POD),
    Shown("kafka_server_kafkaserver_linux_disk_write_bytes", by=_POD, through="irate"),
    Shown("kafka_server_kafkaserver_linux_disk_read_bytes", by=_POD, through="irate"),
    Shown("kafka_server_socket_server_metrics_connection_count", by=(*_POD, "listener")),
    Shown("kafka_log_log_size", _PARTITION, (*_POD, *_PARTITION)),
)
STRIMZI_EXPORTER: Final = (
    Shown("kafka_broker_info"),
    Shown("kafka_topic_partitions", _TOPIC, _TOPIC),
    Shown("kafka_topic_partition_replicas", _TOPIC),
    Shown("kafka_topic_partition_in_sync_replica", _TOPIC),
    Shown("kafka_topic_partition_under_replicated_partition", _TOPIC),
    Shown("kafka_cluster_partition_atminisr", _TOPIC),
    Shown("kafka_cluster_partition_underminisr", _TOPIC),
    Shown("kafka_topic_partition_leader_is_preferred", _TOPIC),
    Shown("kafka_topic_partition_current_offset", _TOPIC, _TOPIC, "rate"),
    Shown("kafka_topic_partition_current_offset", _TOPIC, _PARTITION),
    Shown("kafka_topic_partition_oldest_offset", _TOPIC, _PARTITION),
    Shown("kafka_consumergroup_current_offset", _GROUP, _GROUP, "delta"),
    Shown("kafka_consumergroup_current_offset", _GROUP, _GROUP_PARTITION),
    Shown("kafka_consumergroup_lag", _GROUP, _GROUP),
    Shown("kafka_consumergroup_lag", _GROUP, _GROUP_PARTITION),
)
KAFKA_EXPORTER: Final = (
    Shown("kafka_topic_partition_current_offset", _TOPIC, _TOPIC, "rate"),
    Shown("kafka_topic_partition_current_offset", _TOPIC, _TOPIC, "delta"),
    Shown("kafka_consumergroup_lag", _TOPIC, _GROUP),
    Shown("kafka_consumergroup_current_offset", _TOPIC, _GROUP, "delta"),
    Shown("kafka_topic_partitions", _TOPIC, _TOPIC),
)

# By dashboard: the labels of the scrape that it selects by, and what it shows.
DASHBOARDS: Final[dict[str, tuple[tuple[str, ...], tuple[Shown, ...]]]] = {
    "strimzi-kafka": (_KUBERNETES, STRIMZI_KAFKA),
    "strimzi-kafka-exporter": (("namespace", "strimzi_io_cluster"), STRIMZI_EXPORTER),
    "strimzi-kraft": (_KUBERNETES, (Shown("process_open_fds", ("container",), _POD),)),
    "strimzi-kafka-oauth": (_KUBERNETES, (Shown("kafka_server_replicamanager_leadercount"),)),
    "kafka-exporter-overview": (("job", "instance"), KAFKA_EXPORTER),
}
