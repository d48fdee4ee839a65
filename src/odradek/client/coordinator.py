"""The coordinator of one group or transactional id: looked up, asked, and looked up again.

Group membership, committed offsets and transactions send their requests with `ask`. It raises an
error of the connection; errors in the answer are the caller's to handle, which calls
`forget_if_moved` with them.
"""

import asyncio
from typing import TypeVar

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import Broker
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType, look_up
from odradek.client.errors import ClientError
from odradek.protocol.errors import CoordinatorError, raise_for
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId

R = TypeVar("R", bound=Response)

PURPOSE = "coordinator"
"""The purpose of the connection: requests to coordinators never wait behind fetches."""


class Coordinator:
    """The coordinator of one key."""

    def __init__(self, cluster: Cluster, kind: KeyType, key: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._broker: BrokerId | None = None
        self._finding: asyncio.Task[BrokerId] | None = None
        # Why the look-up that is under way has not found it yet.
        self._fault: BaseException | None = None

    async def ask(
        self,
        message: Request,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        purpose: str = PURPOSE,
    ) -> R:
        """Sends a request and returns the answer.

        If the connection fails, the coordinator is looked up again for the next request.
        """
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
        """Makes the next request look the coordinator up, because it may have moved."""
        self._broker = None

    def forget_if_moved(self, error: BaseException) -> None:
        if isinstance(error, CoordinatorError):
            self.forget()

    async def find(self) -> BrokerId:
        """Looks the coordinator up, until it is found; raises an error that is not
        retriable. Callers share one look-up."""
        if self._finding is None:
            self._finding = asyncio.get_running_loop().create_task(
                self._cluster.retry.run(self._look_up, on_retry=self._note_failure)
            )
            self._finding.add_done_callback(self._keep_result)
        return await asyncio.shield(self._finding)

    def lookup_fault(self) -> BaseException | None:
        """Returns why requests wait, if they wait for a coordinator that is not found."""
        return self._fault

    def _note_failure(self, error: BaseException) -> None:
        self._fault = error

    def _keep_result(self, task: "asyncio.Task[BrokerId]") -> None:
        self._finding = self._fault = None
        if not task.cancelled() and task.exception() is None:
            self._broker = task.result()

    async def _look_up(self) -> BrokerId:
        connection = await self._cluster.any_connection()
        (answer,) = await look_up(connection, self._kind, [self._key])
        raise_for(answer.error_code, answer.error_message)
        broker = Broker(BrokerId(answer.node_id), answer.host, answer.port)
        known_broker = self._cluster.view.brokers.get(broker.id)
        if known_broker is None or (known_broker.host, known_broker.port) != (
            broker.host,
            broker.port,
        ):
            self._cluster.view.brokers[broker.id] = broker
        return broker.id

    async def close(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
