"""Replicas of this broker: leadership, in-sync replicas, followers."""

from odradek.telemetry.declarations import Served, counter, gauge

_MANAGER = "kafka.server:type=ReplicaManager"
_PARTITION = "kafka.cluster:type=Partition"
_LABELS = ("topic", "partition")

PARTITIONS = gauge(
    "kafka_server_replicamanager_partitioncount",
    "Replicas on this broker.",
    f"{_MANAGER},name=PartitionCount",
)
LEADERS = gauge(
    "kafka_server_replicamanager_leadercount",
    "Partitions that this broker leads.",
    f"{_MANAGER},name=LeaderCount",
)
OFFLINE_REPLICAS = gauge(
    "kafka_server_replicamanager_offlinereplicacount",
    "Replicas on this broker whose log cannot be used.",
    f"{_MANAGER},name=OfflineReplicaCount",
)
UNDER_REPLICATED = gauge(
    "kafka_server_replicamanager_underreplicatedpartitions",
    "Partitions led here of which a replica is not in sync. Should be 0.",
    f"{_MANAGER},name=UnderReplicatedPartitions",
)
UNDER_MIN_ISR = gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Partitions led here with fewer in-sync replicas than min.insync.replicas: acks=all is "
    "refused. Should be 0.",
    f"{_MANAGER},name=UnderMinIsrPartitionCount",
)
AT_MIN_ISR = gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Partitions led here with just as many in-sync replicas as min.insync.replicas.",
    f"{_MANAGER},name=AtMinIsrPartitionCount",
)
REASSIGNING = gauge(
    "kafka_server_replicamanager_reassigningpartitions",
    "Partitions led here that are being reassigned.",
    f"{_MANAGER},name=ReassigningPartitions",
)
ISR_SHRINKS = counter(
    "kafka_server_replicamanager_isrshrinks_total",
    "How often a replica left the ISR of a partition led here.",
    f"{_MANAGER},name=IsrShrinksPerSec",
)
ISR_EXPANDS = counter(
    "kafka_server_replicamanager_isrexpands_total",
    "How often a replica joined the ISR of a partition led here.",
    f"{_MANAGER},name=IsrExpandsPerSec",
)
FAILED_ISR_UPDATES = counter(
    "kafka_server_replicamanager_failedisrupdates_total",
    "Changes of an ISR that the metadata store refused, or whose outcome was unknown.",
    f"{_MANAGER},name=FailedIsrUpdatesPerSec",
)

PARTITION_UNDER_REPLICATED = gauge(
    "kafka_cluster_partition_underreplicated",
    "1 if a replica of the partition is not in sync.",
    f"{_PARTITION},name=UnderReplicated",
    _LABELS,
    served=Served.LEADER,
)
PARTITION_UNDER_MIN_ISR = gauge(
    "kafka_cluster_partition_underminisr",
    "1 if the partition has fewer in-sync replicas than min.insync.replicas.",
    f"{_PARTITION},name=UnderMinIsr",
    _LABELS,
    served=Served.LEADER,
)
PARTITION_AT_MIN_ISR = gauge(
    "kafka_cluster_partition_atminisr",
    "1 if the partition has just as many in-sync replicas as min.insync.replicas.",
    f"{_PARTITION},name=AtMinIsr",
    _LABELS,
    served=Served.LEADER,
)
PARTITION_IN_SYNC = gauge(
    "kafka_cluster_partition_insyncreplicascount",
    "In-sync replicas of the partition.",
    f"{_PARTITION},name=InSyncReplicasCount",
    _LABELS,
    served=Served.LEADER,
)
PARTITION_REPLICAS = gauge(
    "kafka_cluster_partition_replicascount",
    "Replicas of the partition.",
    f"{_PARTITION},name=ReplicasCount",
    _LABELS,
    served=Served.LEADER,
)
PARTITION_STABLE_LAG = gauge(
    "kafka_cluster_partition_laststableoffsetlag",
    "Records between the last stable offset and the high watermark: they belong to open "
    "transactions or follow one.",
    f"{_PARTITION},name=LastStableOffsetLag",
    _LABELS,
    served=Served.LEADER,
)

MAX_LAG = gauge(
    "kafka_server_replicafetchermanager_maxlag",
    "The most records by which a follower on this broker is behind the high watermark that its "
    "leader has told it.",
    "kafka.server:type=ReplicaFetcherManager,name=MaxLag",
    ("clientId",),
)
FOLLOWER_LAG = gauge(
    "odradek_replica_lag_records",
    "The most records by which a follower of a partition led here is behind the leader.",
    labels=_LABELS,
    served=Served.LEADER,
)
