"""The persistent queries that run on this server.

The server that has the partition of the command topic in the servers' group runs all of them. When
it dies, another one gets the partition, and goes on where the transactions of the first one have
ended; the transactional ids fence it if it is still alive.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.sql.engine.catalogue import Catalogue, QueryInfo, QueryStatus
from odradek.sql.engine.placing import AnyRunner
from odradek.sql.errors import SqlError
from odradek.world.clock import SystemClock

_log = logging.getLogger("odradek.sql")
_POLL_MS: Final = 1000
_RETRY_S: Final = 1.0
_SESSION_MS: Final = 6_000
"""How long a dead server keeps its turn: the least that brokers allow by default."""


class RunningQueries:
    def __init__(
        self,
        client: Mapping[str, Any],
        service_id: str,
        make: Callable[[QueryInfo], AnyRunner],
        catalogue: Catalogue,
    ) -> None:
        """`make` returns what runs a query, or raises `SqlError`."""
        self.is_active = False
        self._client = client
        self._group = f"_odradek_sql_{service_id}"
        self._make = make
        self._catalogue = catalogue
        self._refused: dict[str, QueryStatus] = {}
        self._runners: dict[str, tuple[AnyRunner, asyncio.Task[None]]] = {}

    async def run(self, topic: str) -> None:
        """Runs the queries while this server has the partition of the command topic."""
        settings = {
            **self._client,
            "group.id": self._group,
            "session.timeout.ms": _SESSION_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
        while True:
            try:
                async with Consumer(settings) as consumer:
                    consumer.subscribe([topic])
                    while True:
                        await consumer.poll(_POLL_MS)
                        await self._turn(bool(consumer.assignment()))
            except (ClientError, KafkaError, OSError) as error:
                _log.warning("the group of servers is left and joined again: %s", error)
                await self._turn(False)
                await asyncio.sleep(_RETRY_S)

    async def _turn(self, is_active: bool) -> None:
        if is_active and not self.is_active:
            self.is_active = True
            for query in self._catalogue.queries.values():
                self.start(query)
        elif not is_active and self.is_active:
            self.is_active = False
            await self.stop_all()

    def start(self, query: QueryInfo) -> None:
        """Starts a query, if it is this server's turn and it does not run."""
        if not self.is_active or query.id in self._runners:
            return
        try:
            runner = self._make(query)
        except SqlError as error:
            # An earlier version could run it. The others go on.
            _log.error("query %s cannot run any more: %s", query.id, error)
            self._refused[query.id] = QueryStatus("ERROR", str(error), SystemClock().now_ms())
            return
        self._refused.pop(query.id, None)
        task = asyncio.create_task(runner.run(), name=query.id)
        self._runners[query.id] = (runner, task)

    async def stop(self, query_id: str) -> None:
        self._refused.pop(query_id, None)
        runner, task = self._runners.pop(query_id, (None, None))
        if runner is not None and task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def stop_all(self) -> None:
        for query_id in list(self._runners):
            await self.stop(query_id)

    def application_id(self, query_id: str) -> str:
        """Returns the transactional id and group of a query."""
        return f"{self._group}_query_{query_id}"

    def statuses(self) -> dict[str, QueryStatus]:
        """Returns how it is with the queries that run here, or should."""
        return self._refused | {
            query_id: QueryStatus(runner.state.value, runner.error, runner.failed_ms)
            for query_id, (runner, _) in self._runners.items()
        }

    def runner(self, query_id: str) -> AnyRunner | None:
        found = self._runners.get(query_id)
        return None if found is None else found[0]
