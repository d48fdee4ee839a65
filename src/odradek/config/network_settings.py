"""Settings of listeners, connections and requests."""

from odradek.config.kinds import integer, long, string
from odradek.config.listeners import (
    SECURITY_PROTOCOLS,
    Listener,
    advertised_listeners,
    listeners,
    pairs,
    parse_address_limits,
    parse_protocol_map,
)
from odradek.config.setting import MAX_INT, Importance, Scope, Settings


class NetworkSettings(Settings):
    listeners = listeners(
        "listeners",
        (Listener("PLAINTEXT", "", 9092),),
        "Where the broker listens: NAME://host:port, several separated by commas. An empty host "
        "means every address, port 0 any free one.",
        scope=Scope.READ_ONLY,
    )
    advertised_listeners = advertised_listeners(
        "advertised.listeners",
        "Where clients find the broker, if that differs from listeners.",
        scope=Scope.READ_ONLY,
    )
    listener_security_protocol_map = pairs(
        "listener.security.protocol.map",
        {protocol: protocol for protocol in SECURITY_PROTOCOLS},
        "Which security protocol each listener name stands for: NAME:PROTOCOL pairs.",
        read=parse_protocol_map,
        takes="NAME:PROTOCOL pairs separated by commas",
        scope=Scope.READ_ONLY,
    )
    inter_broker_listener_name = string(
        "inter.broker.listener.name",
        None,
        "The listener over which brokers talk to each other; the first one if unset.",
    )
    security_inter_broker_protocol = string(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The protocol between brokers where inter.broker.listener.name is not set.",
        choices=SECURITY_PROTOCOLS,
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * 1024 * 1024,
        "The largest request the broker reads; a longer one ends the connection.",
        at_least=1,
        importance=Importance.HIGH,
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        100 * 1024,
        "SO_SNDBUF of client sockets; -1 leaves it to the operating system.",
        at_least=-1,
        importance=Importance.HIGH,
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "SO_RCVBUF of client sockets; -1 leaves it to the operating system.",
        at_least=-1,
        importance=Importance.HIGH,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        1024,
        "How many connections may wait to be accepted. Kafka's default is 50: it has a thread that "
        "accepts, here they are accepted between requests.",
        at_least=1,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        "A connection on which nothing happened for this long is closed; negative means never.",
    )
    max_connections = integer(
        "max.connections",
        MAX_INT,
        "How many connections the broker holds at once.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        MAX_INT,
        "How many connections one address may hold.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = pairs(
        "max.connections.per.ip.overrides",
        {},
        "Addresses with another limit than max.connections.per.ip: address:limit pairs.",
        read=parse_address_limits,
        takes="address:limit pairs separated by commas",
        scope=Scope.CLUSTER_WIDE,
    )
    max_connection_creation_rate = integer(
        "max.connection.creation.rate",
        MAX_INT,
        "How many new connections a second the broker serves, on all listeners together. Those "
        "beyond wait; connections of one second may come at once. 0 lets all of them wait for "
        "ever, as in Kafka; only the default means that there is no limit.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    queued_max_requests = integer(
        "queued.max.requests",
        500,
        "How many connections may have a request that waits for its turn before the broker stops "
        "reading new ones.",
        at_least=1,
        importance=Importance.HIGH,
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        -1,
        "How many bytes of requests, unfinished ones included, the broker holds before it stops "
        "reading large ones; 0 and -1 mean a quarter of the memory of the machine or its "
        "container.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        "How long the broker waits for an answer of another broker.",
        at_least=0,
        importance=Importance.HIGH,
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * 1024 * 1024,
        "The most bytes one fetch answers with, whatever the client asks for.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many incremental fetch sessions the broker remembers.",
        at_least=0,
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "The most partitions one DescribeTopicPartitions page holds.",
        at_least=1,
    )
