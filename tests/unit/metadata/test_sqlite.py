"""The store in a file: what survives, who may open it, and how commits share a disk write."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from odradek.metadata import Create, OutcomeUnknown, Set, StoreUnavailable
from odradek.metadata.sqlite import SqliteMetadata
from odradek.world import World
from tests.unit.metadata.conftest import InlineWorkers

T = TypeVar("T")


def opened(path: Path) -> SqliteMetadata:
    return SqliteMetadata(str(path / "metadata.sqlite"), World(workers=InlineWorkers()))


class GatedWorkers:
    """Lets calls through one by one, when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Semaphore(0)

    async def run_blocking(self, call: Callable[[], T]) -> T:
        self.calls += 1
        await self.gate.acquire()
        return call()

    compute = run_blocking

    def close(self) -> None:
        pass


class FailingWorkers:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def run_blocking(self, call: Callable[[], T]) -> T:
        raise self._error

    compute = run_blocking

    def close(self) -> None:
        pass


def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = opened(tmp_path)
        store = metadata.connect()
        await store.multi(Create("/a", b"\x00\xff"), Create("/a/b"), Create("/gone", b"", True))
        await store.multi(Set("/a", b"2"))
        before = await store.read("/a")
        await metadata.close()

        metadata = opened(tmp_path)
        store = metadata.connect()
        assert await store.read("/a") == before
        assert set(await store.read_tree("/")) == {"/", "/a", "/a/b"}
        await store.multi(Create("/gone", b"", True))
        node = await store.read("/gone")
        assert before is not None
        assert node is not None
        assert node.created > before.created
        await metadata.close()

    asyncio.run(scenario())


def test_numbers_rise_over_openings_even_if_only_ephemeral_nodes_were_made(tmp_path: Path) -> None:
    async def registration() -> int:
        metadata = opened(tmp_path)
        store = metadata.connect()
        await store.multi(Create("/broker", b"", True))
        node = await store.read("/broker")
        await metadata.close()
        assert node is not None
        return node.created

    epochs = [asyncio.run(registration()) for _ in range(3)]
    assert epochs == sorted(set(epochs))


WRITER = """
import asyncio, sys
from odradek.metadata import Create, Set
from odradek.metadata.sqlite import SqliteMetadata
from odradek.world import World

async def main():
    store = SqliteMetadata(sys.argv[1], World()).connect()
    await store.multi(Create("/a", b"0"), Create("/b", b"0"))
    for number in range(1, 100_000):
        value = str(number).encode()
        await store.multi(Set("/a", value), Set("/b", value))
        print(number, flush=True)

asyncio.run(main())
"""


def test_an_acknowledged_change_survives_kill_9_whole(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(100):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
    acknowledged = int(rest[-1]) if rest else 100

    async def scenario() -> None:
        metadata = opened(tmp_path)
        tree = await metadata.connect().read_tree("/")
        # The last change may have reached the disk without its acknowledgement being printed.
        assert int(tree["/a"].value) in (acknowledged, acknowledged + 1)
        assert tree["/a"].value == tree["/b"].value
        await metadata.close()

    asyncio.run(scenario())


def test_a_second_owner_is_refused_in_one_line(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(StoreUnavailable) as caught:
        opened(tmp_path)
    path = tmp_path / "metadata.sqlite"
    assert str(caught.value) == (
        f"cannot open the metadata store {path}: another process is using it"
    )
    asyncio.run(first.close())
    asyncio.run(opened(tmp_path).close())


@pytest.mark.parametrize("content", [b"not a database, but text that is long enough" * 40])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metadata.sqlite").write_bytes(content)
    with pytest.raises(StoreUnavailable, match="file is not a database"):
        opened(tmp_path)


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path).close())
    with sqlite3.connect(tmp_path / "metadata.sqlite") as database:
        database.execute("update store set format = 2")
    database.close()
    with pytest.raises(StoreUnavailable, match="its format is 2; this version reads 1"):
        opened(tmp_path)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        StoreUnavailable,
        match=r"unable to open.*; check that the user of this process may write to ",
    ):
        opened(tmp_path / "missing")


def test_changes_that_wait_share_the_next_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        workers = GatedWorkers()
        metadata = SqliteMetadata(str(tmp_path / "metadata.sqlite"), World(workers=workers))
        store = metadata.connect()
        writes = [asyncio.ensure_future(store.multi(Create("/0")))]
        await asyncio.sleep(0)
        writes += [asyncio.ensure_future(store.multi(Create(f"/{n}"))) for n in range(1, 50)]
        await asyncio.sleep(0)
        # Nothing is seen before it is on the disk.
        assert await store.read_tree("/0") == {}
        writes[7].cancel()
        workers.gate.release()
        await writes[0]
        assert await store.children("/") == ["0"]
        workers.gate.release()
        await asyncio.gather(*writes, return_exceptions=True)
        assert workers.calls == 2
        assert len(await store.children("/")) == 50
        await metadata.close()

    asyncio.run(scenario())


def test_a_session_that_ends_during_the_write_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        workers = GatedWorkers()
        metadata = SqliteMetadata(str(tmp_path / "metadata.sqlite"), World(workers=workers))
        mortal, witness = metadata.connect(), metadata.connect()
        write = asyncio.ensure_future(mortal.multi(Create("/a"), Create("/e", b"", True)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await mortal.close()
        workers.gate.release()
        await write
        assert await witness.children("/") == ["a"]
        await metadata.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("disk I/O error"),
        RuntimeError("cannot schedule new futures after shutdown"),
    ],
)
def test_after_a_failed_write_the_store_stops(tmp_path: Path, error: Exception) -> None:
    async def scenario() -> None:
        world = World(workers=FailingWorkers(error))
        metadata = SqliteMetadata(str(tmp_path / "metadata.sqlite"), world)
        store = metadata.connect()
        with pytest.raises(OutcomeUnknown):
            await store.multi(Create("/a"))
        assert await store.read("/a") is None
        with pytest.raises(StoreUnavailable, match=str(error)):
            await store.multi(Create("/a"))
        await metadata.close()

    asyncio.run(scenario())


def test_nobody_waits_for_a_commit_that_is_cut_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        metadata = SqliteMetadata(str(tmp_path / "metadata.sqlite"), World(workers=GatedWorkers()))
        store = metadata.connect()
        write = asyncio.ensure_future(store.multi(Create("/a")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (committer,) = asyncio.all_tasks() - {write, asyncio.current_task()}
        committer.cancel()
        with pytest.raises(OutcomeUnknown):
            await write
        await metadata.close()

    asyncio.run(scenario())


async def test_a_full_disk_refuses_one_change_and_takes_the_next(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    store = metadata.connect()
    await store.multi(Create("/a", b"1"))
    # SQLite says the same when it may not grow as when the disk has no room.
    metadata._database.execute("pragma max_page_count = 1")
    with pytest.raises(StoreUnavailable, match="is full"):
        await store.multi(Create("/b", bytes(1 << 20)))
    assert await store.read("/b") is None
    await store.multi(Set("/a", b"2"))
    metadata._database.execute("pragma max_page_count = 100000")
    await store.multi(Create("/b", bytes(1 << 20)))
    await metadata.close()
    again = opened(tmp_path)
    found = await again.connect().read("/b")
    assert found is not None
    assert len(found.value) == 1 << 20
    await again.close()
