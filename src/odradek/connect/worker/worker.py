"""The worker: it runs the tasks that are its share, and leads the group if it is chosen to.

    config topic --> ConfigState --+
                                   +--> one TaskKeeper a task --> engine --> status topic
    group --> Shares --------------+
                                   +--> Planner, if this worker leads --> config topic

Everything follows from two inputs, the configurations and the shares; `_reconcile` compares what
runs here with what should, whenever one of them has changed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from odradek import __version__
from odradek.connect.engine.connector_log import LOGGING_FOR, ConnectorLog
from odradek.connect.engine.context import is_source
from odradek.connect.engine.engine import Engine, TaskId, TaskListener
from odradek.connect.errors import InvalidConfig
from odradek.connect.worker.config_state import (
    ConfigState,
    LevelRequest,
    Request,
    RestartRequest,
    TargetState,
)
from odradek.connect.worker.config_store import ConfigStore, NotLeader
from odradek.connect.worker.fencing import Fencing
from odradek.connect.worker.planning import Planner
from odradek.connect.worker.secrets import Secrets
from odradek.connect.worker.status_state import (
    State,
    Status,
    StatusRecord,
    connector_status,
    task_status,
    topic_forgotten,
    topic_used,
)
from odradek.connect.worker.status_store import StatusStore
from odradek.connect.worker.task_keeper import TaskKeeper
from odradek.telemetry.logs import set_level
from odradek.world import World

_log = logging.getLogger("odradek.connect")

_RETRY_S: Final = 0.5


class Shares(NamedTuple):
    """What the group has agreed on: who leads, who is there, and who runs which task. `position` is
    how far the leader had read the configurations."""

    generation: int
    leader_url: str
    is_leader: bool
    position: int
    tasks: Mapping[str, tuple[TaskId, ...]]
    """The tasks of each worker, by its URL."""
    fences: bool = True
    """Whether the leader says when the tasks of a source may start. An older version does not."""

    def owner(self, task: TaskId) -> str | None:
        return next((url for url, tasks in self.tasks.items() if task in tasks), None)


def worker_id(url: str) -> str:
    """Returns how a worker is named in states: `host:port`."""
    return url.partition("://")[2]


class Worker(TaskListener):
    def __init__(
        self,
        store: ConfigStore,
        statuses: StatusStore,
        secrets: Secrets,
        world: World,
        fencing: Fencing,
        *,
        restarts_tasks: bool = True,
        tracks_topics: bool = True,
        resets_topics: bool = True,
        logs_directory: str = "",
    ) -> None:
        self.store = store
        self.statuses = statuses
        self.secrets = secrets
        self.log = ConnectorLog(world, logs_directory)
        self.url = ""
        self.shares: Shares | None = None
        self.rebalances = 0
        self._world = world
        self._restarts_tasks = restarts_tasks
        self.tracks_topics = tracks_topics
        self.resets_topics = resets_topics
        self._engine: Engine | None = None
        self._keepers: dict[TaskId, TaskKeeper] = {}
        self._keeping: dict[TaskId, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._leading = asyncio.Event()
        self._led_generation = -1
        # After a refused write the group has to say again who leads: this worker may have been
        # stopped for long, and must not fence the leader that was chosen meanwhile.
        self._must_hear = False
        self.planner = Planner(store, secrets, self._report_connector, fencing)
        self.ask_to_share: Callable[[], None] = lambda: None
        """Lets the group rebalance. The membership sets it when it has joined the group."""
        store.on_change = self._note_change
        store.on_lost = self._note_lost

    @property
    def configs(self) -> ConfigState:
        return self.store.state

    @property
    def id(self) -> str:
        return worker_id(self.url)

    @property
    def is_leading(self) -> bool:
        """Whether changes can be made here: chosen, and earlier leaders fenced."""
        return self._leading.is_set()

    def use(self, engine: Engine) -> None:
        self._engine = engine

    # What changes

    def _note_change(self, request: Request | None) -> None:
        if isinstance(request, RestartRequest):
            self._restart(request)
        elif isinstance(request, LevelRequest):
            with suppress(ValueError):  # Another worker may have loggers that this one has not.
                set_level(request.logger, request.level)
        else:
            self._changed.set()

    def note_shares(self, shares: Shares | None) -> None:
        """Is told what the group has agreed on; None if this worker is not in it any more."""
        self.shares = shares
        self.rebalances += 1
        self._must_hear = False
        if shares is None or not shares.is_leader:
            self._leading.clear()
        self._changed.set()

    async def run(self) -> None:
        """Keeps what runs here as it should be, until it is cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                shares = self.shares
                if shares is not None:
                    await self.store.read_to(shares.position)
                await self._lead_or_follow(shares)
                self._reconcile(shares)
        finally:
            await self._stop()

    async def _lead_or_follow(self, shares: Shares | None) -> None:
        if shares is None or not shares.is_leader or self._must_hear:
            self._led_generation = -1
            self._leading.clear()
            await self.planner.retire()
            await self.store.end()
            return
        if self._led_generation < 0:
            try:
                await self.store.begin()
            except NotLeader as error:
                _log.warning("%s", error)
                await asyncio.sleep(_RETRY_S)
                self._changed.set()
                return
            self._led_generation = shares.generation
            self.planner.lead()
            _log.info("this worker leads the group")
        self._leading.set()
        self.planner.look()
        self._forget_gone()
        known = {task for tasks in shares.tasks.values() for task in tasks}
        if known != set(self.all_tasks()):
            self.ask_to_share()

    def _note_lost(self) -> None:
        """Is called when a write was refused: another worker may lead, or the brokers were away."""
        self._must_hear = True
        self._leading.clear()
        self.ask_to_share()
        self._changed.set()

    def all_tasks(self) -> list[TaskId]:
        return [
            TaskId(name, number)
            for name, tasks in self.configs.tasks.items()
            if name in self.configs.connectors
            for number in range(len(tasks))
        ]

    def _reconcile(self, shares: Shares | None) -> None:
        existing = set(self.all_tasks())
        mine = set(() if shares is None else shares.tasks.get(self.url, ())) & existing
        for task in list(self._keepers):
            if task not in mine:
                self._keepers[task].end()
        for task in mine:
            keeper = self._keeper(task)
            if self.configs.target(task.connector) is not TargetState.STARTED:
                keeper.rest(State.PAUSED)
            elif shares is not None and shares.fences and self._waits_for_fencing(task.connector):
                keeper.rest(State.UNASSIGNED)
            else:
                keeper.run_with(self.configs.tasks[task.connector][task.number])

    def _waits_for_fencing(self, connector: str) -> bool:
        """Whether tasks of an earlier plan may still write what this connector's new tasks read."""
        if connector not in self.configs.unfenced:
            return False
        try:
            return is_source(self.configs.connectors[connector])
        except InvalidConfig:
            return False  # The engine says what is wrong with it.

    def _keeper(self, task: TaskId) -> TaskKeeper:
        if task not in self._keepers:
            assert self._engine is not None
            keeper = TaskKeeper(
                task,
                self._engine,
                self.secrets.resolved,
                self._report_task,
                restarts=self._restarts_tasks,
            )
            self._keepers[task] = keeper
            self._keeping[task] = asyncio.create_task(self._keep(keeper), name=f"connect-{task}")
        return self._keepers[task]

    async def _keep(self, keeper: TaskKeeper) -> None:
        try:
            await keeper.run()
        finally:
            if self._keepers.get(keeper.task) is keeper:
                del self._keepers[keeper.task]
                del self._keeping[keeper.task]
                self._changed.set()  # It may be wanted again by now.

    def _forget_gone(self) -> None:
        """Removes the states of what does not exist any more; the leader does that for all."""
        known, records = set(self.all_tasks()), []
        state = self.statuses.state
        for task in state.tasks:
            if task not in known:
                records.append(task_status(task, None))
        for name in state.connectors:
            if name not in self.configs.connectors:
                records.append(connector_status(name, None))
        for name, topics in state.topics.items():
            if name not in self.configs.connectors:
                records += [topic_forgotten(name, topic) for topic in topics]
        if records:
            self.statuses.put(records)

    def running_tasks(self) -> int:
        """Returns how many tasks run here."""
        return sum(keeper.state is State.RUNNING for keeper in self._keepers.values())

    # Restarts

    def restart_task(self, task: TaskId) -> bool:
        """Restarts a task; returns whether it is one of this worker."""
        keeper = self._keepers.get(task)
        if keeper is not None:
            keeper.restart()
        return keeper is not None

    def _restart(self, request: RestartRequest) -> None:
        if not request.only_failed or self.planner.has_failed(request.connector):
            self.planner.restart(request.connector)
        if not request.includes_tasks:
            return
        for task, keeper in self._keepers.items():
            if task.connector == request.connector and (
                not request.only_failed or keeper.state is State.FAILED
            ):
                keeper.restart()

    # States

    def _report_connector(self, name: str, state: State, trace: str | None) -> None:
        status = self._status(state, trace)
        self.statuses.put([connector_status(name, status)])

    def _report_task(self, task: TaskId, state: State, trace: str | None) -> None:
        self.statuses.put([task_status(task, self._status(state, trace))])

    def _status(self, state: State, trace: str | None) -> Status:
        generation = 0 if self.shares is None else self.shares.generation
        return Status(state, self.id, generation, trace, __version__)

    def status_of_task(self, task: TaskId) -> Status:
        """Returns the state of a task. What a worker said that is gone is not true any more."""
        known = self.statuses.state.tasks.get(task)
        if known is None:
            return Status(State.UNASSIGNED, self._owner_id(task))
        return self._as_of_now(known)

    def status_of_connector(self, name: str) -> Status:
        known = self.statuses.state.connectors.get(name)
        target = self.configs.target(name)
        if target is TargetState.STOPPED and known is not None:
            return Status(State.STOPPED, known.worker_id, known.generation, None, known.version)
        if known is None:
            return Status(State.UNASSIGNED, self.id)
        return self._as_of_now(known)

    def _as_of_now(self, known: Status) -> Status:
        # Without the group this worker runs nothing, and knows nothing of the others.
        is_gone = (
            known.worker_id == self.id and not self._keepers
            if self.shares is None
            else known.worker_id not in map(worker_id, self.shares.tasks)
        )
        if not is_gone:
            return known
        return Status(State.UNASSIGNED, known.worker_id, known.generation, None, known.version)

    def _owner_id(self, task: TaskId) -> str:
        url = None if self.shares is None else self.shares.owner(task)
        return worker_id(url or self.url)

    # What the engine says

    def running(self, task: TaskId) -> None:
        if task in self._keepers:
            self._keepers[task].note_running()

    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        if task in self._keepers:
            self.note_of(task.connector, logging.ERROR, "%s has failed: %s", task, reason)
            self._keepers[task].note_failed(trace or reason)

    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        if task in self._keepers:
            self._keepers[task].note_stalled(f"{reason}\n{trace}".strip())

    def stopped(self, task: TaskId) -> None:
        return  # The keeper waits for the engine itself.

    def used_topic(self, task: TaskId, topic: str) -> None:
        if not self.tracks_topics:
            return
        if topic not in self.statuses.state.topics.get(task.connector, ()):
            self.statuses.put([topic_used(task, topic, self._world.clock.now_ms())])

    # The end

    async def _stop(self) -> None:
        """Ends all tasks here, and says that nobody runs them."""
        mine = list(self._keepers)
        for keeper in list(self._keepers.values()):
            keeper.end()
        await asyncio.gather(*list(self._keeping.values()), return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()
        await self.planner.retire()
        records: list[StatusRecord] = []
        for task in mine:
            known = self.statuses.state.tasks.get(task)
            if known is not None and known.worker_id == self.id:
                records.append(task_status(task, self._status(State.UNASSIGNED, None)))
        self.statuses.put(records)
        await self.store.end()

    def note_of(self, connector: str, level: int, text: str, *args: object) -> None:
        """Writes a line to the log, as one about a connector."""
        token = LOGGING_FOR.set(connector)
        try:
            _log.log(level, text, *args)
        finally:
            LOGGING_FOR.reset(token)
