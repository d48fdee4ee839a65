"""The broker that keeps a group or a transactional id: found, asked, and found again.

Purpose: `ask` sends a request to the coordinator and says honestly what came of it; whoever
asks decides about errors of the answer and calls `forget` when the coordinator has moved.
Place: between `cluster` and all that works with groups and transactions.
"""

import asyncio
from typing import TypeVar

from odradek.client.cluster import Broker, Cluster
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType, look_up
from odradek.client.errors import ClientError
from odradek.protocol.errors import CoordinatorError, raise_for
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId

R = TypeVar("R", bound=Response)

PURPOSE = "coordinator"
"""Of the connection: what is asked here never waits behind fetches and the like."""


class Coordinator:
    """The coordinator of one key."""

    def __init__(self, cluster: Cluster, kind: KeyType, key: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._broker: BrokerId | None = None
        self._finding: asyncio.Task[BrokerId] | None = None

    async def ask(
        self,
        message: Request,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        purpose: str = PURPOSE,
    ) -> R:
        """Sends a request and returns the answer; a connection that is lost forgets the broker."""
        connection = await self.connection(purpose)
        try:
            return await connection.request(
                message, response_class, timeout_ms=timeout_ms, max_version=max_version
            )
        except ClientError:
            self.forget()
            raise

    async def connection(self, purpose: str = PURPOSE) -> Connection:
        broker = self._broker
        if broker is None:
            broker = await self.find()
        try:
            return await self._cluster.connection(broker, purpose)
        except ClientError:
            self.forget()
            raise

    def forget(self) -> None:
        """It is somebody else's now, or nobody's: the next request looks it up."""
        self._broker = None

    def forget_if_moved(self, error: BaseException) -> None:
        if isinstance(error, CoordinatorError):
            self.forget()

    async def find(self) -> BrokerId:
        """Looks it up, again until it is found; raises what asking again does not cure."""
        if self._finding is None:
            self._finding = asyncio.get_running_loop().create_task(
                self._cluster.retry.run(self._look_up)
            )
            self._finding.add_done_callback(self._found)
        return await asyncio.shield(self._finding)

    def _found(self, task: "asyncio.Task[BrokerId]") -> None:
        self._finding = None
        if not task.cancelled() and task.exception() is None:
            self._broker = task.result()

    async def _look_up(self) -> BrokerId:
        connection = await self._cluster.any_connection()
        (one,) = await look_up(connection, self._kind, [self._key])
        raise_for(one.error_code, one.error_message)
        broker = Broker(BrokerId(one.node_id), one.host, one.port)
        known = self._cluster.view.brokers.get(broker.id)
        if known is None or (known.host, known.port) != (broker.host, broker.port):
            self._cluster.view.brokers[broker.id] = broker
        return broker.id

    async def close(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
