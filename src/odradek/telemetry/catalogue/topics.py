"""Bytes, records and requests by topic. Without the label `topic` a series is the sum of all
topics, deleted ones included, as Kafka's MBeans without that key are."""

from odradek.telemetry.declarations import counter

_TOPIC = "kafka.server:type=BrokerTopicMetrics"
_LABELS = ("topic",)

BYTES_IN = counter(
    "kafka_server_brokertopicmetrics_bytesin_total",
    "Bytes of record batches that producers have written.",
    f"{_TOPIC},name=BytesInPerSec",
    _LABELS,
)
BYTES_OUT = counter(
    "kafka_server_brokertopicmetrics_bytesout_total",
    "Bytes of record batches that consumers have fetched.",
    f"{_TOPIC},name=BytesOutPerSec",
    _LABELS,
)
BYTES_REJECTED = counter(
    "kafka_server_brokertopicmetrics_bytesrejected_total",
    "Bytes of record batches that were refused.",
    f"{_TOPIC},name=BytesRejectedPerSec",
    _LABELS,
)
MESSAGES_IN = counter(
    "kafka_server_brokertopicmetrics_messagesin_total",
    "Records that producers have written.",
    f"{_TOPIC},name=MessagesInPerSec",
    _LABELS,
)
PRODUCE_REQUESTS = counter(
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "Partitions in produce requests.",
    f"{_TOPIC},name=TotalProduceRequestsPerSec",
    _LABELS,
)
FETCH_REQUESTS = counter(
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "Partitions in responses to fetches of consumers.",
    f"{_TOPIC},name=TotalFetchRequestsPerSec",
    _LABELS,
)
FAILED_PRODUCE = counter(
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "Partitions in produce requests that got an error.",
    f"{_TOPIC},name=FailedProduceRequestsPerSec",
    _LABELS,
)
FAILED_FETCH = counter(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "Partitions in fetches of consumers that got an error.",
    f"{_TOPIC},name=FailedFetchRequestsPerSec",
    _LABELS,
)
REPLICATION_BYTES_OUT = counter(
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    "Bytes of record batches that followers have fetched from this broker.",
    f"{_TOPIC},name=ReplicationBytesOutPerSec",
    _LABELS,
)
REPLICATION_BYTES_IN = counter(
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    "Bytes of record batches that this broker has fetched as a follower.",
    f"{_TOPIC},name=ReplicationBytesInPerSec",
)
SCHEMA_REJECTED = counter(
    "odradek_schema_validation_rejected_records_total",
    "Records that schema validation found wrong, so that their batches were refused. Of a batch at "
    "least the first hundred are counted.",
)
SCHEMA_DIVERTED = counter(
    "odradek_schema_validation_diverted_records_total",
    "Records that schema validation wrote to dead-letter topics.",
)
