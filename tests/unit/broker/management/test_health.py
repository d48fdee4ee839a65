import asyncio
import json

from odradek.broker.management.health import Health, State
from odradek.client.admin.admin import Admin
from odradek.config import BrokerSettings
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage.manager import LogManager
from odradek.world import MemoryDisk, World
from tests.unit.broker.management.running import get, running, running_cluster
from tests.unit.broker.management.test_metrics import eventually


async def test_a_broker_that_runs_is_alive_and_ready() -> None:
    async with asyncio.timeout(30), running() as one:
        assert await get(f"{one.url}/healthz") == (
            200,
            '{\n  "status": "alive",\n  "state": "running"\n}\n',
        )
        assert await one.json("/readyz") == {"ready": True, "reasons": []}
        status = await one.json("/status")
        assert (status["state"], status["broker_id"], status["is_controller"]) == (
            "running",
            1,
            True,
        )
        assert "/readyz" in await one.text("/")
        assert (await get(f"{one.url}/nothing"))[0] == 404


async def test_recovery_is_told_in_words() -> None:
    disk = MemoryDisk()
    for name in ("orders-0", "orders-1", "lost+found"):
        disk.make_directories(f"/data/{name}")
    world = World(disk=disk)
    settings = BrokerSettings.from_properties({"log.dirs": "/data"})
    logs = LogManager(settings, world, cluster_id="c", node_id=BrokerId(1))
    health = Health(world)
    assert health.reasons() == ["the broker is starting: it opens the metadata store"]
    health.loading(logs)
    assert health.reasons() == ["the broker is loading its logs: 0 of 2 are loaded"]
    await logs.load()
    assert health.reasons() == ["the broker is loading its logs: 2 of 2 are loaded"]
    assert health.status()["log_directories"] == [{"path": "/data", "logs": 2, "loaded": 2}]
    health.joining()
    assert health.reasons() == ["the broker is joining the cluster"]
    assert logs.get(TopicPartition("orders", 0)) is not None
    await logs.close()


async def test_a_broker_that_stops_is_not_ready_and_serves_no_metrics() -> None:
    async with asyncio.timeout(30), running() as one:
        assert one.broker._port is not None
        one.broker._port.health.stopping()
        status, body = await get(f"{one.url}/readyz")
        assert status == 503
        assert json.loads(body)["reasons"] == ["the broker is stopping"]
        assert one.broker._port.health.state is State.STOPPING
        assert (await get(f"{one.url}/metrics"))[0] == 503
        assert (await get(f"{one.url}/healthz"))[0] == 200


async def test_a_replica_that_is_not_in_sync_is_named() -> None:
    """A broker is ready only if its replicas are in sync: the broker's own image says so."""
    async with asyncio.timeout(60), running_cluster(2) as brokers:
        async with Admin(bootstrap_servers=brokers[0].broker.bootstrap) as admin:
            await admin.create_topic("orders", 1, 2)
        one = brokers[0]
        assert one.broker._port is not None
        components = one.broker._port.health._components
        assert components is not None

        async def is_ready() -> bool:
            return (await get(f"{one.url}/readyz"))[0] == 200

        await eventually(is_ready)
        cache = components.services.images.cache
        image = cache.image
        topic = image.topics["orders"]
        state = topic.partitions[0]._replace(isr=(BrokerId(2),), leader=BrokerId(2))
        changed = topic._replace(partitions=(state,))
        cache.image = image._replace(topics=type(image.topics)({**image.topics, "orders": changed}))
        reasons = one.broker._port.health.reasons()
        cache.image = image
        count = len(components.services.replicas)
        assert reasons == [f"1 replica is not in sync yet, of {count} on this broker: orders-0"]
