"""The controller, the broker's place in the cluster, and its coordinators."""

from odradek.telemetry.declarations import Served, counter, gauge, summary

_CONTROLLER = "kafka.controller:type=KafkaController"
_STATS = "kafka.controller:type=ControllerStats"
_GROUPS = "kafka.coordinator.group:type=GroupMetadataManager"

ACTIVE_CONTROLLERS = gauge(
    "kafka_controller_kafkacontroller_activecontrollercount",
    "1 on the active controller, 0 on the other brokers. The sum over all brokers should be 1.",
    f"{_CONTROLLER},name=ActiveControllerCount",
)
OFFLINE_PARTITIONS = gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "Partitions without a live leader. Should be 0.",
    f"{_CONTROLLER},name=OfflinePartitionsCount",
    served=Served.CONTROLLER,
)
IMBALANCE = gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "Partitions that are not led by their preferred leader.",
    f"{_CONTROLLER},name=PreferredReplicaImbalanceCount",
    served=Served.CONTROLLER,
)
GLOBAL_TOPICS = gauge(
    "kafka_controller_kafkacontroller_globaltopiccount",
    "Topics of the cluster.",
    f"{_CONTROLLER},name=GlobalTopicCount",
    served=Served.CONTROLLER,
)
GLOBAL_PARTITIONS = gauge(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "Partitions of the cluster.",
    f"{_CONTROLLER},name=GlobalPartitionCount",
    served=Served.CONTROLLER,
)
TOPICS_TO_DELETE = gauge(
    "kafka_controller_kafkacontroller_topicstodeletecount",
    "Topics whose deletion is under way.",
    f"{_CONTROLLER},name=TopicsToDeleteCount",
    served=Served.CONTROLLER,
)
ACTIVE_BROKERS = gauge(
    "kafka_controller_kafkacontroller_activebrokercount",
    "Live brokers.",
    f"{_CONTROLLER},name=ActiveBrokerCount",
    served=Served.CONTROLLER,
)
UNCLEAN_ELECTIONS = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Elections of a leader that was not in sync, which may have lost records, made by this broker "
    "while it was the controller. Should be 0.",
    f"{_STATS},name=UncleanLeaderElectionsPerSec",
)
ELECTIONS = summary(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "Elections of leaders that this broker made while it was the controller, and for how long each "
    "partition had no live leader before, in milliseconds.",
    f"{_STATS},name=LeaderElectionRateAndTimeMs",
)
BROKER_STATE = gauge(
    "kafka_server_kafkaserver_brokerstate",
    "Always 3: the broker runs. While it starts or stops there are no metrics; /status tells.",
    "kafka.server:type=KafkaServer,name=BrokerState",
)
REGISTERED = gauge(
    "odradek_broker_registered",
    "1 while the broker's session with the metadata store is certainly alive, so that it may lead.",
)
READY = gauge("odradek_broker_ready", "1 if /readyz answers that the broker is ready.")
REGISTRATIONS = counter(
    "odradek_broker_registrations_total",
    "Registrations of this run of the broker. More than one: its session with the metadata store "
    "expired.",
)
BUILD_INFO = gauge("odradek_build_info", "Always 1. The version is a label.", labels=("version",))

GROUPS = gauge(
    "kafka_coordinator_group_groupmetadatamanager_numgroups",
    "Groups that this broker coordinates.",
    f"{_GROUPS},name=NumGroups",
)
GROUP_OFFSETS = gauge(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    "Committed offsets of those groups.",
    f"{_GROUPS},name=NumOffsets",
)
GROUPS_BY_STATE = gauge(
    "odradek_group_coordinator_groups",
    "Groups that this broker coordinates, by protocol and state.",
    labels=("protocol", "state"),
)
TRANSACTIONAL_IDS = gauge(
    "odradek_transaction_coordinator_transactional_ids",
    "Transactional ids that this broker coordinates.",
)
