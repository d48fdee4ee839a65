"""The process of one query. It is forked by `spark.turns.zygote`, and talks with two others.

With the program that has the query, over the socket `hub`: it gets the query, and later the orders
to pause, to go on and to stop; it tells its state after each turn, and twice a second that it is
alive. With Spark, over a socket of its own: the query of Spark gives it a turn, and gets to know at
its end how many records were read.

The query runs in a `Runner`, so results, state and offsets are one transaction here as everywhere,
and whoever starts the query anew fences this process (`streams.process.runner`).
"""

import asyncio
import contextlib
import logging
from typing import Final

from odradek.spark.turns import hosting
from odradek.spark.turns.hosting import BEAT_S, Hub
from odradek.spark.turns.messages import Message, encoded, received
from odradek.spark.turns.turns import GivenTurns
from odradek.streams.process.runner import Runner, State
from odradek.streams.spark.given import GivenQuery
from odradek.world.unix_sockets import listening_socket

_log: Final = logging.getLogger("odradek.sql.processing")


def host(directory: str, key: str) -> None:
    """Runs in the new process until the query ends, and ends the process."""
    hosting.run(directory, key, _converse)


async def _converse(path: str, given: Message, hub: Hub) -> None:
    with contextlib.suppress(ConnectionError):
        try:
            query = GivenQuery.of(given["query"])
            turns = GivenTurns()
            runner = _runner(query, turns)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the query's status
            hub.say({"failed": " ".join(f"{type(error).__name__}: {error}".split())})
            return
        if given["is_paused"]:
            runner.pause()
        await _Host(path, runner, turns, hub).run()


def _runner(query: GivenQuery, turns: GivenTurns) -> Runner:
    return Runner(
        query.make_plan(), query.application_id, query.client, start=query.start,
        replication_factor=query.replication_factor,
        on_bad_record=query.on_bad_record, on_bad_result=query.on_bad_result, turns=turns,
    )  # fmt: skip


class _Host:
    def __init__(self, path: str, runner: Runner, turns: GivenTurns, hub: Hub) -> None:
        self._path = path
        self._runner = runner
        self._turns = turns
        self._hub = hub

    async def run(self) -> None:
        with listening_socket(self._path) as listener:
            server = await asyncio.start_unix_server(self._give_turns, sock=listener)
            beating = asyncio.create_task(self._beat())
            running = asyncio.create_task(self._runner.run())
            ordered = asyncio.create_task(self._obey())
            await asyncio.wait({running, ordered}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                # Only another instance ends it.
                self._hub.say({"ended": self._runner.error})
            ordered.cancel()
            running.cancel()
            await asyncio.gather(running, ordered, return_exceptions=True)
            server.close()
            beating.cancel()

    async def _beat(self) -> None:
        """Says that the process is alive, and why it does no work, if it does none."""
        while True:
            if self._runner.state in (State.ERROR, State.PAUSED):
                self._tell()
            else:
                self._hub.say({"alive": True})
            await asyncio.sleep(BEAT_S)

    async def _obey(self) -> None:
        """Returns when the query is to stop."""
        while (order := await self._hub.heard()) is not None and "stop" not in order:
            self._runner.pause() if order["pause"] else self._runner.resume()
            self._tell()

    async def _give_turns(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # It is cancelled when the process ends; asyncio would log that.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while (order := await received(reader)) is not None:
                before = self._runner.figures.records
                await self._turns.give(order["turn_ms"] / 1000)
                records = self._runner.figures.records - before
                is_running = self._runner.state in (State.RUNNING, State.PAUSED)
                writer.write(encoded({"running": is_running, "records": records}))
                await writer.drain()
                self._tell()
        writer.close()

    def _tell(self) -> None:
        runner = self._runner
        figures = runner.figures
        offsets = [[*partition, offset] for partition, offset in figures.offsets.items()]
        self._hub.say(
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
