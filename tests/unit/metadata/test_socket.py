"""Brokers and the metadata service of their machine: what happens when either goes."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from odradek.metadata import (
    Create,
    MetadataStore,
    OutcomeUnknown,
    Set,
    StoreUnavailable,
    Watch,
)
from odradek.metadata.remote import SocketMetadata
from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.store import EVERYTHING
from odradek.world import World
from odradek.world.unix_sockets import socket_address
from tests.unit.metadata.conftest import InlineWorkers, served
from tests.unit.metadata.socket_host import Host, hosted

T = TypeVar("T")


class GatedWorkers:
    """Workers whose calls wait until the gate is opened."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def run_blocking(self, call: Callable[[], T]) -> T:
        self.entered.set()
        await self.gate.wait()
        return call()

    compute = run_blocking

    def close(self) -> None:
        pass


async def available(store: MetadataStore) -> None:
    """Waits until the store answers; the test's own time limit bounds it."""
    while True:
        try:
            await store.read("/")
        except StoreUnavailable:
            await asyncio.sleep(0.005)
        else:
            return


async def until_unavailable(store: MetadataStore) -> None:
    while True:
        await store.read("/")


async def told(watch: Watch, path: str) -> None:
    while not {path, EVERYTHING} & set(await watch.next()):
        pass


BROKER = """
import asyncio, sys
from odradek.metadata import Create
from odradek.metadata.remote import SocketMetadata
from odradek.world import World

async def main():
    store = SocketMetadata(sys.argv[1], World(), session_timeout_ms=int(sys.argv[2])).connect()
    session = 0
    while True:
        session = await store.next_session(session)
        await store.multi(Create("/broker", str(session).encode(), True))
        print(session, store.may_be_outdated(), flush=True)

if len(sys.argv) > 3:
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""

SERVICE = """
import asyncio, sys
from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.world import World

async def main():
    world = World()
    metadata = SqliteMetadata(sys.argv[1] + "/metadata.sqlite", world, has_durable_sessions=True)
    await MetadataService(metadata, sys.argv[1] + "/metadata.sock", world.randomness).start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def process(program: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.send_signal(signal.SIGCONT)
            running.kill()


async def line_of(running: "subprocess.Popen[str]") -> str:
    assert running.stdout is not None
    return (await asyncio.to_thread(running.stdout.readline)).strip()


@pytest.mark.parametrize("loop", [[], ["uvloop"]])
def test_a_killed_broker_is_gone_at_once(tmp_path: Path, loop: list[str]) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            witness = host.brokers().connect()
            watch = witness.watch()
            with process(BROKER, host.path, "60000", *loop) as broker:
                session, in_doubt = (await line_of(broker)).split()
                assert in_doubt == "False"
                node = await witness.read("/broker")
                assert node is not None
                assert node.owner == int(session)
                watch.pending()
                broker.kill()
                await told(watch, "/broker")
                assert await witness.read("/broker") is None
            await witness.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("loop", [[], ["uvloop"]])
def test_a_stopped_broker_expires_and_comes_back_with_another_session(
    tmp_path: Path, loop: list[str]
) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            witness = host.brokers().connect()
            watch = witness.watch()
            with process(BROKER, host.path, "1000", *loop) as broker:
                first = await line_of(broker)
                watch.pending()
                broker.send_signal(signal.SIGSTOP)
                await told(watch, "/broker")
                assert await witness.read("/broker") is None
                broker.send_signal(signal.SIGCONT)
                second = await line_of(broker)
                assert second != first
                assert second.endswith("False")
            await witness.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_session_goes_on_when_the_service_was_killed(
    tmp_path: Path, ending: signal.Signals
) -> None:
    async def scenario() -> None:
        metadata = SocketMetadata(str(tmp_path / "metadata.sock"), World())
        store = metadata.connect()
        with process(SERVICE, str(tmp_path)) as service:
            await store.multi(Create("/broker", b"1", True), Create("/topic", b"t"))
            before = await store.read_tree("/")
            session_id = store.session_id
            watch = store.watch()
            another = asyncio.ensure_future(store.next_session(session_id))
            service.send_signal(ending)
            await asyncio.to_thread(service.wait)
        with pytest.raises(StoreUnavailable):
            await until_unavailable(store)
        with pytest.raises(StoreUnavailable):
            await store.multi(Create("/lost"))
        assert not store.may_be_outdated()
        with process(SERVICE, str(tmp_path)):
            await available(store)
            assert EVERYTHING in await watch.next()
            assert await store.read_tree("/") == before
            assert store.session_id == session_id
            assert not another.done()
            assert not store.may_be_outdated()
            # What the session made is still the session's.
            await store.close()
            witness = metadata.connect()
            assert await witness.children("/") == ["topic"]
            await metadata.close()
        another.cancel()

    asyncio.run(scenario())


def test_who_does_not_come_back_to_a_new_service_is_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        host = Host(tmp_path)
        await host.start()
        metadata = host.brokers(timeout_ms=1_000)
        witness = metadata.connect()
        await witness.multi(Create("/witness", b"", True))
        with process(BROKER, host.path, "1000") as broker:
            await line_of(broker)
            await host.stop()
        await host.start()
        await available(witness)
        assert await witness.children("/") == ["broker", "witness"]
        watch = witness.watch()
        await told(watch, "/broker")
        assert await witness.children("/") == ["witness"]
        await metadata.close()
        await host.stop()

    asyncio.run(scenario())


def test_a_session_that_ended_does_not_return_with_the_next_service(tmp_path: Path) -> None:
    async def scenario() -> None:
        host = Host(tmp_path)
        await host.start()
        metadata = host.brokers()
        mortal, witness = metadata.connect(), metadata.connect()
        await mortal.multi(Create("/a", b"", True), Create("/b", b"", True))
        await witness.multi(Set("/b", b"set by another"), Create("/c", b"", True))
        await mortal.close()
        await host.stop()
        await host.start()
        await available(witness)
        assert await witness.children("/") == ["c"]
        # Nor do nodes of a lone broker: its sessions are its own.
        await metadata.close()
        await host.stop()
        alone = SqliteMetadata(str(tmp_path / "metadata.sqlite"), World(workers=InlineWorkers()))
        assert await alone.connect().children("/") == []
        await alone.close()

    asyncio.run(scenario())


def test_a_stopped_service_expires_nobody_when_it_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        with process(SERVICE, str(tmp_path)) as service:
            await line_of(service)
            path = str(tmp_path / "metadata.sock")
            metadata = SocketMetadata(path, World(), session_timeout_ms=1_000)
            store = metadata.connect()
            await store.multi(Create("/broker", b"", True))
            session_id = store.session_id
            watch = store.watch()
            watch.pending()
            service.send_signal(signal.SIGSTOP)
            change = asyncio.ensure_future(store.multi(Create("/a")))
            reading = asyncio.ensure_future(store.read("/a"))
            with pytest.raises(OutcomeUnknown):
                await change
            with pytest.raises(StoreUnavailable):
                await reading
            with pytest.raises(StoreUnavailable):
                await store.read("/a")
            # Nobody can have expired the session, as long as the pings lie before the service.
            assert not store.may_be_outdated()
            service.send_signal(signal.SIGCONT)
            assert EVERYTHING in await watch.next()
            assert await store.read("/a") is not None
            assert await store.read("/broker") is not None
            assert store.session_id == session_id
            await metadata.close()

    asyncio.run(scenario())


def test_a_change_under_way_when_the_line_is_lost_has_an_unknown_outcome(tmp_path: Path) -> None:
    async def scenario() -> None:
        workers = GatedWorkers()
        async with hosted(tmp_path, World(workers=workers)) as host:
            store = host.brokers().connect()
            await store.read("/")
            change = asyncio.ensure_future(store.multi(Create("/a")))
            await workers.entered.wait()
            await host.service.close()
            with pytest.raises(OutcomeUnknown):
                await change
            workers.gate.set()
            await store.close()

    asyncio.run(scenario())


def test_nobody_answers_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = SocketMetadata(str(tmp_path / "missing"), World(), session_timeout_ms=100)
        store = metadata.connect()
        assert store.may_be_outdated()
        assert store.session_id == 0
        with pytest.raises(StoreUnavailable, match=r"missing is away: No such file"):
            await store.read("/")
        await metadata.close()

    asyncio.run(scenario())


def test_a_path_may_be_longer_than_the_system_takes(tmp_path: Path) -> None:
    async def scenario() -> None:
        deep = tmp_path / ("d" * 120) / ("e" * 120)
        deep.mkdir(parents=True)
        async with served(deep) as metadata:
            assert await metadata.connect().multi(Create("/a")) == [0]
        assert not (deep / "metadata.sock").exists()

    asyncio.run(scenario())


def test_a_name_that_is_itself_too_long_is_refused_in_one_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        with (
            pytest.raises(OSError, match="has more than 103 bytes; choose"),
            socket_address(str(tmp_path / ("n" * 110))),
        ):
            pass
        world = World(workers=InlineWorkers())
        metadata = SqliteMetadata(
            str(tmp_path / "metadata.sqlite"), world, has_durable_sessions=True
        )
        service = MetadataService(metadata, str(tmp_path / "no" / "such"), world.randomness)
        with pytest.raises(StoreUnavailable, match=r"cannot listen at .*: No such file"):
            await service.start()
        await metadata.close()

    asyncio.run(scenario())
