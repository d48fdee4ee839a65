"""Buffers of sockets that a loop owns: asyncio's and uvloop's alike."""

import asyncio
import socket

import pytest
import uvloop

from odradek.broker.network.listeners import Listeners
from odradek.config import Listener


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connections_inherit_the_receive_buffer_of_their_listener(new_loop: object) -> None:
    sizes: list[int] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found = transport.get_extra_info("socket")
            view = socket.socket(found.family, found.type, found.proto, fileno=found.fileno())
            sizes.append(view.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
            view.detach()
            asyncio.get_running_loop().call_soon(transport.close)

    async def test() -> None:
        where = Listener("PLAINTEXT", "127.0.0.1", 0)
        listeners = Listeners((where,), (where,), 8, receive_buffer_bytes=20_000)
        await listeners.open(lambda name: Accepted())
        await listeners.accept()
        reader, writer = await asyncio.open_connection("127.0.0.1", listeners.advertised()[0].port)
        await reader.read()
        writer.close()
        await listeners.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:  # type: ignore[arg-type]
        runner.run(test())
    # Linux doubles what is asked for, for its own book-keeping.
    assert sizes in ([20_000], [40_000])
