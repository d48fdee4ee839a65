"""What a live cluster serves: every declared metric, once where it is of the whole cluster."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from odradek.broker.broker import BrokerCannotStart
from odradek.client import Consumer, Producer
from odradek.client.admin.admin import Admin
from odradek.security.quotas.entities import QuotaEntity
from odradek.telemetry.catalogue import ALL
from odradek.telemetry.exposition import OPENMETRICS
from tests.unit.broker.management.running import (
    Running,
    Series,
    get,
    running,
    running_cluster,
    value,
)


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Waits for a condition that the cluster brings about by itself."""
    async with asyncio.timeout(30):
        while not await is_so():
            pass


async def produce(one: Running, topic: str, count: int, partition: int = 0) -> None:
    async with Producer(bootstrap_servers=one.broker.bootstrap) as producer:
        for number in range(count):
            await producer.send_and_wait(topic, f"record {number}".encode(), partition=partition)


async def commit(one: Running, group: str, topic: str, offset: int) -> None:
    """Lets a consumer of the group read so many records and commit."""
    async with Consumer(
        topic,
        bootstrap_servers=one.broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    ) as consumer:
        read = 0
        while read < offset:
            read += len(await consumer.poll(timeout_ms=1000))
        await consumer.commit()


async def all_series(brokers: list[Running]) -> list[Series]:
    return [await one.series() for one in brokers]


def total(found: list[Series], name: str, **labels: str) -> float:
    """The sum over all brokers, as a dashboard shows it."""
    wanted = frozenset(labels.items())
    return sum(series.get((name, wanted), 0.0) for series in found)


def names(series: Series) -> set[str]:
    """The metrics that have samples; those of summaries and histograms have a suffix."""
    found = {name for name, _ in series}
    return found | {
        name.removesuffix(suffix) for name in found for suffix in ("_count", "_sum", "_bucket")
    }


async def test_every_declared_metric_is_served_by_a_live_cluster() -> None:
    by_client = {"odradek.metrics.max.client.ids": "10"}
    async with asyncio.timeout(60), running_cluster(properties=by_client) as brokers:
        async with Admin(bootstrap_servers=brokers[0].broker.bootstrap) as admin:
            quotas = {
                "producer_byte_rate": 1e9,
                "consumer_byte_rate": 1e9,
                "request_percentage": 1e6,
                "controller_mutation_rate": 1e6,
            }
            await admin.alter_client_quotas({QuotaEntity(user="ANONYMOUS"): quotas})
            await admin.create_topic("orders", 3, 3)
        await produce(brokers[0], "orders", 5)
        await commit(brokers[0], "readers", "orders", 2)

        async def knows_lag() -> bool:
            found = await all_series(brokers)
            return total(found, "kafka_consumergroup_lag_sum", consumergroup="readers",
                         topic="orders") == 3  # fmt: skip

        await eventually(knows_lag)
        found = await all_series(brokers)
        served = set().union(*map(names, found))
        assert set(ALL) <= served
        # Each of these is served by one broker alone, or by one for each partition.
        assert total(found, "kafka_brokers") == 3
        assert total(found, "kafka_topic_partitions", topic="orders") == 3
        assert total(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert total(found, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 5
        for name, expected in (
            ("kafka_topic_partition_current_offset", 5),
            ("kafka_topic_partition_replicas", 3),
            ("kafka_topic_partition_in_sync_replica", 3),
        ):
            assert total(found, name, topic="orders", partition="0") == expected
        for labels in ({"consumergroup": "readers", "topic": "orders", "partition": "0"},):
            assert total(found, "kafka_consumergroup_current_offset", **labels) == 2
            assert total(found, "kafka_consumergroup_lag", **labels) == 3
            assert 0 < total(found, "kafka_consumergroup_lag_seconds", **labels) < 60
        # Every replica has a log of its own.
        assert total(found, "kafka_log_log_logendoffset", topic="orders", partition="0") == 15
        received = total(found, "kafka_server_brokertopicmetrics_replicationbytesin_total")
        sent = total(found, "kafka_server_brokertopicmetrics_replicationbytesout_total")
        assert received == sent > 0


async def test_a_lost_broker_is_seen_by_the_others() -> None:
    async with asyncio.timeout(60), running_cluster() as brokers:
        async with Admin(bootstrap_servers=brokers[0].broker.bootstrap) as admin:
            await admin.create_topic("orders", 3, 3)
        await brokers[2].stop()
        others = brokers[:2]

        async def is_noticed() -> bool:
            found = await all_series(others)
            return total(found, "kafka_server_replicamanager_underreplicatedpartitions") >= 3

        await eventually(is_noticed)
        found = await all_series(others)
        assert (
            total(found, "kafka_controller_controllerstats_leaderelectionrateandtimems_count") >= 1
        )
        assert total(found, "kafka_controller_controllerstats_uncleanleaderelections_total") == 0
        assert total(found, "kafka_server_replicamanager_isrshrinks_total") >= 1
        assert total(found, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
        assert total(found, "kafka_brokers") == 2
        assert total(found, "kafka_server_replicamanager_atminisrpartitioncount") >= 3
        status = await others[0].json("/status")
        assert status["live_brokers"] == [1, 2]


async def test_openmetrics_parses() -> None:
    async with asyncio.timeout(30), running() as one:
        await produce(one, "orders", 1)
        status, text = await get(f"{one.url}/metrics", "application/openmetrics-text")
        assert status == 200
        families = list(openmetrics.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
        assert any(family.name == "kafka_server_brokertopicmetrics_bytesin" for family in families)
        assert OPENMETRICS.startswith("application/openmetrics-text")


async def test_requests_errors_and_times() -> None:
    async with asyncio.timeout(30), running() as one:
        await produce(one, "orders", 3)
        series = await one.series()
        requests = "kafka_network_requestmetrics_requests_total"
        produced = [
            found
            for (name, labels), found in series.items()
            if name == requests and ("request", "Produce") in labels
        ]
        assert produced == [3]
        for name in ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems",
                     "responsequeuetimems", "responsesendtimems"):  # fmt: skip
            metric = f"kafka_network_requestmetrics_{name}"
            assert 1 <= value(series, f"{metric}_count", request="Produce") <= 3
            assert value(series, metric, request="Produce", quantile="0.99") < 10_000
        errors = "kafka_network_requestmetrics_errors_total"
        assert value(series, errors, request="Produce", error="NONE") == 3
        assert value(series, "kafka_server_brokertopicmetrics_messagesin_total") == 3
        assert value(series, "kafka_server_socket_server_metrics_connection_creation_total") >= 1


async def test_the_counters_of_a_deleted_topic_stay_in_the_sum() -> None:
    async with asyncio.timeout(30), running() as one:
        await produce(one, "orders", 3)
        before = await one.series()
        counter = "kafka_server_brokertopicmetrics_bytesin_total"
        assert value(before, counter, topic="orders") == value(before, counter) > 0
        async with Admin(bootstrap_servers=one.broker.bootstrap) as admin:
            await admin.delete_topic("orders")

        async def is_gone() -> bool:
            return (counter, frozenset({("topic", "orders")})) not in await one.series()

        await eventually(is_gone)
        assert value(await one.series(), counter) == value(before, counter)


async def test_series_of_partitions_are_limited() -> None:
    limits = {"odradek.metrics.max.partitions": "2"}
    async with asyncio.timeout(30), running(limits) as one:
        async with Admin(bootstrap_servers=one.broker.bootstrap) as admin:
            await admin.create_topic("orders", 5, 1)
        series = await one.series()
        assert len([name for name, _ in series if name == "kafka_log_log_size"]) == 2
        assert value(series, "odradek_metrics_partitions_left_out") == 3
        assert value(series, "kafka_server_replicamanager_partitioncount") == 5


async def test_a_broker_without_the_setting_measures_nothing() -> None:
    async with asyncio.timeout(30), running({"management.listener": ""}) as one:
        assert one.broker.management_url is None


async def test_a_busy_port_is_told_with_what_to_change() -> None:
    async with asyncio.timeout(30), running() as one:
        with pytest.raises(BrokerCannotStart, match="choose another address with"):
            async with running({"management.listener": one.url}):
                pass
