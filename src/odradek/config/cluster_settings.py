"""Settings of a broker's place in the cluster: identity, metadata store, replication, rights."""

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
        raise InvalidValue(f"other classes are not loaded; it takes {' or '.join(_SELECTORS)}")
    return text or None


class ClusterSettings(Settings):
    node_id = integer(
        "node.id",
        1,
        "The number of this broker, unlike that of any other in the cluster. On ZooKeeper it may be"
        " left out or -1: then the broker is given one.",
        at_least=0,
        besides=-1,
        importance=Importance.HIGH,
        also=("broker.id",),
    )
    broker_id_generation_enable = boolean(
        "broker.id.generation.enable",
        True,
        "Give a broker on ZooKeeper that has no id the next one above reserved.broker.max.id; it is"
        " kept in meta.properties of its log directories.",
    )
    reserved_broker_max_id = integer(
        "reserved.broker.max.id",
        1000,
        "The highest id that is never given to a broker without one.",
        at_least=0,
    )
    broker_rack = string(
        "broker.rack",
        None,
        "Where this broker stands: replicas of a partition are spread over racks.",
    )
    odradek_metadata_store = string(
        "odradek.metadata.store",
        "sqlite",
        "What keeps topics, settings and leadership: sqlite (a file of this broker), socket (a"
        " service that the brokers of a machine share), zookeeper (an ensemble; the default if"
        " zookeeper.connect is set), memory (gone at the end).",
        choices=("sqlite", "socket", "zookeeper", "memory"),
        importance=Importance.HIGH,
    )
    odradek_metadata_path = string(
        "odradek.metadata.path",
        None,
        "The file of the sqlite store, or the Unix socket of the service; metadata.sqlite in the"
        " first log directory if unset.",
        importance=Importance.HIGH,
    )
    zookeeper_connect = string(
        "zookeeper.connect",
        None,
        "The ensemble, as host:2181,other:2181/chroot. It chooses the ZooKeeper store unless"
        " odradek.metadata.store says otherwise.",
        importance=Importance.HIGH,
    )
    zookeeper_connection_timeout_ms = integer(
        "zookeeper.connection.timeout.ms",
        None,
        "How long a broker that starts waits for ZooKeeper; zookeeper.session.timeout.ms if unset.",
        at_least=1,
    )
    zookeeper_session_timeout_ms = integer(
        "zookeeper.session.timeout.ms",
        18_000,
        "How long ZooKeeper waits for a silent broker before it counts as gone.",
        at_least=100,
    )
    odradek_metadata_session_timeout_ms = integer(
        "odradek.metadata.session.timeout.ms",
        3_000,
        "How long the service of a machine waits for a silent broker before it counts as gone.",
        at_least=100,
    )
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        "Replicas of a topic that is created without a number of its own.",
        at_least=1,
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "A follower that was not caught up for this long leaves the in-sync set.",
        at_least=1,
        importance=Importance.HIGH,
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        1024 * 1024,
        "How many bytes a follower fetches from one partition at a time.",
        at_least=0,
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "How long a leader holds a follower's fetch that it has nothing for.",
        at_least=0,
        importance=Importance.HIGH,
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        "How many bytes a follower's fetch waits for.",
        at_least=0,
        importance=Importance.HIGH,
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * 1024 * 1024,
        "How many bytes a follower fetches at a time over all partitions.",
        at_least=0,
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        1000,
        "How long a follower waits after a failed fetch.",
        at_least=0,
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for its leader's answer.",
        at_least=1,
        importance=Importance.HIGH,
    )
    replica_socket_receive_buffer_bytes = integer(
        "replica.socket.receive.buffer.bytes",
        -1,
        "SO_RCVBUF of sockets to other brokers; -1 leaves it to the operating system.",
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
        "How a consumer's nearest replica is found: Kafka's RackAwareReplicaSelector lets it read"
        " from a follower in its rack, LeaderSelector and nothing from leaders only.",
        read=_read_selector,
        takes=" or ".join(_SELECTORS),
    )
    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "How many connections a follower opens to one leader.",
        at_least=1,
        importance=Importance.HIGH,
    )
    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Give leadership back to preferred replicas from time to time.",
        importance=Importance.HIGH,
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the balance of leaders is looked at.",
        at_least=1,
        importance=Importance.HIGH,
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        10,
        "How far leadership may be from preferred before it is moved.",
        at_least=0,
        importance=Importance.HIGH,
    )
    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        MAX_LONG,
        "Bytes a second this broker sends to throttled replicas.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        MAX_LONG,
        "Bytes a second this broker fetches for throttled replicas.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = without_effect(
        "replicas do not move between log directories",
        long(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            MAX_LONG,
            "Bytes a second that moving replicas between log directories may take.",
            at_least=0,
        ),
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable",
        True,
        "Move leadership to other brokers before stopping.",
    )
    controlled_shutdown_max_retries = integer(
        "controlled.shutdown.max.retries",
        3,
        "How often an orderly stop is tried again if the metadata store did not answer.",
        at_least=0,
    )
    controlled_shutdown_retry_backoff_ms = long(
        "controlled.shutdown.retry.backoff.ms",
        5000,
        "How long to wait between two attempts at an orderly stop.",
        at_least=0,
    )
    authorizer_class_name = string(
        "authorizer.class.name",
        "",
        "Who decides what clients may do: the name of Kafka's StandardAuthorizer stands for"
        " Odradek's own, which follows access rules; module:Class is one in Python. Empty:"
        " everybody may do everything.",
    )
    super_users = string(
        "super.users",
        "",
        "Principals that may do everything, separated by semicolons, as in User:admin. Brokers"
        " need it for each other, or ClusterAction on the cluster.",
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "With access control on: whether a resource without rules is open to everyone.",
    )
