"""Our own clients push their metrics to a broker that asks for them."""

import asyncio

from odradek.client import Consumer, Producer, TopicPartition
from odradek.metadata.paths import topic_id_text
from tests.unit.broker.client_telemetry.test_pushes import subscribe
from tests.unit.broker.management.running import Running, running

SENT = "org_apache_kafka_producer_record_send_total"


async def pushed(one: Running, name: str, **labels: str) -> dict[str, float]:
    """The values of a pushed metric by client instance id."""
    return {
        dict(found)["client_instance_id"]: amount
        for (metric, found), amount in (await one.series()).items()
        if metric == name and set(labels.items()) <= found
    }


async def test_clients_push_what_was_asked_for_and_once_more_at_the_end() -> None:
    async with asyncio.timeout(30), running() as one:
        await subscribe(one, metrics="org.apache.kafka.producer.record.", **{"interval.ms": "100"})
        servers = one.broker.bootstrap
        async with Producer(bootstrap_servers=servers, client_id="app") as producer:
            await producer.send_and_wait("t", b"x")
            instance_id = await producer.client_instance_id()
            assert instance_id != topic_id_text(b"\0" * 16)  # type: ignore[arg-type]
            while (await pushed(one, SENT, client_id="app")).get(instance_id) != 1.0:
                pass
            await producer.send_and_wait("t", b"x")
            await producer.send_and_wait("t", b"x")
        # The last push came when the producer was closed.
        assert await pushed(one, SENT, client_id="app") == {instance_id: 3.0}
        found = {name for name, _ in await one.series() if name.startswith("org_apache")}
        assert all(name.startswith("org_apache_kafka_producer_record_") for name in found)


async def test_a_consumer_pushes_its_lag() -> None:
    async with asyncio.timeout(30), running() as one:
        servers = one.broker.bootstrap
        async with Producer(bootstrap_servers=servers, enable_metrics_push=False) as producer:
            for _ in range(3):
                await producer.send_and_wait("t", b"x")
        await subscribe(one, metrics="*", **{"interval.ms": "100"})
        async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            while not await consumer.poll(timeout_ms=1000, max_records=1):
                pass
            name = "org_apache_kafka_consumer_fetch_manager_records_lag"
            while not (found := await pushed(one, name, topic="t", partition="0")):
                pass
            assert list(found.values()) == [2.0]


async def test_a_changed_subscription_is_followed() -> None:
    async with asyncio.timeout(30), running() as one:
        await subscribe(one, metrics="org.apache.kafka.nothing", **{"interval.ms": "100"})
        servers = one.broker.bootstrap
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("t", b"x")
            refused = (
                "kafka_server_clientmetrics_clientmetricsunknownsubscriptionrequestcount_total"
            )
            exported = "kafka_server_clientmetrics_clientmetricspluginexportcount_total"
            while not (await one.series())[exported, frozenset()]:
                pass
            await subscribe(one, metrics="*")
            while not await pushed(one, SENT):
                pass
            assert (await one.series())[refused, frozenset()] >= 1
