"""The leader of the workers asks each connector for its tasks, and writes them to the config topic.

    configuration or target state changed, restart requested, or time to plan again
        --> plan --> write the tasks if they changed --> fence the tasks of earlier plans
        --> tasks start

Each connector is asked in a thread of its own, so a connector that hangs delays no other. If it
fails, it is shown as failed, and asked again after a pause. Tasks that have not changed are not
written. So nothing restarts when a new leader plans everything again.

The tasks of a source start only after a record says that the tasks of earlier plans are fenced.
Otherwise an earlier task that was suspended could go on, and write the same records as a new task,
whose transactional id is another one.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Final

from odradek.config.redaction import redact
from odradek.connect import plugins
from odradek.connect.engine.connector_log import LOGGING_FOR
from odradek.connect.engine.context import connector_of, is_source
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.errors import InvalidConfig
from odradek.connect.worker.config_state import TargetState, fencing_record, task_records
from odradek.connect.worker.config_store import ConfigStore, NotLeader
from odradek.connect.worker.fencing import Fencing
from odradek.connect.worker.secrets import Secrets
from odradek.connect.worker.status_state import State
from odradek.spark.turns.backoff import Backoff

_log = logging.getLogger("odradek.connect")

_PLAN_TIMEOUT_S: Final = 60.0
Report = Callable[[str, State, str | None], None]
"""Called with the name of a connector, its new state, and the traceback if it has failed."""


class Planner:
    """Plans all connectors while this worker is the leader."""

    def __init__(
        self, store: ConfigStore, secrets: Secrets, report: Report, fencing: Fencing
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._report = report
        self._fencing = fencing
        self._plans: dict[str, _Plan] = {}
        self._is_leading = False

    def lead(self) -> None:
        self._is_leading = True
        self.look()

    async def retire(self) -> None:
        """Ends all planning, because this worker is no longer the leader."""
        self._is_leading = False
        plans, self._plans = self._plans, {}
        for plan in plans.values():
            plan.end()
        await asyncio.gather(*(plan.task for plan in plans.values()), return_exceptions=True)

    def look(self) -> None:
        """Called when configurations have changed."""
        if not self._is_leading:
            return
        state = self._store.state
        for name in list(self._plans):
            if name not in state.connectors:
                self._plans.pop(name).end()
        for name in state.connectors:
            if name not in self._plans:
                self._plans[name] = _Plan(
                    name, self._store, self._secrets, self._report, self._fencing
                )
            self._plans[name].look()

    def restart(self, connector: str) -> None:
        """Plans a connector again, even if its configuration has not changed."""
        if connector in self._plans:
            self._plans[connector].again()

    def has_failed(self, connector: str) -> bool:
        plan = self._plans.get(connector)
        return plan is not None and plan.has_failed


class _Plan:
    """Plans one connector in a background task. `_planned` is the configuration of the last plan,
    `_again_s` the time after which it plans again without a change."""

    def __init__(
        self, name: str, store: ConfigStore, secrets: Secrets, report: Report, fencing: Fencing
    ) -> None:
        self._name = name
        self._fencing = fencing
        self._store = store
        self._secrets = secrets
        self._report = report
        self._planned: Mapping[str, str] | None = None
        self._shown: tuple[State, str | None] | None = None
        self._wake = asyncio.Event()
        self._backoff = Backoff()
        self._again_s: float | None = None
        self._thread = TaskThread(f"plan-{name}")
        self.has_failed = False
        self.task = asyncio.create_task(self._run(), name=f"connect-plan-{name}")

    def look(self) -> None:
        self._wake.set()

    def again(self) -> None:
        self._planned, self._again_s = None, None
        self._wake.set()

    def end(self) -> None:
        self.task.cancel()
        self._thread.close()

    async def _run(self) -> None:
        LOGGING_FOR.set(self._name)
        while True:
            if self._name in self._store.state.connectors:
                await self._step()
            try:
                async with asyncio.timeout(self._again_s):
                    await self._wake.wait()
                self._wake.clear()
            except TimeoutError:
                self._planned, self._again_s = None, None

    async def _step(self) -> None:
        state = self._store.state
        properties, target = state.connectors[self._name], state.target(self._name)
        if target is not TargetState.STARTED:
            self._planned, self._again_s, self.has_failed = None, None, False
            self._report_state(State(target.value))
            return
        is_done = self._name not in state.incomplete and not self._must_fence(properties)
        if properties == self._planned and is_done:
            return
        try:
            replan_s = await self._plan(properties)
        except NotLeader as error:
            _log.info("the tasks of %s are not written: %s", self._name, error)
        except Exception as error:  # noqa: BLE001 - any error is the connector's status
            self._fail(properties, error)
        else:
            self._planned, self._again_s, self.has_failed = properties, replan_s, False
            self._backoff = Backoff()
            self._report_state(State.RUNNING)

    def _fail(self, properties: Mapping[str, str], error: Exception) -> None:
        reason = redact(str(error) or type(error).__name__)
        if isinstance(error, TimeoutError):
            reason = f"it has not returned its tasks within {_PLAN_TIMEOUT_S:.0f} s"
            self._thread.close()
            self._thread = TaskThread(f"plan-{self._name}")
        _log.error("connector %s cannot be planned: %s", self._name, reason)
        self._planned, self.has_failed = properties, True
        self._again_s = self._backoff.next_s(0.0)
        self._report_state(State.FAILED, redact("".join(traceback.format_exception(error))))

    async def _plan(self, properties: Mapping[str, str]) -> float | None:
        """Writes the tasks of a connector if they have changed. Returns after how many seconds the
        connector wants to be asked again, or None."""
        resolved = self._secrets.resolved(properties)
        max_tasks = int(properties.get("tasks.max") or 1)
        async with asyncio.timeout(_PLAN_TIMEOUT_S):
            made, replan_s = await self._thread.call(lambda: _ask(resolved, max_tasks))
        enforces = (properties.get("tasks.max.enforce") or "true").lower() == "true"
        if enforces and len(made) > max_tasks:
            raise InvalidConfig(
                f"the connector has returned {len(made)} tasks, but tasks.max={max_tasks}"
            )
        tasks = [self._secrets.with_references(properties, task) for task in made]
        state = self._store.state
        former = max(state.fenced_counts.get(self._name, 0), len(state.tasks.get(self._name, ())))
        is_current = state.connectors.get(self._name) == properties
        if is_current and (state.tasks.get(self._name) != tasks or self._name in state.incomplete):
            records = task_records(self._name, tasks)
            # A single task needs no fencing: its successor has the same transactional id.
            if is_source(properties) and (former == 0 or former == len(tasks) == 1):
                records.append(fencing_record(self._name, len(tasks)))
            await self._store.write(records)
        if self._must_fence(properties):
            await self._fencing.fence(self._name, resolved, former)
            count = len(state.tasks.get(self._name, ()))
            await self._store.write([fencing_record(self._name, count)])
        return replan_s

    def _must_fence(self, properties: Mapping[str, str]) -> bool:
        return self._name in self._store.state.unfenced and is_source(properties)

    def _report_state(self, state: State, trace: str | None = None) -> None:
        if self._shown != (state, trace):
            self._shown = state, trace
            self._report(self._name, state, trace)


def _ask(
    properties: Mapping[str, str], max_tasks: int
) -> tuple[list[dict[str, str]], float | None]:
    """Returns the properties of a connector's tasks, and after how many seconds to ask again."""
    connector = connector_of(properties)
    # Workers of Apache Kafka Connect, which may read this topic later, need a task's class.
    name = plugins.find_connector(properties["connector.class"]).name
    of_task = {"task.class": f"{name.removesuffix('Connector')}Task"}
    made = [{**task, **of_task} for task in connector.task_properties(properties, max_tasks)]
    if properties.get("odradek.lane") == "own" and not is_source(properties):
        # One query reads all partitions. Tasks on two workers would start two queries.
        del made[1:]
    return made, connector.replan_s
