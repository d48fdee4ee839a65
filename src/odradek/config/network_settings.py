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
        "The listeners of the broker, as in NAME://host:port, separated by commas. An empty host "
        "means every network interface; port 0 means any free port.",
        scope=Scope.READ_ONLY,
    )
    advertised_listeners = advertised_listeners(
        "advertised.listeners",
        "The listeners that the broker tells to clients, if clients need other addresses than "
        "those in listeners.",
        scope=Scope.READ_ONLY,
    )
    listener_security_protocol_map = pairs(
        "listener.security.protocol.map",
        {protocol: protocol for protocol in SECURITY_PROTOCOLS},
        "The security protocol of each listener name, as NAME:PROTOCOL pairs.",
        read=parse_protocol_map,
        expected="NAME:PROTOCOL pairs separated by commas",
        scope=Scope.READ_ONLY,
    )
    inter_broker_listener_name = string(
        "inter.broker.listener.name",
        None,
        "The listener that brokers use for requests to each other. If unset: the first listener "
        "with the protocol in security.inter.broker.protocol, or else the first listener.",
    )
    security_inter_broker_protocol = string(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The security protocol that brokers use for requests to each other. It must not be set "
        "together with inter.broker.listener.name.",
        choices=SECURITY_PROTOCOLS,
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * 1024 * 1024,
        "The largest request that the broker accepts. It closes a connection on which a larger "
        "one arrives.",
        at_least=1,
        importance=Importance.HIGH,
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        100 * 1024,
        "The size of the socket send buffer (SO_SNDBUF) of connections with clients. -1: the "
        "default of the operating system.",
        at_least=-1,
        importance=Importance.HIGH,
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "The size of the socket receive buffer (SO_RCVBUF) of connections with clients. -1: the "
        "default of the operating system.",
        at_least=-1,
        importance=Importance.HIGH,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        1024,
        "The maximum number of connections that wait to be accepted on a listener. Kafka's "
        "default is 50; it is higher here because connections are accepted between requests, not "
        "by a thread of their own.",
        at_least=1,
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        600_000,
        "The broker closes a connection that was idle for this long. A negative value: never.",
    )
    max_connections = integer(
        "max.connections",
        MAX_INT,
        "The maximum number of connections of the broker, over all listeners.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        MAX_INT,
        "The maximum number of connections from one IP address.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = pairs(
        "max.connections.per.ip.overrides",
        {},
        "Limits for single IP addresses that replace max.connections.per.ip, as address:limit "
        "pairs.",
        read=parse_address_limits,
        expected="address:limit pairs separated by commas",
        scope=Scope.CLUSTER_WIDE,
    )
    max_connection_creation_rate = integer(
        "max.connection.creation.rate",
        MAX_INT,
        "The maximum number of new connections a second, over all listeners. Connections above "
        "the rate wait, except that a burst of one second's connections is served at once. With 0 "
        "every new connection waits forever, as in Kafka. The default means no limit.",
        at_least=0,
        scope=Scope.CLUSTER_WIDE,
    )
    queued_max_requests = integer(
        "queued.max.requests",
        500,
        "The number of connections with a request that waits to be handled. When it is reached, "
        "the broker stops reading requests from other connections.",
        at_least=1,
        importance=Importance.HIGH,
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        -1,
        "The number of bytes of requests in memory, including requests that are still being "
        "received. When it is reached, the broker stops reading large requests. 0 and -1 mean a "
        "quarter of the memory of the host or of the container.",
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        "How long the broker waits for the response of another broker.",
        at_least=0,
        importance=Importance.HIGH,
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * 1024 * 1024,
        "The maximum number of bytes in the response to a fetch, also if the client asks for "
        "more. It is not an absolute maximum: a larger first batch is returned as a whole.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "The maximum number of incremental fetch sessions that the broker keeps.",
        at_least=0,
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "The maximum number of partitions in one response to DescribeTopicPartitions.",
        at_least=1,
    )
