"""Settings of a broker's place in the cluster: identity, metadata store, replication,
authorization."""

from typing import Final

from odradek.config.kinds import boolean, integer, long, string
from odradek.config.setting import (
    MAX_LONG,
    Importance,
    Kind,
    Scope,
    Setting,
    Settings,
    without_effect,
)
from odradek.config.values import InvalidValue

_SELECTORS: Final = ("RackAwareReplicaSelector", "LeaderSelector")


def _read_selector(text: str) -> str | None:
    if text and text.rpartition(".")[2] not in _SELECTORS:
        raise InvalidValue(f"must be {' or '.join(_SELECTORS)}; other classes cannot be loaded")
    return text or None


class ClusterSettings(Settings):
    node_id = integer(
        "node.id",
        1,
        "The id of this broker. It must be unique in the cluster. A broker on ZooKeeper may leave "
        "it out or set it to -1: it then gets a generated id.",
        at_least=0,
        extra_value=-1,
        importance=Importance.HIGH,
        aliases=("broker.id",),
    )
    broker_id_generation_enable = boolean(
        "broker.id.generation.enable",
        True,
        "Generate an id for a broker on ZooKeeper that has none. Generated ids are above "
        "reserved.broker.max.id and are stored in meta.properties of each log directory.",
    )
    reserved_broker_max_id = integer(
        "reserved.broker.max.id",
        1000,
        "The largest id that may be set by hand. Generated broker ids are above it.",
        at_least=0,
    )
    broker_rack = string(
        "broker.rack",
        None,
        "The rack of this broker. The replicas of a partition are spread over racks.",
    )
    odradek_metadata_store = string(
        "odradek.metadata.store",
        "sqlite",
        "Where the metadata of the cluster (topics, settings, leaders) is stored: sqlite (a file "
        "of this broker, for a cluster of one broker), socket (a service that all brokers of one "
        "host share), zookeeper (an ensemble; the default if zookeeper.connect is set) or memory "
        "(lost when the broker stops).",
        choices=("sqlite", "socket", "zookeeper", "memory"),
        importance=Importance.HIGH,
    )
    odradek_metadata_path = string(
        "odradek.metadata.path",
        None,
        "The file of the sqlite store, or the Unix socket of the metadata service (store socket). "
        "If unset: metadata.sqlite in the first log directory.",
        importance=Importance.HIGH,
    )
    zookeeper_connect = string(
        "zookeeper.connect",
        None,
        "The servers of the ZooKeeper ensemble, as in host1:2181,host2:2181/chroot. If it is set, "
        "metadata is stored in ZooKeeper, unless odradek.metadata.store is set too.",
        importance=Importance.HIGH,
    )
    zookeeper_connection_timeout_ms = integer(
        "zookeeper.connection.timeout.ms",
        None,
        "How long the broker waits at start until it is connected to ZooKeeper. If unset: "
        "zookeeper.session.timeout.ms.",
        at_least=1,
    )
    zookeeper_session_timeout_ms = integer(
        "zookeeper.session.timeout.ms",
        18_000,
        "The session timeout with ZooKeeper. A broker from which ZooKeeper hears nothing for this "
        "long is considered dead.",
        at_least=100,
    )
    odradek_metadata_session_timeout_ms = integer(
        "odradek.metadata.session.timeout.ms",
        3_000,
        "The session timeout with the metadata service (store socket). A broker from which the "
        "service hears nothing for this long is considered dead.",
        at_least=100,
    )
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        "The replication factor of topics that are created without one, also of topics that are "
        "created automatically.",
        at_least=1,
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "A follower that has not caught up with the log end offset of the leader for this long is "
        "removed from the ISR.",
        at_least=1,
        importance=Importance.HIGH,
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        1024 * 1024,
        "The number of bytes that a follower tries to fetch for each partition. It is not an "
        "absolute maximum: a larger batch is returned as a whole.",
        at_least=0,
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "The longest time that a leader delays the response to a fetch of a follower while fewer "
        "than replica.fetch.min.bytes are available.",
        at_least=0,
        importance=Importance.HIGH,
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        "The number of bytes that a leader waits for, at most replica.fetch.wait.max.ms, before "
        "it responds to a fetch of a follower.",
        at_least=0,
        importance=Importance.HIGH,
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * 1024 * 1024,
        "The number of bytes that a follower tries to fetch in one request, over all partitions. "
        "It is not an absolute maximum: a larger first batch is returned as a whole.",
        at_least=0,
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        1000,
        "The longest time that a follower waits before it repeats a failed fetch. The first waits "
        "are shorter.",
        at_least=0,
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for the response of the leader, in addition to "
        "replica.fetch.wait.max.ms.",
        at_least=1,
        importance=Importance.HIGH,
    )
    replica_socket_receive_buffer_bytes = integer(
        "replica.socket.receive.buffer.bytes",
        -1,
        "The size of the socket receive buffer (SO_RCVBUF) of connections to other brokers. -1: "
        "the default of the operating system.",
        at_least=-1,
        importance=Importance.HIGH,
    )
    replica_high_watermark_checkpoint_interval_ms = without_effect(
        "high watermarks are written at log.flush.offset.checkpoint.interval.ms",
        long(
            "replica.high.watermark.checkpoint.interval.ms",
            5000,
            "How often high watermarks are written to disk.",
            at_least=1,
            importance=Importance.HIGH,
        ),
    )
    replica_selector_class: Setting[str | None] = Setting(
        "replica.selector.class",
        Kind.STRING,
        None,
        "From which replica consumers read. With Kafka's RackAwareReplicaSelector, a consumer may "
        "read from a follower in its own rack. With LeaderSelector, or if this is unset, "
        "consumers read from leaders only.",
        read=_read_selector,
        expected=" or ".join(_SELECTORS),
    )
    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "The number of connections over which a broker fetches from each other broker. The "
        "partitions are divided among them.",
        at_least=1,
        importance=Importance.HIGH,
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Move leadership back to the preferred replicas at regular intervals "
        "(leader.imbalance.check.interval.seconds).",
        importance=Importance.HIGH,
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller checks whether leadership must be moved back to preferred "
        "replicas.",
        at_least=1,
        importance=Importance.HIGH,
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        10,
        "The percentage of the partitions with this broker as preferred replica that other "
        "brokers may lead. If it is exceeded, leadership is moved back.",
        at_least=0,
        importance=Importance.HIGH,
    )
    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        MAX_LONG,
        "The maximum rate, in bytes a second, at which this broker sends the data of throttled "
        "replicas to followers. See leader.replication.throttled.replicas.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        MAX_LONG,
        "The maximum rate, in bytes a second, at which this broker fetches the data of throttled "
        "replicas from leaders. See follower.replication.throttled.replicas.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = without_effect(
        "replicas do not move between log directories",
        long(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            MAX_LONG,
            "The maximum rate, in bytes a second, at which replicas are moved between log "
            "directories.",
            at_least=0,
        ),
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable",
        True,
        "Move leadership to other brokers before the broker stops (controlled shutdown).",
    )
    controlled_shutdown_max_retries = integer(
        "controlled.shutdown.max.retries",
        3,
        "How many times a controlled shutdown is retried if the metadata store did not respond.",
        at_least=0,
    )
    controlled_shutdown_retry_backoff_ms = long(
        "controlled.shutdown.retry.backoff.ms",
        5000,
        "How long the broker waits before it retries a controlled shutdown.",
        at_least=0,
    )
    authorizer_class_name = string(
        "authorizer.class.name",
        "",
        "The authorizer. org.apache.kafka.metadata.authorizer.StandardAuthorizer selects "
        "Odradek's own, which uses ACLs; `module:Class` loads a Python class. Empty: no "
        "authorization, every client may do everything.",
    )
    super_users = string(
        "super.users",
        "",
        "Principals that are allowed everything, separated by semicolons, as in "
        "User:admin;User:backup. The principal of the brokers must be listed here, or have an ACL "
        "for ClusterAction on the cluster.",
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether every client may access a resource that has no ACLs. It has an effect only if an "
        "authorizer is set.",
    )
