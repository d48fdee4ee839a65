"""Replies on real sockets: everything arrives, in order, and a slow reader costs a little."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.network.reply_writer import CHUNK_BYTES, Parts, ReplyWriter
from odradek.storage import Slice
from odradek.storage.descriptors import Descriptors, SegmentFile
from odradek.world import MemoryDisk
from odradek.world.disk import Disk, OsDisk

SIZE = 3_000_000
CONTENT = bytes(number * number % 251 for number in range(SIZE))


class Sender(asyncio.Protocol):
    """The side that is tested: sends `parts` on connecting, and counts what was held back."""

    def __init__(self, parts: Callable[[], Parts]) -> None:
        self.parts = parts
        self.out = ReplyWriter(asyncio.get_running_loop(), self.drained)
        self.max_held = 0
        self.is_made = asyncio.Event()
        self.is_drained = asyncio.Event()
        self.is_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.out.open(transport)
        self.out.limit_send_buffer(50_000)
        self.out.send(self.parts())
        self.is_made.set()

    def pause_writing(self) -> None:
        self.out.is_paused = True
        self.max_held = max(self.max_held, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.out.resume()

    def drained(self) -> None:
        self.is_drained.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.out.end()
        self.is_lost.set()


async def connected(parts: Callable[[], Parts]) -> tuple[Sender, asyncio.StreamReader]:
    """A sender, and a reader that takes little at a time."""
    loop = asyncio.get_running_loop()
    sender = Sender(parts)
    server = await loop.create_server(lambda: sender, "127.0.0.1", 0)
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    await loop.sock_connect(peer, server.sockets[0].getsockname())
    reader, writer = await asyncio.open_connection(sock=peer, limit=4096)
    reader.writer = writer  # type: ignore[attr-defined]
    await sender.is_made.wait()
    server.close()
    return sender, reader


async def close(sender: Sender, reader: asyncio.StreamReader) -> None:
    reader.writer.close()  # type: ignore[attr-defined]
    sender.transport.abort()
    await sender.is_lost.wait()


def log_file(disk: Disk, path: str) -> SegmentFile:
    file = SegmentFile(path, Descriptors(disk))
    file.pin(create=True).write_at(0, [CONTENT])
    return file


@pytest.mark.parametrize("on_disk", [True, False], ids=["sendfile", "memory"])
async def test_parts_arrive_in_order_and_little_is_held(tmp_path: Path, on_disk: bool) -> None:
    disk: Disk = OsDisk() if on_disk else MemoryDisk()
    file = log_file(disk, str(tmp_path / "log") if on_disk else "/log")
    slices = [Slice(file, 0, SIZE), Slice(file, 1000, SIZE - 5000)]
    sender, reader = await connected(lambda: [b"one", slices[0], b"two", b"three", slices[1]])
    for _ in range(20):
        await asyncio.sleep(0)
    assert not sender.is_drained.is_set()
    expected = b"one" + CONTENT + b"twothree" + CONTENT[1000 : SIZE - 4000]
    assert await reader.readexactly(len(expected)) == expected
    await sender.is_drained.wait()
    assert 0 < sender.max_held <= (32_768 if on_disk else CHUNK_BYTES)
    assert file.pins == 1
    await close(sender, reader)


async def test_a_small_reply_lets_the_file_go_before_it_is_read(tmp_path: Path) -> None:
    file = log_file(OsDisk(), str(tmp_path / "log"))
    parts: Parts = [b"header", Slice(file, 10, 500), b"middle", Slice(file, 0, 100)]
    sender, reader = await connected(lambda: parts)
    assert file.pins == 1
    assert not sender.out.parts
    expected = b"header" + CONTENT[10:510] + b"middle" + CONTENT[:100]
    assert await reader.readexactly(len(expected)) == expected
    await close(sender, reader)


async def test_a_small_reply_that_cannot_be_read_releases_all_its_slices(tmp_path: Path) -> None:
    file = log_file(OsDisk(), str(tmp_path / "log"))
    parts: Parts = [b"header", Slice(file, SIZE - 100, 200), Slice(file, 0, 100)]
    sender, reader = await connected(lambda: parts)
    await sender.is_lost.wait()
    assert file.pins == 1
    assert await reader.read() == b""
    reader.writer.close()  # type: ignore[attr-defined]


async def test_what_the_transport_holds_goes_first(tmp_path: Path) -> None:
    file = log_file(OsDisk(), str(tmp_path / "log"))
    sender, reader = await connected(lambda: [b"x" * 400_000])
    sender.out.send([b"header", Slice(file, 0, SIZE)])
    got = await reader.readexactly(400_000 + 6 + SIZE)
    assert got == b"x" * 400_000 + b"header" + CONTENT
    await close(sender, reader)


async def test_a_reader_that_leaves_lets_the_file_go(tmp_path: Path) -> None:
    file = log_file(OsDisk(), str(tmp_path / "log"))
    sender, reader = await connected(lambda: [b"header", Slice(file, 0, SIZE)])
    assert file.pins == 2
    reader.writer.transport.abort()  # type: ignore[attr-defined]
    await sender.is_lost.wait()
    assert file.pins == 1
    assert not sender.out.parts


async def test_a_file_that_is_too_short_ends_the_connection(tmp_path: Path) -> None:
    file = log_file(OsDisk(), str(tmp_path / "log"))
    sender, reader = await connected(lambda: [b"header", Slice(file, SIZE - 100, 200)])
    await sender.is_lost.wait()
    assert file.pins == 1
    reader.writer.close()  # type: ignore[attr-defined]
