"""The settings of each client as typed keyword arguments; generated, so do not edit it.

`python -m odradek.client.settings.reference src/odradek/client/settings/options.py` writes it from
the declarations beside it.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypedDict

from odradek.client.group.assignors import Assignor
from odradek.client.producer.partitioners import PartitionChoice
from odradek.client.serialization import Deserializer, Serializer


class ClientOptions(TypedDict, total=False):
    bootstrap_servers: str | tuple[str, ...] | list[str]
    """Brokers to learn the cluster from: host:port, several with commas or as a list."""
    client_id: str
    """The name brokers write in their logs and use for quotas."""
    security_protocol: Literal["PLAINTEXT"]
    """How to talk to brokers; PLAINTEXT is what there is so far."""
    request_timeout_ms: int
    """How long to wait for a broker's answer before the connection is given up."""
    connections_max_idle_ms: int
    """Close a connection that was not used for this long; -1 keeps it."""
    socket_connection_setup_timeout_ms: int
    """How long a connection may take to be made."""
    socket_connection_setup_timeout_max_ms: int
    """The most that socket.connection.setup.timeout.ms grows to after failures."""
    send_buffer_bytes: int
    """SO_SNDBUF of connections; -1 leaves it to the operating system."""
    receive_buffer_bytes: int
    """SO_RCVBUF of connections; -1 leaves it to the operating system."""
    reconnect_backoff_ms: int
    """How long to wait before connecting again."""
    reconnect_backoff_max_ms: int
    """The most that reconnect.backoff.ms grows to: it doubles with every failure."""
    retry_backoff_ms: int
    """How long to wait before a failed request is sent again."""
    retry_backoff_max_ms: int
    """The most that retry.backoff.ms grows to: it doubles with every failure."""
    metadata_max_age_ms: int
    """Refresh what is known of the cluster after this long, changes or not."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """When no known broker answers: rebootstrap starts again from bootstrap.servers."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """Start again from bootstrap.servers when metadata failed for this long."""


class ProducerOptions(ClientOptions, total=False):
    key_serializer: Serializer | str | None
    """Turns a key into bytes: a function, a class as module:Class, or string, integer, long,
    short, float, double, json, bytes."""
    value_serializer: Serializer | str | None
    """Turns a value into bytes: a function, a class as module:Class, or string, integer, long,
    short, float, double, json, bytes."""
    acks: Literal["all", "-1", "0", "1", -1, 0, 1]
    """Which replicas must have a record before it is acknowledged: all in sync, 1 the leader, 0
    none."""
    batch_size: int
    """Records for one partition are sent together up to this many bytes."""
    linger_ms: int
    """How long a batch that is not full waits for more records."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """How batches are compressed."""
    compression_gzip_level: int
    """1 (fast) to 9 (small); -1 is the usual one."""
    compression_lz4_level: int
    """1 (fast) to 17 (small)."""
    compression_zstd_level: int
    """-131072 (fast) to 22 (small)."""
    max_request_size: int
    """The most bytes in one request; a record must fit in it, uncompressed."""
    buffer_memory: int
    """The most bytes of records that wait to be acknowledged; then send() waits."""
    max_block_ms: int
    """How long send() waits for room in the buffer or for a topic's metadata."""
    delivery_timeout_ms: int
    """A record that is not acknowledged after this long has failed."""
    retries: int
    """How often a failed batch is sent again, within delivery.timeout.ms."""
    enable_idempotence: bool
    """Retries write no record twice, and the order holds."""
    max_in_flight_requests_per_connection: int
    """How many requests may wait for an answer on one connection."""
    partitioner_class: PartitionChoice
    """Where records go: default (by key, else sticky), round_robin, a function, or a class as
    module:Class."""
    partitioner_ignore_keys: bool
    """Choose the partition as if there were no key."""
    enable_metrics_push: bool
    """Push metrics of this client to a broker that asks for them (KIP-714)."""
    interceptor_classes: str | tuple[Any, ...] | list[Any]
    """Classes with on_send and on_acknowledgement, as module:Class, several with commas."""
    metadata_max_idle_ms: int
    """Forget a topic that nothing was sent to for this long."""
    transactional_id: str | None
    """Identifies the producer across restarts: a new one fences the older one."""
    transaction_timeout_ms: int
    """How long a transaction may stay open."""


class ConsumerOptions(ClientOptions, total=False):
    key_deserializer: Deserializer | str | None
    """Turns bytes into a key: a function, a class as module:Class, or string, integer, long,
    short, float, double, json, bytes."""
    value_deserializer: Deserializer | str | None
    """Turns bytes into a value: a function, a class as module:Class, or string, integer, long,
    short, float, double, json, bytes."""
    enable_metrics_push: bool
    """Push metrics of this client to a broker that asks for them (KIP-714)."""
    interceptor_classes: str | tuple[Any, ...] | list[Any]
    """Classes with on_consume and on_commit, as module:Class, several with commas."""
    fetch_min_bytes: int
    """A broker answers a fetch once it has this many bytes, or fetch.max.wait.ms passed."""
    fetch_max_wait_ms: int
    """How long a broker waits for fetch.min.bytes."""
    fetch_max_bytes: int
    """The most bytes in one answer; a single larger batch still comes whole."""
    max_partition_fetch_bytes: int
    """The most bytes of one partition in an answer; a larger batch still comes whole."""
    max_poll_records: int
    """The most records poll() returns at once."""
    auto_offset_reset: str
    """Where to start without a valid position: earliest, latest, none (raise), or by_duration:PT1H
    (that long ago)."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed hides the records of open and aborted transactions."""
    check_crcs: bool
    """Check the checksum of what was fetched."""
    client_rack: str
    """Where this client runs: brokers may name a closer replica."""
    allow_auto_create_topics: bool
    """Reading from a topic may create it, if the broker allows that too. Kafka's default is true,
    which makes a topic of each misspelt name."""
    default_api_timeout_ms: int
    """How long a call such as end_offsets() may take, its retries included."""
    group_id: str | None
    """The group whose members share the work and the offsets."""
    group_instance_id: str | None
    """A name that stays across restarts: a restart within session.timeout.ms moves nothing."""
    group_protocol: Literal["classic", "consumer"]
    """classic: the members' leader assigns; consumer: the broker does (KIP-848)."""
    group_remote_assignor: str | None
    """With group.protocol=consumer, the broker's assignor: uniform or range."""
    partition_assignment_strategy: tuple[Assignor, ...] | Iterable[Assignor | str] | str
    """How partitions are shared: range, roundrobin, sticky, cooperative-sticky, or your own as an
    object or module:Class."""
    session_timeout_ms: int
    """A member that is silent for this long is taken out of the group."""
    heartbeat_interval_ms: int
    """How often a member says that it is alive; below session.timeout.ms."""
    max_poll_interval_ms: int
    """A member that does not poll() for this long leaves the group."""
    enable_auto_commit: bool
    """With a group.id, poll() commits what earlier polls returned, now and then."""
    auto_commit_interval_ms: int
    """How often poll() commits by itself."""
    exclude_internal_topics: bool
    """A pattern does not match the topics that brokers keep for themselves."""


class AdminOptions(ClientOptions, total=False):
    default_api_timeout_ms: int
    """How long a whole call may take, its retries included."""
    retries: int
    """How often a failed request is sent again."""
