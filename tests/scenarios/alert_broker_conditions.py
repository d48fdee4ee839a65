"""Conditions of brokers, replicas and disks that cause alerts. Each is a context manager: its
beginning brings the cluster into the condition, its end takes it out again."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigType
from tests.scenarios.alert_cluster import AlertCluster, until
from tests.scenarios.alert_load import PATIENCE_S, append, producer_of, repeating, under_load
from tests.scenarios.up_process import COMMAND

# Availability


@asynccontextmanager
async def nothing_scraped(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.prometheus.scrape([])
    yield
    await cluster.scrape_all()


@asynccontextmanager
async def a_broker_killed(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    await cluster.create("alone", [2])
    await cluster.kill(2)
    yield
    await cluster.start(2)


@asynccontextmanager
async def a_broker_that_copies(cluster: AlertCluster) -> AsyncIterator[None]:
    """Broker 3 is back, and a throttle lets it copy next to nothing."""
    await cluster.create("orders")
    append(cluster, "orders", 1000)
    await cluster.kill(3)
    append(cluster, "orders", 200_000)
    await cluster.configure(ConfigType.TOPIC, "orders", leader_replication_throttled_replicas="*")
    for number in ("1", "2"):
        await cluster.configure(ConfigType.BROKER, number, leader_replication_throttled_rate="1000")
    await cluster.start(3)
    yield
    await cluster.configure(ConfigType.TOPIC, "orders", leader_replication_throttled_replicas=None)


@asynccontextmanager
async def restarts(cluster: AlertCluster) -> AsyncIterator[None]:
    async def is_scraped() -> bool:
        (found,) = await cluster.prometheus.query(f'up{{instance="{cluster.targets[1]}"}}')
        return bool(found["value"][1] == "1")

    for _ in range(3):
        await cluster.kill(2)
        await cluster.start(2)
        await until(is_scraped, "broker 2 is not scraped")
        await asyncio.sleep(1.5)  # Two scrapes, or a start stays unseen.
    yield


@asynccontextmanager
async def controller_paused(cluster: AlertCluster) -> AsyncIterator[None]:
    """Until its session ends no other broker can be the controller."""
    active = "kafka_controller_kafkacontroller_activecontrollercount == 1"
    (found,) = await cluster.prometheus.query(active)
    number = cluster.targets.index(found["metric"]["instance"]) + 1
    cluster.signal(number, signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.signal(number, signal.SIGCONT)


@asynccontextmanager
async def zookeeper_killed(cluster: AlertCluster) -> AsyncIterator[None]:
    """Brokers are sure of their sessions for as long as these last without ZooKeeper."""
    assert cluster.zookeeper is not None
    (server,) = cluster.zookeeper.servers
    server.kill()
    yield
    server.start()
    await asyncio.to_thread(server.wait_until_serving)


@asynccontextmanager
async def broker_paused_until_its_session_ends(cluster: AlertCluster) -> AsyncIterator[None]:
    """Another broker says that its session has ended: it is not registered any more."""
    count = "max(kafka_controller_kafkacontroller_activebrokercount)"

    async def is_away() -> bool:
        found = await cluster.prometheus.query(count)
        return bool(found) and found[0]["value"][1] == "2"

    cluster.signal(3, signal.SIGSTOP)
    try:
        await until(is_away, "the session does not end")
    finally:
        cluster.signal(3, signal.SIGCONT)
    yield


@asynccontextmanager
async def two_clusters_in_one_job(cluster: AlertCluster) -> AsyncIterator[None]:
    words = ["up", "--port", "0", "--memory"]
    other = await asyncio.create_subprocess_exec(*COMMAND, *words, stdout=asyncio.subprocess.PIPE)
    try:
        assert other.stdout is not None
        line = (await asyncio.wait_for(other.stdout.readline(), PATIENCE_S)).decode()
        address = line.partition("metrics at http://")[2].partition(")")[0]
        targets = cluster.targets
        await _scrape(cluster, [*targets, address])
        yield
        await _scrape(cluster, targets)
    finally:
        other.terminate()
        await other.wait()


async def _scrape(cluster: AlertCluster, targets: list[str]) -> None:
    job = {"job_name": "odradek", "static_configs": [{"targets": targets}]}
    await cluster.prometheus.scrape([job])


# Replication


@asynccontextmanager
async def two_brokers_killed(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", min_insync_replicas="2")
    await cluster.kill(2)
    await cluster.kill(3)
    yield
    await cluster.start(2)
    await cluster.start(3)


@asynccontextmanager
async def unclean_election(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create(
        "orders", [2, 3], min_insync_replicas="1", unclean_leader_election_enable="true"
    )
    append(cluster, "orders", 10)
    await cluster.kill(3)
    append(cluster, "orders", 10)
    await cluster.kill(2)
    await cluster.start(3)
    yield
    await cluster.start(2)


@asynccontextmanager
async def a_follower_that_comes_and_goes(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1, 3], min_insync_replicas="1")

    async def once() -> None:
        cluster.signal(3, signal.SIGSTOP)
        await asyncio.sleep(3)
        cluster.signal(3, signal.SIGCONT)
        await asyncio.sleep(2)

    async def write() -> None:
        await asyncio.to_thread(append, cluster, "orders", 10, acks=1)
        await asyncio.sleep(0.2)

    try:
        async with repeating(once), repeating(write):
            yield
    finally:
        cluster.signal(3, signal.SIGCONT)


@asynccontextmanager
async def isr_that_nobody_may_write(cluster: AlertCluster) -> AsyncIterator[None]:
    """An ACL in ZooKeeper lets brokers read the state of a partition and not write it. Its
    follower dies, so the leader tries again and again."""
    assert cluster.zookeeper is not None
    await cluster.create("orders", [1, 3], min_insync_replicas="1")
    state = "/brokers/topics/orders/partitions/0/state"
    operator = KazooClient(cluster.zookeeper.address)
    await asyncio.to_thread(operator.start)
    try:
        await asyncio.to_thread(
            operator.set_acls, state, [make_acl("world", "anyone", read=True, admin=True)]
        )
        await cluster.kill(3)
        yield
        await asyncio.to_thread(operator.set_acls, state, OPEN_ACL_UNSAFE)
        await cluster.start(3)
    finally:
        operator.stop()
        operator.close()


@asynccontextmanager
async def leaders_elsewhere(cluster: AlertCluster) -> AsyncIterator[None]:
    for number in range(6):
        await cluster.create(f"orders-{number}", [2, 1, 3])
    await cluster.kill(2)
    await cluster.start(2)
    yield
    words = ["leader-election", "--election-type", "preferred", "--all-topic-partitions"]
    words += ["--bootstrap-server", cluster.bootstrap]
    elected = await asyncio.create_subprocess_exec(
        *COMMAND, *words, stdout=asyncio.subprocess.DEVNULL
    )
    assert await elected.wait() == 0


# Storage


@asynccontextmanager
async def log_directory_gone(cluster: AlertCluster) -> AsyncIterator[None]:
    """Broker 2 has a second log directory, of which a file takes the place."""
    second, aside = cluster.directory / "second", cluster.directory / "aside"
    file = cluster.data(2) / "server.properties"
    file.write_text(f"{file.read_text()}\nlog.dirs={cluster.data(2)},{second}\n")
    await cluster.kill(2)
    await cluster.start(2)
    second.rename(aside)
    second.touch()
    # A new partition goes to the directory that has fewest.
    for topic in ("orders", "payments"):
        await cluster.create(topic, [2])
    yield
    await cluster.kill(2)
    second.unlink()
    aside.rename(second)
    await cluster.start(2)


@asynccontextmanager
async def disk_filled(cluster: AlertCluster) -> AsyncIterator[None]:
    """Fills the small disk of broker 1 bit by bit, until nothing can be written."""
    await cluster.create("orders", [1], min_insync_replicas="1")
    ballast = cluster.data(1) / "ballast"
    size = os.statvfs(cluster.data(1)).f_frsize * os.statvfs(cluster.data(1)).f_blocks
    with ballast.open("wb") as file:
        # From half full on, so that the fall is seen before the end.
        file.truncate(0)
        file.write(bytes(size * 6 // 10))
        for _ in range(12):
            file.write(bytes(size * 3 // 100))
            file.flush()
            await asyncio.sleep(1)
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()
    producer = producer_of(cluster, retries=0, message_timeout_ms=1000, acks=1)

    def write() -> None:
        producer.produce("orders", bytes(10_000))
        producer.flush(2)

    async with under_load(write):
        yield
    ballast.unlink()


@asynccontextmanager
async def damaged_compacted_log(cluster: AlertCluster) -> AsyncIterator[None]:
    """A byte in the middle of an old segment changes; the cleaner finds it."""
    await cluster.create(
        "keys", [1], cleanup_policy="compact", segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01", min_insync_replicas="1",
    )  # fmt: skip
    producer = producer_of(cluster, linger_ms=5)
    append(cluster, "keys", 1)
    (segment,) = cluster.data(1).rglob("keys-0/*.log")
    for number in range(12_000):
        producer.produce("keys", bytes(100), b"%d" % (number % 50))
        producer.poll(0)
        if number == 1000:
            assert producer.flush(PATIENCE_S) == 0
            with segment.open("r+b") as file:
                file.seek(2_000)
                file.write(b"damage")
    assert producer.flush(PATIENCE_S) == 0
    yield
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.delete_topics(["keys"])
