"""A query with a lane of its own: the side of the program that has it.

It has a process with Spark and Java for itself, which runs `own_query`. It is started again if it
ends, and ends while the query is paused.
"""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Mapping
from typing import Final

from odradek.spark.turns.driver_process import DriverProcess
from odradek.spark.turns.messages import Message
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.runner import Figures, State
from odradek.streams.spark.given import GivenQuery
from odradek.world.clock import SystemClock

_log = logging.getLogger("odradek.streams")
_LANE: Final = "odradek.streams.spark.own_query"
_WORDS: Final[dict[type[nodes.Node], str]] = {
    nodes.Aggregate: "an aggregate",
    nodes.TableSource: "a table",
    nodes.ToTable: "a table",
    nodes.StreamJoin: "a join of streams",
    nodes.StreamTableJoin: "a join with a table",
    nodes.TableJoin: "a join of tables",
    nodes.ForeignKeyJoin: "a join by foreign key",
    nodes.Suppress: "results that wait for the end of their window",
}


def what_needs_state(plan: Plan) -> str | None:
    """Returns what a query in its own lane cannot run, in words; None if it can run the plan."""
    for node in plan.nodes:
        if isinstance(node, nodes.Process):
            return f"the processor {node.name}, which may keep state"
        if node.stores:
            return f"{_WORDS.get(type(node), 'an operator with state')} ({node.name})"
    return None


class OwnRunner:
    """Runs a query until it is stopped: `run` is the task; the rest may be called at any time."""

    def __init__(self, plan: Plan, query: GivenQuery, spark: Mapping[str, str]) -> None:
        """Raises `ValueError` for a plan that needs state."""
        reason = what_needs_state(plan)
        if reason is not None:
            raise ValueError(
                f"a query with a lane of its own keeps no state, and this has {reason}"
            )
        self.plan = plan
        self.application_id = query.application_id
        self.state = State.STARTING
        self.error: str | None = None
        self.failed_ms = 0
        self.figures = Figures()
        self._query = query
        self._spark = dict(spark)
        self._is_paused = False
        self._changed = asyncio.Event()

    @property
    def changelog_topic(self) -> str:
        return f"{self.application_id}-changelog"

    def pause(self) -> None:
        self._is_paused = True
        self._changed.set()

    def resume(self) -> None:
        self._is_paused = False
        self._changed.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        directory = tempfile.mkdtemp(prefix="odradek-own-query-")
        order = {
            "lane": _LANE, "name": self.application_id, "directory": directory,
            "spark": self._spark, "given": self._query.to_text(),
        }  # fmt: skip
        driver = DriverProcess(order, self._note_end, self._on_message)
        try:
            while True:
                self._changed.clear()
                if self._is_paused:
                    await driver.close()
                    self.state, self.error = State.PAUSED, None
                else:
                    self.state = State.STARTING
                    driver.start()
                await self._changed.wait()
        finally:
            await driver.close()
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            self.state = State.STOPPED

    def _on_message(self, message: Message) -> None:
        if "running" in message:
            self.state, self.error = State.RUNNING, None
        elif "batch" in message:
            self.figures.transactions += 1
            self.figures.records += message["records"]

    def _note_end(self, reason: str) -> None:
        self.figures.restarts += 1
        self.state, self.error = State.ERROR, " ".join(reason.split())
        self.failed_ms = SystemClock().now_ms()
        _log.warning("%s: %s", self.application_id, self.error)
