"""The metadata store on a real ZooKeeper ensemble of three: losses, expiry, other clients."""

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from benchmarks.apache_kafka import java_program
from benchmarks.broker_process import free_ports
from odradek.cluster.topics import NewTopic, Topics
from odradek.config import BrokerSettings, parse_listener
from odradek.config.live import LiveSettings
from odradek.metadata import (
    BadVersion,
    ChangeTooBig,
    Create,
    MetadataCache,
    MetadataStore,
    OutcomeUnknown,
    Set,
    StoreUnavailable,
    Watch,
    node_values,
    paths,
    store_setup,
)
from odradek.metadata.remembered_session import RememberedSession
from odradek.metadata.store import EVERYTHING
from odradek.metadata.zookeeper import ZookeeperMetadata
from odradek.protocol.types import BrokerId, TopicId
from odradek.world import Randomness, World
from tests.needs import need
from tests.unit.metadata.zookeeper_servers import Ensemble, ask, is_serving, zookeeper_jars

TIMEOUT_MS = 4_000


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    with Ensemble(need(zookeeper_jars), tmp_path, size=3) as servers:
        yield servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jars = need(zookeeper_jars)
    with Ensemble(jars, tmp_path_factory.mktemp("server")) as servers:
        yield servers.address


@asynccontextmanager
async def opened(
    address: str, timeout_ms: int = TIMEOUT_MS, remembered: Path | None = None
) -> AsyncIterator[ZookeeperMetadata]:
    world = World()
    metadata = ZookeeperMetadata(
        address,
        world,
        session_timeout_ms=timeout_ms,
        remembered=None if remembered is None else RememberedSession(world.disk, str(remembered)),
    )
    try:
        yield metadata
    finally:
        await metadata.close()
        world.workers.close()


@contextmanager
def plain_client(address: str) -> Iterator[KazooClient]:
    """Any ZooKeeper client, as an operator may have one."""
    client = KazooClient(address)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def available(store: MetadataStore) -> None:
    while True:
        try:
            await store.read("/")
        except StoreUnavailable:
            await asyncio.sleep(0.01)
        else:
            return


async def told(watch: Watch, path: str) -> None:
    while not {path, EVERYTHING} & set(await watch.next()):
        pass


def connected_to(ensemble: Ensemble, session_id: int) -> int:
    """Which server holds the session's connection."""
    sid = f"sid=0x{session_id & 0xFFFFFFFFFFFFFFFF:x}"
    for number, server in enumerate(ensemble.servers):
        if sid in ask(server.port, "cons"):
            return number
    raise AssertionError(f"no server knows {sid}")


async def test_a_session_moves_to_another_server_with_all_it_has(ensemble: Ensemble) -> None:
    async with opened(f"{ensemble.address}/kafka") as metadata:
        store, witness = metadata.connect(), metadata.connect()
        await store.multi(Create("/broker", b"1", True), Create("/counter", b""))
        session_id = store.session_id
        another = asyncio.ensure_future(store.next_session(session_id))
        watch = store.watch()
        watch.pending()
        ensemble.servers[connected_to(ensemble, session_id)].kill()
        assert EVERYTHING in await watch.next()
        await available(witness)
        assert store.session_id == session_id
        assert not another.done()
        node = await witness.read("/broker")
        assert node is not None
        assert node.owner == session_id
        await store.multi(Set("/counter", b"after"))
        await told(watch, "/counter")
        store.note_all_read(store.resumptions)
        assert not store.may_be_outdated()
        another.cancel()


async def test_what_was_acknowledged_is_there_and_nothing_happened_twice(
    ensemble: Ensemble,
) -> None:
    async with opened(ensemble.address) as metadata:
        store = metadata.connect()
        await store.multi(Create("/counter", b"0"))
        acknowledged = 0
        unknown = 0
        killed = False
        for number in range(600):
            if number == 200:
                victim = ensemble.servers[connected_to(ensemble, store.session_id)]
                asyncio.get_running_loop().call_later(0.01, victim.kill)
                killed = True
            try:
                (acknowledged,) = await store.multi(Set("/counter", b"x", acknowledged))
            except OutcomeUnknown:
                unknown += 1
                acknowledged = await read_back(store, acknowledged)
            except StoreUnavailable:
                await available(store)
        assert killed
        node = await store.read("/counter")
        assert node is not None
        assert node.version == acknowledged
        assert acknowledged > 590
        # A change that was refused is refused for certain.
        with pytest.raises(BadVersion):
            await store.multi(Set("/counter", b"", acknowledged + 7))


async def read_back(store: MetadataStore, before: int) -> int:
    await available(store)
    node = await store.read("/counter")
    assert node is not None
    assert node.version in (before, before + 1)
    return node.version


async def test_without_a_majority_the_store_is_away_and_comes_back(ensemble: Ensemble) -> None:
    async with opened(ensemble.address, 2_000) as metadata:
        store = metadata.connect()
        await store.multi(Create("/a", b"1"), Create("/broker", b"", True))
        watch = store.watch()
        watch.pending()
        for server in ensemble.servers[:2]:
            server.kill()
        # The survivor may answer for a moment, until it knows that it is alone.
        while not store.may_be_outdated():
            with suppress(StoreUnavailable, OutcomeUnknown):
                await store.multi(Set("/a", b"2"))
            await asyncio.sleep(0.02)
        with pytest.raises(StoreUnavailable):
            await store.read("/a")
        watch.pending()
        for server in ensemble.servers[:2]:
            server.start()
        assert EVERYTHING in await watch.next()
        # It has a connection, and may have missed a change for too long.
        assert store.may_be_outdated()
        store.note_all_read(store.resumptions)
        assert not store.may_be_outdated()
        await store.multi(Set("/a", b"3"))
        node = await store.read("/a")
        assert node is not None
        assert node.value == b"3"


BROKER = """
import asyncio, sys
from odradek.metadata import Create
from odradek.metadata.zookeeper import ZookeeperMetadata
from odradek.world import World

async def main():
    store = ZookeeperMetadata(sys.argv[1], World(), session_timeout_ms=1500).connect()
    session = 0
    while True:
        session = await store.next_session(session)
        await store.multi(Create("/broker", str(session).encode(), True))
        print(session, flush=True)

asyncio.run(main())
"""


@contextmanager
def broker_process(address: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", BROKER, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            yield broker
        finally:
            broker.send_signal(signal.SIGCONT)
            broker.kill()


async def test_a_stopped_broker_expires_and_comes_back_with_another_session(server: str) -> None:
    address = f"{server}/{uuid.uuid4().hex}"
    async with opened(address) as metadata:
        witness = metadata.connect()
        watch = witness.watch()
        await witness.read("/")
        with broker_process(address) as broker:
            assert broker.stdout is not None
            first = await asyncio.to_thread(broker.stdout.readline)
            watch.pending()
            broker.send_signal(signal.SIGSTOP)
            while await witness.read("/broker") is not None:
                await told(watch, "/broker")
            broker.send_signal(signal.SIGCONT)
            second = await asyncio.to_thread(broker.stdout.readline)
            assert int(second) != int(first)
            node = await witness.read("/broker")
            assert node is not None
            assert node.owner == int(second)


async def test_the_next_life_ends_the_session_of_a_killed_one(server: str, tmp_path: Path) -> None:
    address = f"{server}/{uuid.uuid4().hex}"
    path = tmp_path / "zookeeper.session"
    async with opened(address, 20_000, remembered=path) as metadata:
        dead = metadata.connect()
        await dead.read("/")
        assert not path.exists()  # It holds nothing that anybody would wait for.
        await dead.multi(Create("/broker", b"", True), Create("/controller", b"", True))
        async with opened(address, 20_000, remembered=path) as next_life:
            store = next_life.connect()
            await store.read("/")
            watch = store.watch()
            assert not await store.end_session(dead.session_id + 1)
            assert await store.end_session(dead.session_id)
            for gone in ("/broker", "/controller"):
                while await store.read(gone) is not None:
                    await told(watch, gone)
            # What is over already can be ended again.
            assert await store.end_session(dead.session_id)
            await store.multi(Create("/broker", b"", True))
            assert str(store.session_id) in path.read_text()
        assert not path.exists()  # Closed by who had it.


async def test_other_clients_read_kafkas_paths_and_their_changes_are_seen(server: str) -> None:
    chroot = f"/{uuid.uuid4().hex}/deep"
    async with opened(server + chroot) as metadata:
        store = metadata.connect()
        cluster_id = await store_setup.prepare_store(store, "cluster")
        keeper = MetadataCache(store)
        await keeper.load()
        following = asyncio.ensure_future(keeper.run())
        seat = node_values.Controller(BrokerId(3), 1).encode()
        await keeper.write(Create(paths.CONTROLLER, seat, ephemeral=True))
        await keeper.write(
            Create(
                paths.topic_path("t"),
                node_values.TopicAssignment(TopicId(bytes(15) + b"1"), ((BrokerId(3),),)).encode(),
            )
        )
        assert (keeper.image.cluster_id, keeper.image.controller_id) == (cluster_id, 3)

        def look_and_delete() -> None:
            with plain_client(server + chroot) as client:
                assert client.get_children("/brokers/topics") == ["t"]
                value, stat = client.get("/controller")
                assert value == seat
                assert stat.ephemeralOwner == store.session_id
                client.delete("/controller")

        number = keeper.image.number
        deleting = asyncio.create_task(asyncio.to_thread(look_and_delete))
        image = await keeper.newer_than(number)
        assert image.controller_id == -1
        await deleting
        following.cancel()


async def test_a_change_too_big_for_zookeeper_is_refused_before_it_is_sent(server: str) -> None:
    async with opened(f"{server}/{uuid.uuid4().hex}") as metadata:
        store = metadata.connect()
        with pytest.raises(ChangeTooBig, match="is more than ZooKeeper takes at once"):
            await store.multi(Create("/a", bytes(2_000_000)))
        await store.multi(Create("/a", bytes(900_000)))


async def test_a_topic_of_thousands_of_partitions_is_made_and_deleted_in_parts(server: str) -> None:
    async with opened(f"{server}/{uuid.uuid4().hex}", 20_000) as metadata:
        store = metadata.connect()
        await store_setup.prepare_store(store, "cluster")
        listener = parse_listener("PLAINTEXT://h:1")
        registration = node_values.BrokerRegistration(
            (listener,), {"PLAINTEXT": "PLAINTEXT"}
        ).encode()
        await store.multi(*(Create(paths.broker_path(one), registration) for one in (1, 2, 3)))
        images = MetadataCache(store)
        await images.load()
        topics = Topics(store, images, LiveSettings(BrokerSettings()), Randomness(1))
        await topics.create(NewTopic("big", 6_000, 3))
        partitions = images.image.topics["big"].partitions
        assert len(partitions) == 6_000
        assert all(partition.leader in (1, 2, 3) for partition in partitions)
        await topics.delete("big")
        assert "big" not in images.image.topics
        assert await store.children(paths.TOPICS) == []


async def test_nobody_answers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with opened(f"127.0.0.1:{port}/x", 300) as metadata:
        store = metadata.connect()
        with pytest.raises(StoreUnavailable, match=f"no ZooKeeper answers at 127.0.0.1:{port}"):
            await store.read("/")
        assert store.may_be_outdated()


async def test_what_is_waited_for_is_said(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    world = World()
    metadata = ZookeeperMetadata(
        f"127.0.0.1:{port}", world, session_timeout_ms=300, connection_timeout_ms=2_000
    )
    try:
        with pytest.raises(StoreUnavailable, match="start one, or mend zookeeper"):
            await metadata.connect().read("/")
    finally:
        await metadata.close()
        world.workers.close()
    said = [one.getMessage() for one in caplog.records if "waiting for" in one.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"waiting for ZooKeeper at 127.0.0.1:{port}, for 2 s at most")


@pytest.mark.parametrize("by_file", [False, True])
def test_the_command_runs_a_server_until_interrupted(tmp_path: Path, by_file: bool) -> None:
    jars = need(zookeeper_jars)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "odradek.cli", "zookeeper"]
    if by_file:
        file = tmp_path / "zookeeper.properties"
        file.write_text(
            f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\n4lw.commands.whitelist=ruok,srvr\n"
            "autopurge.purgeInterval=1\nautopurge.snapRetainCount=3\n"
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
        )
        command.append(str(file))
    else:
        command += ["--port", str(port), "--data", str(tmp_path / "data")]
    environment = {**os.environ, "ODRADEK_ZOOKEEPER_JARS": str(jars)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline().startswith("ZooKeeper: ")
            with plain_client(f"127.0.0.1:{port}") as client:
                assert is_serving(port)
                client.create("/a", b"kept")
            running.send_signal(signal.SIGINT)
            running.wait(timeout=20)
        finally:
            running.kill()
    assert (tmp_path / "data" / "version-2").is_dir()


def test_the_command_takes_a_file_or_flags_and_options_of_the_jvm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from odradek.cli.main import main
    from odradek.cli.running.zookeeper import server_command

    need(java_program)
    file = tmp_path / "zookeeper.properties"
    file.write_text("tickTime=1000\n")
    assert main(["zookeeper", str(file), "--port", "1"]) == 2
    assert main(["zookeeper", str(file)]) == 1
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.auth.login.config='a b' -Dx=y")
    command = server_command("file", "jars/*")
    assert "-Djava.security.auth.login.config=a b" in command
    assert command[-2:] == ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "file"]


def test_the_command_says_how_to_get_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from odradek.cli.running.zookeeper import server_command
    from odradek.tools.failures import CommandFailed

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed, match="ZooKeeper needs Java: apt-get install"):
        server_command("config")
