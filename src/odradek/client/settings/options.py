"""The settings of each client as typed keyword arguments; generated, so do not edit it.

`python -m odradek.client.settings.reference src/odradek/client/settings/options.py` writes it from
the declarations beside it.
"""

import ssl
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict

from odradek.client.group.assignors import Assignor
from odradek.client.producer.partitioners import PartitionChoice
from odradek.client.serialization import Deserializer, Serializer


class ClientOptions(TypedDict, total=False):
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """How to talk to brokers: with TLS (SSL), with a log-in (SASL_PLAINTEXT), with both
    (SASL_SSL), or with neither (PLAINTEXT)."""
    ssl_context: ssl.SSLContext | None
    """Of a program: an ssl.SSLContext that it has made, instead of all other ssl settings."""
    ssl_truststore_type: Literal["JKS", "PKCS12", "PEM"] | None
    """The format of the trust store: JKS, PKCS12 or PEM; unset: the file says itself."""
    ssl_truststore_location: str | None
    """The file with the certificates of the authorities that sign brokers' certificates; without
    one, those that the operating system trusts."""
    ssl_truststore_password: str | None
    """The password of the trust store; PEM has none."""
    ssl_truststore_certificates: str | None
    """Trusted certificates as PEM text, instead of a file."""
    ssl_keystore_type: Literal["JKS", "PKCS12", "PEM"] | None
    """The format of the key store: JKS, PKCS12 or PEM; unset: the file says itself."""
    ssl_keystore_location: str | None
    """The file with the client's own key and certificate, for brokers that ask for it."""
    ssl_keystore_password: str | None
    """The password of the key store; PEM has none."""
    ssl_keystore_key: str | None
    """The client's key as PEM text, instead of a file."""
    ssl_keystore_certificate_chain: str | None
    """The client's certificate and those of its issuers, as PEM text."""
    ssl_key_password: str | None
    """The password of the key itself, if it is encrypted."""
    ssl_enabled_protocols: str | tuple[str, ...] | list[str]
    """The versions of TLS to offer."""
    ssl_protocol: str
    """The newest version of TLS; ssl.enabled.protocols says which others there are."""
    ssl_cipher_suites: str | tuple[str, ...] | list[str] | None
    """The cipher suites to offer; unset: all secure ones."""
    ssl_endpoint_identification_algorithm: str
    """https checks that the certificate is for the host that was connected to; empty does not, so
    any holder of a trusted certificate can pretend to be the broker."""
    sasl_mechanism: str
    """How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or GSSAPI, which is
    Kerberos and needs the extra kerberos."""
    sasl_jaas_config: str | None
    """The log-in as Kafka writes it: LoginModule required username=... password=...;"""
    sasl_username: str | None
    """The user of PLAIN and SCRAM, if there is no sasl.jaas.config. librdkafka has it too."""
    sasl_password: str | None
    """The password of that user. librdkafka has it too."""
    sasl_kerberos_service_name: str | None
    """The first part of the Kerberos principal of the brokers, as in kafka/HOST@REALM."""
    sasl_kerberos_min_time_before_relogin: int
    """After a refused log-in by Kerberos the tickets are got anew; not sooner again than after
    this many milliseconds."""
    sasl_login_callback_handler_class: Callable[[], object] | object | None
    """A function that returns the OAUTHBEARER token, or its name as module:function."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """Where tokens are got by client credentials, or file:///path of a token."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The client id at the token endpoint; a JAAS line says clientId."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The secret at the token endpoint; a JAAS line says clientSecret."""
    sasl_oauthbearer_scope: str | None
    """The scope to ask for at the token endpoint."""
    sasl_oauthbearer_header_urlencode: bool
    """Encode client id and secret as in URLs, as RFC 6749 says; few servers want it."""
    sasl_login_connect_timeout_ms: int
    """How long to wait for a connection to the token endpoint."""
    sasl_login_read_timeout_ms: int
    """How long to wait for an answer of the token endpoint."""
    sasl_login_retry_backoff_ms: int
    """How long to wait before the token endpoint is asked again; it doubles each time."""
    sasl_login_retry_backoff_max_ms: int
    """The token endpoint is not asked again after a wait that would be longer than this."""
    sasl_login_refresh_window_factor: float
    """A new token is got when this part of the old one's lifetime is over."""
    bootstrap_servers: str | tuple[str, ...] | list[str]
    """Brokers to learn the cluster from: host:port, several with commas or as a list."""
    client_id: str
    """The name brokers write in their logs and use for quotas."""
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
    odradek_max_batch_bytes: int
    """How many bytes a compressed batch may become. A poll that comes to a larger one fails: a few
    kilobytes can be compressed zeros that fill the memory."""
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
