"""Peers that are silent, slow or speak something else at the store's socket."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from odradek.metadata import (
    Create,
    NodeExists,
    Set,
    wire,
)
from tests.unit.metadata.conftest import served
from tests.unit.metadata.socket_host import hosted


class Stranger:
    """A peer made by hand."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = wire.FrameReader()

    def say(self, message: list[object] | bytes) -> None:
        self._socket.sendall(message if isinstance(message, bytes) else wire.frame(message))

    async def hear(self) -> list[list[object]]:
        """What it is told next; nothing at the end of the connection."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        try:
            data = await loop.sock_recv(self._socket, 1 << 16)
        except ConnectionResetError:
            data = b""
        return self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()


def test_an_open_and_silent_connection_is_told_that_it_expired(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            stranger = Stranger(host.path)
            stranger.say([1, "hello", wire.PROTOCOL, 100, 0, ""])
            ((request, error, _),) = await stranger.hear()
            assert (request, error) == (1, None)
            assert await stranger.hear() == [[0, wire.EXPIRED]]
            assert await stranger.hear() == []
            stranger.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        [1, "read", "/"],
        [1, "hello"],
        wire.frame([1, "hello", wire.PROTOCOL, 5000, 0, ""]) + wire.frame([2, "dance"]),
        wire.frame([1, "hello", wire.PROTOCOL, 5000, 0, ""]) + wire.frame([2, "multi", [["x"]]]),
        (2).to_bytes(4, "big") + b"{}",
        (2).to_bytes(4, "big") + b"\xff\xff",
    ],
)
def test_a_stranger_disturbs_nobody(tmp_path: Path, words: list[object] | bytes) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            store = host.brokers().connect()
            await store.multi(Create("/a"))
            stranger = Stranger(host.path)
            stranger.say(words)
            while await stranger.hear():
                pass
            assert await store.read("/a") is not None
            stranger.close()
            await store.close()

    asyncio.run(scenario())


def test_another_version_of_the_protocol_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            stranger = Stranger(host.path)
            stranger.say([1, "hello", 99])
            ((_, error, _, why),) = await stranger.hear()
            assert error == "StoreUnavailable"
            assert why == "it speaks version 1 of the protocol, this broker 99"
            stranger.close()

    asyncio.run(scenario())


def test_whoever_does_not_read_holds_up_nobody_and_gets_changes_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            stranger = Stranger(host.path)
            stranger.say([1, "hello", wire.PROTOCOL, 60_000, 0, ""])
            await stranger.hear()
            store = host.brokers().connect()
            long = "n" * 200
            await store.multi(*(Create(f"/{long}{number}") for number in range(500)))
            for _ in range(20):
                await store.multi(*(Set(f"/{long}{number}", b"x") for number in range(500)))
            await store.multi(Create("/last"))
            seen: list[str] = []
            while "/last" not in seen:
                for message in await stranger.hear():
                    assert message[1] == wire.CHANGED
                    assert isinstance(message[2], list)
                    seen += message[2]
            # 20 x 500 changes would be 10,000 paths; what gathered came once.
            assert 501 <= len(seen) < 7_000
            stranger.close()
            await store.close()

    asyncio.run(scenario())


def test_a_refusal_crosses_the_socket_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as metadata:
            store = metadata.connect()
            await store.multi(Create("/a", bytes(range(256))))
            node = await store.read("/a")
            assert node is not None
            assert node.value == bytes(range(256))
            with pytest.raises(NodeExists) as caught:
                await store.multi(Create("/a"))
            assert str(caught.value) == "/a: the node exists already"

    asyncio.run(scenario())


def test_the_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hosted(tmp_path) as host:
            assert os.stat(host.path).st_mode & 0o777 == 0o600

    asyncio.run(scenario())


def test_frames_are_cut_wherever_the_bytes_break() -> None:
    messages: list[list[object]] = [[1, "a"], [2, "b", ["/ü"]], [3, None, "x" * 1000]]
    data = b"".join(map(wire.frame, messages))
    for size in (1, 3, 7, len(data)):
        reader = wire.FrameReader()
        found = []
        for start in range(0, len(data), size):
            found += reader.feed(data[start : start + size])
        assert found == json.loads(json.dumps(messages))
