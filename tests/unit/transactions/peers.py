"""Other brokers in memory: each request waits until the test lets it be answered."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from odradek.client.errors import ConnectionClosed
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId
from odradek.replication.peers import PeerUnreachable

R = TypeVar("R", bound=Response)


class MemoryPeer:
    """One broker, as seen over a connection."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self._answer = answer
        self.requests: list[Request] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.breaks = False

    async def request(
        self, message: Request, response_class: type[R], *, timeout_ms: int | None = None
    ) -> R:
        self.requests.append(message)
        self.asked.set()
        await self.may_answer.wait()
        if self.breaks:
            raise ConnectionClosed("the broker died")
        response = self._answer(message)
        assert isinstance(response, response_class)
        return response


class MemoryPeers:
    def __init__(self, **peers: MemoryPeer) -> None:
        self.peers = {int(name.removeprefix("broker_")): peer for name, peer in peers.items()}
        self.purposes: list[tuple[int, str]] = []

    async def connection(self, broker_id: BrokerId, purpose: str) -> MemoryPeer:
        self.purposes.append((broker_id, purpose))
        if broker_id not in self.peers:
            raise PeerUnreachable(f"broker {broker_id} is not there")
        return self.peers[broker_id]
