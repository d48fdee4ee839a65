"""The process of one query. `spark.turns.zygote` forks it, and it has two connections.

The first leads to the owner, which is the program that runs the query. The owner sends the query,
and later the orders to pause, to resume and to stop. This process reports its state after each
turn, and sends a heartbeat twice a second.

The second comes from Spark, over a socket of this process. Spark's streaming query gives this
process a turn, and gets at the end of the turn the number of records that it has read.

The query runs in a `Runner`, so its results, state and offsets are written in one transaction, and
another process that takes the query over fences this one (`streams.process.runner`).
"""

import asyncio
import contextlib
import logging
from typing import Final

from odradek.spark.turns import hosting
from odradek.spark.turns.hosting import HEARTBEAT_S, OwnerConnection, TurnTaker
from odradek.spark.turns.messages import Message
from odradek.spark.turns.turns import GivenTurns
from odradek.streams.process.runner import Runner, State
from odradek.streams.spark.given import GivenQuery
from odradek.world.unix_sockets import listening_socket

_log: Final = logging.getLogger("odradek.sql.processing")


def host(directory: str, key: str) -> None:
    """Runs in the new process until the query ends, and ends the process."""
    hosting.run(directory, key, _serve)


async def _serve(path: str, given: Message, owner: OwnerConnection) -> None:
    """Runs the query that the owner has sent, and takes its turns at the socket `path`."""
    with contextlib.suppress(ConnectionError):
        try:
            query = GivenQuery.of(given["query"])
            turns = GivenTurns()
            runner = _runner(query, turns)
        except Exception as error:  # noqa: BLE001 - any error is the query's status
            owner.send({"failed": " ".join(f"{type(error).__name__}: {error}".split())})
            return
        if given["is_paused"]:
            runner.pause()
        await _Host(path, runner, turns, owner).run()


def _runner(query: GivenQuery, turns: GivenTurns) -> Runner:
    return Runner(
        query.make_plan(), query.application_id, query.client, start=query.start,
        replication_factor=query.replication_factor,
        on_bad_record=query.on_bad_record, on_bad_result=query.on_bad_result, turns=turns,
    )  # fmt: skip


class _Host(TurnTaker):
    def __init__(
        self, path: str, runner: Runner, turns: GivenTurns, owner: OwnerConnection
    ) -> None:
        super().__init__(turns)
        self._path = path
        self._runner = runner
        self._owner = owner

    async def run(self) -> None:
        with listening_socket(self._path) as listener:
            server = await asyncio.start_unix_server(self.take_turns, sock=listener)
            heartbeats = asyncio.create_task(self._send_heartbeats())
            running = asyncio.create_task(self._runner.run())
            orders = asyncio.create_task(self._handle_orders())
            await asyncio.wait({running, orders}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                # A runner ends by itself only if another instance of the query has fenced it.
                self._owner.send({"ended": self._runner.error})
            orders.cancel()
            running.cancel()
            await asyncio.gather(running, orders, return_exceptions=True)
            server.close()
            heartbeats.cancel()

    async def _send_heartbeats(self) -> None:
        """Sends heartbeats. While the query is in error or paused, which takes no turns, they are
        reports of its state."""
        while True:
            if self._runner.state in (State.ERROR, State.PAUSED):
                self._report()
            else:
                self._owner.send({"alive": True})
            await asyncio.sleep(HEARTBEAT_S)

    async def _handle_orders(self) -> None:
        """Pauses and resumes the query, and returns when it is to stop."""
        while (order := await self._owner.receive()) is not None and "stop" not in order:
            self._runner.pause() if order["pause"] else self._runner.resume()
            self._report()

    def record_count(self) -> int:
        return self._runner.figures.records

    def is_at_work(self) -> bool:
        return self._runner.state in (State.RUNNING, State.PAUSED)

    def report_turn(self) -> None:
        self._report()

    def _report(self) -> None:
        runner = self._runner
        figures = runner.figures
        offsets = [[*partition, offset] for partition, offset in figures.offsets.items()]
        self._owner.send(
            {
                "state": runner.state.value,
                "error": runner.error,
                "failed_ms": runner.failed_ms,
                "figures": [
                    figures.records, figures.results, figures.transactions, figures.bad_records,
                ],
                "offsets": offsets,
            }
        )  # fmt: skip
