"""Metrics that clients push (KIP-714), and clients by their id.

What clients push is served beside these, under the names that they give: org.apache.kafka.producer
.record.queue.time.avg is `org_apache_kafka_producer_record_queue_time_avg`. The labels are
`client_id`, `client_instance_id`, `client_software_name` and those that the client gives. Series by
client id are served if `odradek.metrics.max.client.ids` says how many.
"""

from odradek.telemetry.declarations import counter, gauge

_CLIENT_METRICS = "kafka.server:type=ClientMetrics"

INSTANCES = gauge(
    "kafka_server_clientmetrics_clientmetricsinstancecount",
    "Clients that have asked this broker what to push, and are remembered.",
    _CLIENT_METRICS,
    attribute="ClientMetricsInstanceCount",
)
UNKNOWN_SUBSCRIPTIONS = counter(
    "kafka_server_clientmetrics_clientmetricsunknownsubscriptionrequestcount_total",
    "Pushes that were refused because the subscription has changed since the client asked.",
    _CLIENT_METRICS,
    attribute="ClientMetricsUnknownSubscriptionRequestCount",
)
THROTTLED = counter(
    "kafka_server_clientmetrics_clientmetricsthrottlecount_total",
    "Pushes and questions that were refused because they came before their time.",
    _CLIENT_METRICS,
    attribute="ClientMetricsThrottleCount",
)
EXPORTED = counter(
    "kafka_server_clientmetrics_clientmetricspluginexportcount_total",
    "Pushes that were taken.",
    _CLIENT_METRICS,
    attribute="ClientMetricsPluginExportCount",
)
ERRORS = counter(
    "kafka_server_clientmetrics_clientmetricspluginerrorcount_total",
    "Pushes that could not be read.",
    _CLIENT_METRICS,
    attribute="ClientMetricsPluginErrorCount",
)
SERIES = gauge(
    "odradek_client_telemetry_series",
    "Series that clients have pushed lately (odradek.telemetry.max.series limits them).",
)
DROPPED_POINTS = counter(
    "odradek_client_telemetry_dropped_points_total",
    "Values that clients have pushed and that are not served, by the reason: limit (too many "
    "series), name (a name is too long), distribution (histograms are not served).",
    labels=("reason",),
)
FORWARDED = counter(
    "odradek_client_telemetry_forwarded_total",
    "Pushes for the collector at odradek.telemetry.otlp.endpoint, by the result: sent, failed (it "
    "refused them), dropped (too many waited).",
    labels=("result",),
)
CLIENT_REQUESTS = counter(
    "odradek_client_requests_total",
    "Requests by client id. Clients beyond odradek.metrics.max.client.ids are counted together, "
    "without the label.",
    labels=("client_id",),
)
CLIENT_REQUEST_BYTES = counter(
    "odradek_client_request_bytes_total",
    "Size of requests by client id.",
    labels=("client_id",),
)
CLIENT_RESPONSE_BYTES = counter(
    "odradek_client_response_bytes_total",
    "Size of responses by client id.",
    labels=("client_id",),
)
