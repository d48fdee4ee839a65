"""One declaration for each metric of clients: Kafka's name and group, and how it is computed.

`figure` names a figure that `figures` reads. What is computed from it:

    VALUE    the figure itself
    TOTAL    the figure, which only grows
    RATE     how fast it grows, a second
    AVERAGE  by how much it grows for each 1 by which `per` grows
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Formula(Enum):
    VALUE = "value"
    TOTAL = "total"
    RATE = "rate"
    AVERAGE = "average"


class Scope(Enum):
    """What a metric is about; its tags besides `client-id`."""

    CLIENT = ()
    NODE = ("node-id",)
    TOPIC = ("topic",)
    PARTITION = ("topic", "partition")


@dataclass(frozen=True, slots=True)
class ClientMetric:
    name: str
    group: str
    description: str
    formula: Formula
    figure: str
    per: str = ""
    scope: Scope = Scope.CLIENT
    factor: float = 1.0

    @property
    def pushed_name(self) -> str:
        """The name under which it is pushed, made as Kafka's Java client makes it."""
        group = self.group.removesuffix("-metrics")
        return f"org.apache.kafka.{group}.{self.name}".replace("-", ".")


_MS: Final = 1000.0
PRODUCER: Final = "producer-metrics"
FETCH: Final = "consumer-fetch-manager-metrics"
COORDINATOR: Final = "consumer-coordinator-metrics"


def _counted(
    group: str, name: str, figure: str, what: str, scope: Scope = Scope.CLIENT
) -> tuple[ClientMetric, ...]:
    """Declares `NAME-rate` and `NAME-total`."""
    return (
        ClientMetric(f"{name}-rate", group, f"{what} a second.", Formula.RATE, figure, "", scope),
        ClientMetric(f"{name}-total", group, f"{what}.", Formula.TOTAL, figure, "", scope),
    )


def _timed(
    group: str, name: str, figure: str, what: str, scope: Scope = Scope.CLIENT
) -> tuple[ClientMetric, ...]:
    """Declares `NAME-avg` and `NAME-max`, in milliseconds, of what has figures with the endings
    `-s`, `-count` and `-max-s`."""
    return (
        ClientMetric(
            f"{name}-avg",
            group,
            f"{what}, on average, in milliseconds.",
            Formula.AVERAGE,
            f"{figure}-s",
            f"{figure}-count",
            scope,
            _MS,
        ),
        ClientMetric(
            f"{name}-max",
            group,
            f"{what}, at most, in milliseconds.",
            Formula.VALUE,
            f"{figure}-max-s",
            "",
            scope,
            _MS,
        ),
    )


def _of_network(client: str) -> tuple[ClientMetric, ...]:
    """Declares what every client has: connections and requests, in all and by broker."""
    whole = f"{client}-metrics"
    declared = [
        ClientMetric(
            "connection-count", whole, "Open connections.", Formula.VALUE, "connections-open"
        ),
        *_counted(whole, "connection-creation", "connections-opened", "Connections made"),
        *_counted(whole, "connection-close", "connections-closed", "Connections closed"),
        *_counted(whole, "network-io", "exchanges", "Requests and responses"),
    ]
    for group, scope in ((whole, Scope.CLIENT), (f"{client}-node-metrics", Scope.NODE)):
        declared += [
            *_counted(group, "request", "requests", "Requests sent", scope),
            *_counted(group, "response", "responses", "Responses received", scope),
            *_counted(group, "outgoing-byte", "bytes-out", "Bytes sent", scope),
            *_counted(group, "incoming-byte", "bytes-in", "Bytes received", scope),
            *_timed(group, "request-latency", "request", "Time until a response came", scope),
            ClientMetric(
                "request-size-avg",
                group,
                "Size of a request, on average, in bytes.",
                Formula.AVERAGE,
                "bytes-out",
                "requests",
                scope,
            ),
        ]
    return tuple(declared)


def _of_topics_written(group: str, scope: Scope) -> tuple[ClientMetric, ...]:
    return (
        *_counted(group, "record-send", "records", "Records sent", scope),
        *_counted(group, "record-error", "errors", "Records that failed", scope),
        *_counted(group, "record-retry", "retries", "Records that were sent again", scope),
    )


PRODUCER_METRICS: Final = (
    *_of_network("producer"),
    *_of_topics_written(PRODUCER, Scope.CLIENT),
    *_of_topics_written("producer-topic-metrics", Scope.TOPIC),
    *_counted("producer-topic-metrics", "byte", "record-bytes", "Bytes sent", Scope.TOPIC),
    *_timed(PRODUCER, "record-queue-time", "queue", "Time of a batch until it was sent"),
    *_counted(PRODUCER, "batch-split", "batch-splits", "Batches split because of their size"),
    ClientMetric(
        "batch-size-avg",
        PRODUCER,
        "Size of a batch, on average, in bytes.",
        Formula.AVERAGE,
        "record-bytes",
        "batches",
    ),
    ClientMetric(
        "batch-size-max", PRODUCER, "Size of the largest batch.", Formula.VALUE, "batch-max-bytes"
    ),
    ClientMetric(
        "record-size-avg",
        PRODUCER,
        "Size of a record in its batch, on average, in bytes.",
        Formula.AVERAGE,
        "record-bytes",
        "records",
    ),
    ClientMetric(
        "records-per-request-avg",
        PRODUCER,
        "Records of a request, on average.",
        Formula.AVERAGE,
        "records",
        "produce-requests",
    ),
    ClientMetric(
        "requests-in-flight", PRODUCER, "Requests not answered yet.", Formula.VALUE, "in-flight"
    ),
    ClientMetric(
        "buffer-total-bytes", PRODUCER, "buffer.memory.", Formula.VALUE, "buffer-total-bytes"
    ),
    ClientMetric(
        "buffer-available-bytes",
        PRODUCER,
        "What of buffer.memory is free.",
        Formula.VALUE,
        "buffer-available-bytes",
    ),
    ClientMetric(
        "waiting-threads",
        PRODUCER,
        "Calls of send() that wait for room in the buffer.",
        Formula.VALUE,
        "waiting",
    ),
    ClientMetric(
        "metadata-age",
        PRODUCER,
        "Age of the metadata in use, in seconds.",
        Formula.VALUE,
        "metadata-age-s",
    ),
)

CONSUMER_METRICS: Final = (
    *_of_network("consumer"),
    *_timed(FETCH, "fetch-latency", "fetch", "Time of a fetch"),
    *_counted(FETCH, "fetch", "fetch-count", "Fetches"),
    *(
        metric
        for scope in (Scope.CLIENT, Scope.TOPIC)
        for metric in (
            *_counted(FETCH, "bytes-consumed", "record-bytes", "Bytes of records fetched", scope),
            *_counted(FETCH, "records-consumed", "records", "Records returned by poll()", scope),
            ClientMetric(
                "fetch-size-avg",
                FETCH,
                "Bytes of records in a response for a partition, on average.",
                Formula.AVERAGE,
                "record-bytes",
                "fetches",
                scope,
            ),
        )
    ),
    ClientMetric(
        "records-per-request-avg",
        FETCH,
        "Records of a fetch, on average.",
        Formula.AVERAGE,
        "records",
        "fetch-count",
    ),
    ClientMetric(
        "records-lag-max",
        FETCH,
        "Records behind the end, of the partition that is furthest behind.",
        Formula.VALUE,
        "lag-max",
    ),
    ClientMetric(
        "records-lead-min",
        FETCH,
        "Records after the beginning, of the partition that is nearest to it.",
        Formula.VALUE,
        "lead-min",
    ),
    ClientMetric(
        "records-lag",
        FETCH,
        "Records behind the end of the partition.",
        Formula.VALUE,
        "lag",
        "",
        Scope.PARTITION,
    ),
    ClientMetric(
        "records-lead",
        FETCH,
        "Records after the beginning of the partition.",
        Formula.VALUE,
        "lead",
        "",
        Scope.PARTITION,
    ),
    ClientMetric(
        "assigned-partitions", COORDINATOR, "Partitions that are read.", Formula.VALUE, "assigned"
    ),
    *_timed(COORDINATOR, "commit-latency", "commit", "Time of a commit"),
    *_counted(COORDINATOR, "commit", "commit-count", "Commits"),
    *_counted(COORDINATOR, "heartbeat", "heartbeat-count", "Heartbeats"),
    ClientMetric(
        "heartbeat-response-time-max",
        COORDINATOR,
        "Time of a heartbeat, at most, in milliseconds.",
        Formula.VALUE,
        "heartbeat-max-s",
        factor=_MS,
    ),
    ClientMetric(
        "last-heartbeat-seconds-ago",
        COORDINATOR,
        "Seconds since the last heartbeat was answered, -1 if none was.",
        Formula.VALUE,
        "heartbeat-age-s",
    ),
    *_timed(COORDINATOR, "join-time", "join", "Time of a JoinGroup"),
    *_counted(COORDINATOR, "join", "join-count", "JoinGroup requests"),
    *_timed(COORDINATOR, "sync-time", "sync", "Time of a SyncGroup"),
    *_counted(COORDINATOR, "sync", "sync-count", "SyncGroup requests"),
    *_timed(COORDINATOR, "rebalance-latency", "rebalance", "Time of a rebalance"),
    ClientMetric(
        "rebalance-latency-total",
        COORDINATOR,
        "Time of all rebalances, in milliseconds.",
        Formula.TOTAL,
        "rebalance-s",
        factor=_MS,
    ),
    ClientMetric("rebalance-total", COORDINATOR, "Rebalances.", Formula.TOTAL, "rebalance-count"),
    ClientMetric(
        "rebalance-rate-per-hour",
        COORDINATOR,
        "Rebalances an hour.",
        Formula.RATE,
        "rebalance-count",
        factor=3600.0,
    ),
)

ADMIN_METRICS: Final = _of_network("admin-client")

ALL: Final = {
    "producer": PRODUCER_METRICS,
    "consumer": CONSUMER_METRICS,
    "admin": ADMIN_METRICS,
}
