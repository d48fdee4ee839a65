"""Series with the names of kafka_exporter, which asks a cluster from outside. Here each broker
serves those that it knows first hand, so that a sum over all brokers equals what kafka_exporter
shows."""

from odradek.telemetry.declarations import Served, gauge

_PARTITION = ("topic", "partition")
_GROUP = ("consumergroup", "topic", "partition")

BROKERS = gauge("kafka_brokers", "Live brokers of the cluster.", served=Served.CONTROLLER_ALONE)
BROKER_INFO = gauge(
    "kafka_broker_info",
    "Always 1. Id and address of each live broker are labels.",
    labels=("id", "address"),
    served=Served.CONTROLLER_ALONE,
)
TOPIC_PARTITIONS = gauge(
    "kafka_topic_partitions",
    "Partitions of the topic.",
    labels=("topic",),
    served=Served.CONTROLLER_ALONE,
)
CURRENT_OFFSET = gauge(
    "kafka_topic_partition_current_offset",
    "The high watermark of the partition.",
    labels=_PARTITION,
    served=Served.LEADER,
)
OLDEST_OFFSET = gauge(
    "kafka_topic_partition_oldest_offset",
    "The first offset of the partition that can be read.",
    labels=_PARTITION,
    served=Served.LEADER,
)
IN_SYNC_REPLICAS = gauge(
    "kafka_topic_partition_in_sync_replica",
    "In-sync replicas of the partition.",
    labels=_PARTITION,
    served=Served.LEADER,
)
LEADER = gauge(
    "kafka_topic_partition_leader",
    "The id of the broker that leads the partition; -1 if none does, which the controller serves.",
    labels=_PARTITION,
    served=Served.LEADER,
)
LEADER_IS_PREFERRED = gauge(
    "kafka_topic_partition_leader_is_preferred",
    "1 if the partition is led by its preferred leader.",
    labels=_PARTITION,
    served=Served.LEADER,
)
REPLICAS = gauge(
    "kafka_topic_partition_replicas",
    "Replicas of the partition.",
    labels=_PARTITION,
    served=Served.LEADER,
)
UNDER_REPLICATED = gauge(
    "kafka_topic_partition_under_replicated_partition",
    "1 if a replica of the partition is not in sync.",
    labels=_PARTITION,
    served=Served.LEADER,
)

GROUP_OFFSET = gauge(
    "kafka_consumergroup_current_offset",
    "The offset that the group has committed.",
    labels=_GROUP,
    served=Served.COORDINATOR,
)
GROUP_OFFSET_SUM = gauge(
    "kafka_consumergroup_current_offset_sum",
    "The sum of the offsets that the group has committed for the topic.",
    labels=("consumergroup", "topic"),
    served=Served.COORDINATOR,
)
GROUP_LAG = gauge(
    "kafka_consumergroup_lag",
    "Records between the committed offset of the group and the high watermark.",
    labels=_GROUP,
    served=Served.COORDINATOR,
)
GROUP_LAG_SUM = gauge(
    "kafka_consumergroup_lag_sum",
    "The sum of the lags of the group in the partitions of the topic.",
    labels=("consumergroup", "topic"),
    served=Served.COORDINATOR,
)
GROUP_LAG_SECONDS = gauge(
    "kafka_consumergroup_lag_seconds",
    "The age of the first record that the group has not read, in seconds; 0 if it has read all. "
    "By the record's timestamp, from the time index: older records to within index.interval.bytes.",
    labels=_GROUP,
    served=Served.COORDINATOR,
)
GROUP_MAX_LAG_SECONDS = gauge(
    "kafka_consumergroup_max_lag_seconds",
    "The highest lag in seconds of the group in any partition.",
    labels=("consumergroup",),
    served=Served.COORDINATOR,
)
GROUP_MEMBERS = gauge(
    "kafka_consumergroup_members",
    "Members of the group.",
    labels=("consumergroup",),
    served=Served.COORDINATOR,
)
