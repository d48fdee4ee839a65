"""What `metrics()` returns, of clients that talk to a real broker in this process."""

import asyncio

import pytest

from odradek.client import Admin, Consumer, Producer, TopicPartition, sync
from odradek.client.metrics.catalogue import ALL, Scope
from odradek.client.metrics.client_metrics import NoMetricsPush
from odradek.client.metrics.counting import Latency
from odradek.client.metrics.figures import Part
from odradek.client.metrics.view import MetricName, MetricsView
from odradek.protocol.errors import KafkaError
from tests.unit.broker.management.running import running

Metrics = dict[MetricName, float]


def value(metrics: Metrics, name: str, group: str, **tags: str) -> float:
    (found,) = [
        amount
        for key, amount in metrics.items()
        if (key.name, key.group) == (name, group) and {"client-id": "app", **tags} == {**key.tags}
    ]
    return found


def check_all_are_there(metrics: Metrics, kind: str) -> None:
    declared = {(metric.name, metric.group) for metric in ALL[kind]}
    assert {(key.name, key.group) for key in metrics} == declared
    assert all(key.description and key.tags["client-id"] == "app" for key in metrics)


async def test_a_producer_counts_records_batches_and_requests() -> None:
    async with asyncio.timeout(30), running() as one:
        servers = one.broker.bootstrap
        producer = Producer(bootstrap_servers=servers, client_id="app", linger_ms=5)
        assert producer.metrics() == {}  # Nothing has happened yet.
        async with producer:
            for _ in range(10):
                await producer.send("orders", b"x" * 100)
            await producer.flush()
            metrics = producer.metrics()
            check_all_are_there(metrics, "producer")
            assert value(metrics, "record-send-total", "producer-metrics") == 10
            assert value(metrics, "record-send-rate", "producer-metrics") > 0
            assert value(metrics, "record-error-total", "producer-metrics") == 0
            topic = "producer-topic-metrics"
            assert value(metrics, "record-send-total", topic, topic="orders") == 10
            assert value(metrics, "byte-total", topic, topic="orders") > 1000
            assert 100 < value(metrics, "record-size-avg", "producer-metrics") < 200
            assert value(metrics, "batch-size-avg", "producer-metrics") > 100
            assert 0 < value(metrics, "request-latency-avg", "producer-metrics") < 30_000
            assert value(metrics, "connection-count", "producer-metrics") >= 1
            node = {"node-id": "node-1"}
            assert value(metrics, "request-total", "producer-node-metrics", **node) >= 1
            whole = value(metrics, "buffer-total-bytes", "producer-metrics")
            assert value(metrics, "buffer-available-bytes", "producer-metrics") == whole


async def test_records_that_fail_are_counted() -> None:
    properties = {"auto.create.topics.enable": "true", "message.max.bytes": "1000"}
    async with asyncio.timeout(30), running(properties) as one:
        servers = one.broker.bootstrap
        async with Producer(bootstrap_servers=servers, client_id="app") as producer:
            with pytest.raises(KafkaError):
                await producer.send_and_wait("orders", b"x" * 5000)
            assert value(producer.metrics(), "record-error-total", "producer-metrics") == 1


async def test_a_consumer_knows_its_lag_and_its_group() -> None:
    async with asyncio.timeout(30), running() as one:
        servers = one.broker.bootstrap
        async with Producer(bootstrap_servers=servers) as producer:
            for _ in range(10):
                await producer.send("orders", b"x")
        async with Consumer(
            "orders",
            bootstrap_servers=servers,
            client_id="app",
            group_id="g",
            auto_offset_reset="earliest",
        ) as consumer:
            read = 0
            while read < 4:
                polled = await consumer.poll(timeout_ms=1000, max_records=4)
                read += sum(map(len, polled.values()))
            await consumer.commit()
            metrics = consumer.metrics()
            check_all_are_there(metrics, "consumer")
            fetch, group = "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"
            assert value(metrics, "records-consumed-total", fetch) == 4
            assert value(metrics, "records-lag-max", fetch) == 6
            partition = {"topic": "orders", "partition": "0"}
            assert value(metrics, "records-lag", fetch, **partition) == 6
            assert value(metrics, "records-lead", fetch, **partition) == 4
            assert value(metrics, "bytes-consumed-total", fetch, topic="orders") > 10
            assert value(metrics, "fetch-latency-avg", fetch) > 0
            assert value(metrics, "commit-total", group) == 1
            assert value(metrics, "commit-latency-avg", group) > 0
            assert value(metrics, "rebalance-total", group) == 1
            assert value(metrics, "rebalance-latency-avg", group) > 0
            assert value(metrics, "join-total", group) >= 1
            assert value(metrics, "assigned-partitions", group) == 1


async def test_an_admin_client_and_clients_without_asyncio_have_metrics() -> None:
    async with asyncio.timeout(30), running() as one:
        servers = one.broker.bootstrap
        async with Admin(bootstrap_servers=servers, client_id="app") as admin:
            await admin.list_topics()
            check_all_are_there(admin.metrics(), "admin")

        def without_asyncio() -> list[Metrics]:
            with (
                sync.Producer(bootstrap_servers=servers, client_id="app") as producer,
                sync.Consumer(bootstrap_servers=servers, client_id="app") as consumer,
                sync.Admin(bootstrap_servers=servers, client_id="app") as admin,
            ):
                producer.send("t", b"x").result(10)
                consumer.assign([TopicPartition("t", 0)])
                consumer.poll(timeout_ms=100)
                admin.list_topics()
                return [producer.metrics(), consumer.metrics(), admin.metrics()]

        produced, consumed, asked = await asyncio.to_thread(without_asyncio)
        assert value(produced, "record-send-total", "producer-metrics") == 1
        assert value(consumed, "fetch-total", "consumer-fetch-manager-metrics") >= 0
        assert value(asked, "request-total", "admin-client-metrics") >= 1


def test_rates_are_of_the_last_half_to_whole_minute() -> None:
    now_s, records, resets = [0.0], [0.0], [0]

    def reset() -> None:
        resets[0] += 1

    view = MetricsView(
        "app",
        ALL["producer"],
        lambda _: {Part(Scope.CLIENT): {"records": records[0]}},
        reset,
        now_s=lambda: now_s[0],
        started_s=0.0,
    )

    def rate() -> float:
        return value(view.metrics(), "record-send-rate", "producer-metrics")

    assert rate() == 0.0
    now_s[0], records[0] = 10.0, 100.0
    assert rate() == 10.0
    now_s[0] = 100.0
    assert rate() == 1.0  # Nobody asked meanwhile: it is of the time since the start.
    assert resets[0] == 1
    now_s[0] = 140.0
    assert rate() == pytest.approx(100 / 140)
    now_s[0] = 175.0
    assert rate() == 0.0  # Nothing was sent since the note at 100 seconds.


def test_names_are_equal_if_name_group_and_tags_are() -> None:
    one = MetricName("a", "g", "first", {"client-id": "c"})
    assert {one: 1.0}[MetricName("a", "g", "other", {"client-id": "c"})] == 1.0
    assert one != MetricName("a", "g", "first", {"client-id": "d"})


def test_latencies_know_their_maximum() -> None:
    latency = Latency()
    latency.add(0.5, 1.0)
    latency.add(0.25, 2.0)
    assert (latency.count, latency.total_s, latency.max_s, latency.last_s) == (2, 0.75, 0.5, 2.0)


async def test_without_push_there_is_no_instance_id() -> None:
    async with asyncio.timeout(30), running({"management.listener": ""}) as one:
        servers = one.broker.bootstrap
        async with Producer(bootstrap_servers=servers) as producer:
            with pytest.raises(NoMetricsPush, match="takes no metrics"):
                await producer.client_instance_id()
        async with Producer(bootstrap_servers=servers, enable_metrics_push=False) as producer:
            with pytest.raises(NoMetricsPush, match=r"enable\.metrics\.push"):
                await producer.client_instance_id()
