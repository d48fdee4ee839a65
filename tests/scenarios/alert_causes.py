"""What causes each alert in a live cluster. A cause is a context manager: its beginning brings the
cluster into the condition, its end takes it out again."""

import asyncio
import contextlib
import os
import resource
import signal
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigType
from tests.scenarios.alert_cluster import AlertCluster, until
from tests.scenarios.chaos_load import Worker
from tests.scenarios.up_process import COMMAND

_QUIET: Final = {"log_level": 0}
_PATIENCE_S: Final = 30.0

Causing = Callable[[AlertCluster], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Cause:
    """Alerts that one condition causes. `settings` are those of the brokers."""

    alerts: tuple[str, ...]
    causing: Causing
    settings: dict[str, str] = field(default_factory=dict)
    disk_mb: int = 0
    """The size of the disk on which broker 1 has its data, if it is a small one."""


class _Load(Worker):
    """Calls a function again and again in a thread, until the end of the block."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__("load")
        self._step = step

    def work(self) -> None:
        while not self._stops.is_set():
            self._step()


@asynccontextmanager
async def _under_load(step: Callable[[], None]) -> AsyncIterator[None]:
    load = _Load(step)
    load.start()
    try:
        yield
    finally:
        await asyncio.to_thread(load.finish)


@asynccontextmanager
async def _repeating(step: Callable[[], "asyncio.Future[None] | object"]) -> AsyncIterator[None]:
    """Awaits what the function returns, again and again."""

    async def run() -> None:
        while True:
            await step()  # type: ignore[misc]

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _producer(cluster: AlertCluster, **settings: str | int) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap, **_QUIET, **given})


def _write(cluster: AlertCluster, topic: str, count: int, **settings: str | int) -> None:
    """Appends so many records, each with a key."""
    producer = _producer(cluster, **settings)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, b"%d" % number, b"key")
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(_PATIENCE_S) == 0


def _group(cluster: AlertCluster, name: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **_QUIET,
        }
    )


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
    _write(cluster, "orders", 1000)
    await cluster.kill(3)
    _write(cluster, "orders", 200_000)
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
        line = (await asyncio.wait_for(other.stdout.readline(), _PATIENCE_S)).decode()
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
    _write(cluster, "orders", 10)
    await cluster.kill(3)
    _write(cluster, "orders", 10)
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
        await asyncio.to_thread(_write, cluster, "orders", 10, acks=1)
        await asyncio.sleep(0.2)

    try:
        async with _repeating(once), _repeating(write):
            yield
    finally:
        cluster.signal(3, signal.SIGCONT)


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


# Storage: broker 1 has a small disk


@asynccontextmanager
async def disk_filled(cluster: AlertCluster) -> AsyncIterator[None]:
    """Fills the disk of broker 1 bit by bit, until nothing can be written."""
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
    producer = _producer(cluster, retries=0, message_timeout_ms=1000, acks=1)

    def write() -> None:
        producer.produce("orders", bytes(10_000))
        producer.flush(2)

    async with _under_load(write):
        yield
    ballast.unlink()


@asynccontextmanager
async def damaged_compacted_log(cluster: AlertCluster) -> AsyncIterator[None]:
    """A byte in the middle of an old segment changes; the cleaner finds it."""
    await cluster.create(
        "keys", [1], cleanup_policy="compact", segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01", min_insync_replicas="1",
    )  # fmt: skip
    producer = _producer(cluster, linger_ms=5)
    _write(cluster, "keys", 1)
    (segment,) = cluster.data(1).rglob("keys-0/*.log")
    for number in range(12_000):
        producer.produce("keys", bytes(100), b"%d" % (number % 50))
        producer.poll(0)
        if number == 1000:
            assert producer.flush(_PATIENCE_S) == 0
            with segment.open("r+b") as file:
                file.seek(2_000)
                file.write(b"damage")
    assert producer.flush(_PATIENCE_S) == 0
    yield
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.delete_topics(["keys"])


# Requests


@asynccontextmanager
async def slow_follower(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1, 3], min_insync_replicas="2")
    _write(cluster, "orders", 10)
    producer = _producer(cluster, request_timeout_ms=1000, message_timeout_ms=1500)

    def write() -> None:
        producer.produce("orders", b"a book")
        producer.flush(2)

    cluster.signal(3, signal.SIGSTOP)
    try:
        async with _under_load(write):
            yield
    finally:
        cluster.signal(3, signal.SIGCONT)
    for _ in range(600):
        _write(cluster, "orders", 1)


@asynccontextmanager
async def flood(cluster: AlertCluster) -> AsyncIterator[None]:
    """Sends requests without waiting for responses: ApiVersions, the smallest there is."""
    # Key 18, version 0, a correlation id, no client id.
    frames = struct.pack(">ihhih", 10, 18, 0, 1, -1) * 2000

    async def send() -> None:
        reader, writer = await asyncio.open_connection(*cluster.address(2))

        async def discard() -> None:
            while await reader.read(1 << 16):
                pass

        discarding = asyncio.create_task(discard())
        try:
            while True:
                writer.write(frames)
                await writer.drain()
        finally:
            writer.transport.abort()
            discarding.cancel()

    async with contextlib.AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(_repeating(send))
        yield


@asynccontextmanager
async def stalls(cluster: AlertCluster) -> AsyncIterator[None]:
    """Stops broker 2 for moments, as a machine does whose processors are taken by others."""

    async def once() -> None:
        cluster.signal(2, signal.SIGSTOP)
        await asyncio.sleep(0.25)
        cluster.signal(2, signal.SIGCONT)
        await asyncio.sleep(0.1)

    try:
        async with _repeating(once):
            yield
    finally:
        cluster.signal(2, signal.SIGCONT)


@asynccontextmanager
async def few_files_allowed(cluster: AlertCluster) -> AsyncIterator[None]:
    before = resource.prlimit(cluster.pid(2), resource.RLIMIT_NOFILE)
    is_open = len(os.listdir(f"/proc/{cluster.pid(2)}/fd"))
    resource.prlimit(cluster.pid(2), resource.RLIMIT_NOFILE, (is_open + 2, before[1]))
    yield
    resource.prlimit(cluster.pid(2), resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def large_records(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1], min_insync_replicas="1", max_message_bytes="1000")
    producer = _producer(cluster)

    def write() -> None:
        producer.produce("orders", os.urandom(5000))
        producer.flush(2)
        time.sleep(0.05)

    async with _under_load(write):
        yield
    await _written_well(cluster)


async def _written_well(cluster: AlertCluster) -> None:
    """Errors are a share of requests: there must be some that succeed."""
    for _ in range(20):
        _write(cluster, "orders", 1)
        await asyncio.sleep(0.3)


@asynccontextmanager
async def reads_beyond_the_end(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1], min_insync_replicas="1")
    _write(cluster, "orders", 10)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "lost",
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
            **_QUIET,
        }
    )

    def read() -> None:
        consumer.assign([TopicPartition("orders", 0, 1_000_000)])
        consumer.poll(0.2)

    async with _under_load(read):
        yield
    consumer.assign([TopicPartition("orders", 0, 0)])
    for _ in range(30):
        consumer.poll(0.3)
    consumer.close()


@asynccontextmanager
async def too_many_connections(cluster: AlertCluster) -> AsyncIterator[None]:
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> None:
        for _ in range(40):
            with contextlib.suppress(OSError):
                opened.append((await asyncio.open_connection(*cluster.address(2)))[1])
        await asyncio.sleep(0.5)
        while opened:
            opened.pop().close()

    async with _repeating(connect):
        yield


@asynccontextmanager
async def forgotten_connections(cluster: AlertCluster) -> AsyncIterator[None]:
    opened = []

    async def connect() -> None:
        for _ in range(60):
            opened.append(await asyncio.open_connection(*cluster.address(2)))
        await asyncio.sleep(2)

    async with _repeating(connect):
        yield


# Consumers


@asynccontextmanager
async def a_group_that_falls_behind(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    consumer = _group(cluster, "behind")
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    _write(cluster, "orders", 1500)
    producer = _producer(cluster)

    def write() -> None:
        for _ in range(20):
            producer.produce("orders", b"a book")
        producer.flush(_PATIENCE_S)
        time.sleep(0.2)

    async with _under_load(write):
        yield
    consumer.commit(offsets=[TopicPartition("orders", 0, 10**9)], asynchronous=False)
    consumer.close()


@asynccontextmanager
async def an_old_record_unread(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    producer = _producer(cluster)
    producer.produce("orders", b"a book", timestamp=int(time.time() * 1000) - 700_000)
    assert producer.flush(_PATIENCE_S) == 0
    consumer = _group(cluster, "late")
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    yield
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()


@asynccontextmanager
async def a_group_left_by_all(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    _write(cluster, "orders", 10)
    consumer = _group(cluster, "left")
    consumer.subscribe(["orders"])

    async def is_counted() -> bool:
        await asyncio.to_thread(consumer.poll, 0.2)
        found = await cluster.prometheus.query(
            'sum(kafka_consumergroup_members{consumergroup="left"})'
        )
        return bool(found) and found[0]["value"][1] == "1"

    await until(is_counted, "the member does not join")
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    yield
    again = _group(cluster, "left")
    again.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
    again.close()


CAUSES: Final = (
    Cause(("OdradekNotScraped",), nothing_scraped),
    Cause(
        ("OdradekBrokerDown", "OdradekOfflinePartitions", "OdradekUnderReplicatedPartitions"),
        a_broker_killed,
    ),
    Cause(("OdradekBrokerNotReady",), a_broker_that_copies),
    Cause(("OdradekBrokerRestarts",), restarts),
    Cause(("OdradekNoController",), controller_paused, {"zookeeper.session.timeout.ms": "20000"}),
    Cause(("OdradekTwoControllers",), two_clusters_in_one_job),
    Cause(
        ("OdradekSessionExpired",),
        broker_paused_until_its_session_ends,
        {"zookeeper.session.timeout.ms": "3000"},
    ),
    Cause(("OdradekUnderMinIsr",), two_brokers_killed),
    Cause(("OdradekUncleanLeaderElection",), unclean_election),
    Cause(
        ("OdradekIsrFlapping",),
        a_follower_that_comes_and_goes,
        {"replica.lag.time.max.ms": "1000", "zookeeper.session.timeout.ms": "30000"},
    ),
    Cause(
        ("OdradekLeadersNotPreferred",),
        leaders_elsewhere,
        {"auto.leader.rebalance.enable": "false"},
    ),
    Cause(
        ("OdradekDiskFull", "OdradekDiskAlmostFull", "OdradekDiskFullSoon"),
        disk_filled,
        disk_mb=64,
    ),
    Cause(("OdradekUncleanableLogs",), damaged_compacted_log, {"log.cleaner.backoff.ms": "200"}),
    Cause(("OdradekRequestLatencyHigh",), slow_follower),
    # A broker must get a processor of its own: it does not on a machine that others use up.
    Cause(("OdradekBrokerBusy",), flood),
    Cause(("OdradekRequestQueueLong",), flood),
    Cause(("OdradekEventLoopStalls",), stalls),
    Cause(("OdradekOpenFiles",), few_files_allowed),
    Cause(("OdradekProduceErrors",), large_records),
    Cause(("OdradekFetchErrors",), reads_beyond_the_end),
    Cause(("OdradekConnectionsRefused",), too_many_connections, {"max.connections.per.ip": "30"}),
    Cause(
        ("OdradekExpiredConnections",),
        forgotten_connections,
        {"connections.max.idle.ms": "1000"},
    ),
    Cause(("OdradekLagGrowing",), a_group_that_falls_behind),
    Cause(("OdradekLagSecondsHigh",), an_old_record_unread),
    Cause(("OdradekGroupWithoutMembers",), a_group_left_by_all),
)

NOT_CAUSED: Final = {
    "OdradekMetadataStoreDisconnected": "while the store of `odradek up` is away nobody can end"
    " the sessions of its brokers, so they go on; it takes ZooKeeper",
    "OdradekIsrUpdatesFail": "the store of one machine either answers or does not: it refuses a"
    " change of in-sync replicas only in a race of two controllers",
    "OdradekLogDirectoryOffline": "a broker of `odradek up` has one log directory, and ends if it"
    " fails",
    "OdradekPipelineStuck": "it needs Spark",
    "OdradekPipelineRestarts": "it needs Spark",
}
"""Alerts that `tests/deploy/test_alerts.py` fires from recorded series alone, and why."""
