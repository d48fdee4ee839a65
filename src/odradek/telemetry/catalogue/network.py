"""Requests and connections.

A broker is one event loop, which reads requests, handles them and sends the responses. What Kafka
measures for its network threads and for its request handler threads is the same loop here.
"""

from odradek.telemetry.declarations import counter, gauge, summary

_REQUEST = "kafka.network:type=RequestMetrics"

REQUESTS = counter(
    "kafka_network_requestmetrics_requests_total",
    "Requests by API and version.",
    f"{_REQUEST},name=RequestsPerSec",
    ("request", "version"),
)
ERRORS = counter(
    "kafka_network_requestmetrics_errors_total",
    "Error codes in responses by API. NONE counts responses without an error. In a response with "
    "thousands of elements the first thousand are looked at.",
    f"{_REQUEST},name=ErrorsPerSec",
    ("request", "error"),
)
TOTAL_TIME = summary(
    "kafka_network_requestmetrics_totaltimems",
    "Time from the arrival of a request until its response is sent, in milliseconds. At most "
    "two hundred requests of an API are measured each second, and each of a client that sends few.",
    f"{_REQUEST},name=TotalTimeMs",
    ("request",),
)
QUEUE_TIME = summary(
    "kafka_network_requestmetrics_requestqueuetimems",
    "Time from the arrival of a request until its handler is called, in milliseconds.",
    f"{_REQUEST},name=RequestQueueTimeMs",
    ("request",),
)
LOCAL_TIME = summary(
    "kafka_network_requestmetrics_localtimems",
    "Time until the handler has answered or has to wait, in milliseconds.",
    f"{_REQUEST},name=LocalTimeMs",
    ("request",),
)
REMOTE_TIME = summary(
    "kafka_network_requestmetrics_remotetimems",
    "Time that the handler waits for others (replicas, new records, members of a group), in "
    "milliseconds.",
    f"{_REQUEST},name=RemoteTimeMs",
    ("request",),
)
RESPONSE_QUEUE_TIME = summary(
    "kafka_network_requestmetrics_responsequeuetimems",
    "Time that a finished response waits behind earlier ones of its connection, in milliseconds.",
    f"{_REQUEST},name=ResponseQueueTimeMs",
    ("request",),
)
SEND_TIME = summary(
    "kafka_network_requestmetrics_responsesendtimems",
    "Time to encode a response and to hand its last byte to the operating system, in milliseconds.",
    f"{_REQUEST},name=ResponseSendTimeMs",
    ("request",),
)
REQUEST_BYTES = summary(
    "kafka_network_requestmetrics_requestbytes",
    "Size of requests.",
    f"{_REQUEST},name=RequestBytes",
    ("request",),
)

QUEUED_REQUESTS = gauge(
    "kafka_network_requestchannel_requestqueuesize",
    "Requests that have arrived and are not served yet.",
    "kafka.network:type=RequestChannel,name=RequestQueueSize",
)
QUEUED_RESPONSES = gauge(
    "kafka_network_requestchannel_responsequeuesize",
    "Connections whose responses wait until the client reads.",
    "kafka.network:type=RequestChannel,name=ResponseQueueSize",
)
REQUEST_MEMORY = gauge(
    "odradek_network_request_memory_bytes",
    "Memory of requests that have arrived, in part or whole, or are being answered "
    "(queued.max.request.bytes limits it).",
)
NETWORK_IDLE = gauge(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "Fraction of the time in which the event loop was idle, 0 to 1, over the last seconds.",
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
)
HANDLER_IDLE = gauge(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "The same figure: the event loop handles requests too.",
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    attribute="MeanRate",
)
EXPIRED_CONNECTIONS = gauge(
    "kafka_network_socketserver_expiredconnectionskilledcount",
    "Connections that were closed because they were idle for connections.max.idle.ms.",
    "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount",
)
CONNECTIONS = gauge(
    "kafka_server_socket_server_metrics_connection_count",
    "Open connections by listener.",
    "kafka.server:type=socket-server-metrics",
    ("listener", "networkProcessor"),
    attribute="connection-count",
)
CREATED_CONNECTIONS = counter(
    "kafka_server_socket_server_metrics_connection_creation_total",
    "Connections that were accepted.",
    "kafka.server:type=socket-server-metrics",
    attribute="connection-creation-total",
)
REFUSED_CONNECTIONS = counter(
    "odradek_network_connections_refused_total",
    "Connections that were closed at once, because of a limit such as max.connections.",
)
PURGATORY = gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Requests that wait: Produce for replicas, Fetch for records, Rebalance for members of a "
    "group. They wait for watermarks and futures; there is no purgatory to be purged.",
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
    ("delayedOperation",),
)
_BY_CLIENT = ("user", "client-id")
PRODUCE_QUOTA_RATE = gauge(
    "kafka_server_produce_byte_rate",
    "Bytes of Produce requests a second, over the windows of the quota, of those who share one. "
    "Of all quotas the first thousand in use are served.",
    "kafka.server:type=Produce",
    _BY_CLIENT,
    attribute="byte-rate",
)
PRODUCE_QUOTA_THROTTLE = gauge(
    "kafka_server_produce_throttle_time",
    "How long their last Produce request made them wait, in milliseconds.",
    "kafka.server:type=Produce",
    _BY_CLIENT,
    attribute="throttle-time",
)
FETCH_QUOTA_RATE = gauge(
    "kafka_server_fetch_byte_rate",
    "Bytes of Fetch responses a second of those who share a quota.",
    "kafka.server:type=Fetch",
    _BY_CLIENT,
    attribute="byte-rate",
)
FETCH_QUOTA_THROTTLE = gauge(
    "kafka_server_fetch_throttle_time",
    "How long their last Fetch response makes them wait, in milliseconds.",
    "kafka.server:type=Fetch",
    _BY_CLIENT,
    attribute="throttle-time",
)
REQUEST_QUOTA_TIME = gauge(
    "kafka_server_request_request_time",
    "Percent of the event loop's time of those who share a quota.",
    "kafka.server:type=Request",
    _BY_CLIENT,
    attribute="request-time",
)
REQUEST_QUOTA_THROTTLE = gauge(
    "kafka_server_request_throttle_time",
    "How long their last request made them wait, in milliseconds.",
    "kafka.server:type=Request",
    _BY_CLIENT,
    attribute="throttle-time",
)
MUTATION_QUOTA_TOKENS = gauge(
    "kafka_server_controllermutation_tokens",
    "Partitions that those who share a quota may create or delete now.",
    "kafka.server:type=ControllerMutation",
    _BY_CLIENT,
    attribute="tokens",
)
MUTATION_QUOTA_THROTTLE = gauge(
    "kafka_server_controllermutation_throttle_time",
    "How long their last change makes them wait, in milliseconds.",
    "kafka.server:type=ControllerMutation",
    _BY_CLIENT,
    attribute="throttle-time",
)
QUOTA_ENTRIES = gauge(
    "odradek_quota_entries",
    "Quotas in use: users, client ids and addresses whose use is remembered.",
)
MUTED_CONNECTIONS = gauge(
    "odradek_network_connections_muted",
    "Connections that are not read from, because their client has used up a quota.",
)
FETCH_SESSIONS = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    "Fetch sessions that are remembered.",
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
FETCH_SESSION_PARTITIONS = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
    "Partitions in all fetch sessions together.",
    "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
)
