"""The HTTP service of balance, with Cruise Control's paths, parameters and answers.

    GET   state, load, proposals, user_tasks
    POST  rebalance, add_broker, remove_broker, demote_broker, stop_proposal_execution

A call that could move something does so only with `dryrun=false`. Then the plan is carried out in
the background, and `state` and `user_tasks` tell how far it is. While one runs, another is refused
with 409. Stopping the service stops its run and removes the throttles; after a `kill -9` the
journal tells the next command or service what is left to do.

Parameters of Cruise Control that make no difference here are accepted, and named in the header
`X-Ignored-Parameters`; those that would make one are refused.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response

from odradek.client.errors import ClientError
from odradek.groups.consumer.topic_patterns import InvalidPattern, compile_pattern
from odradek.ops.balance import cruise_control
from odradek.ops.balance.balancer import Balancer, Measuring
from odradek.ops.balance.execution import Options, RunFailed
from odradek.ops.balance.journal import AlreadyRunning, Entry, JournalUnreadable, State
from odradek.ops.balance.plan import Plan
from odradek.ops.balance.planner import Kind, PlanImpossible, Request, excluded_topics
from odradek.ops.balance.report import plan_lines
from odradek.protocol.errors import KafkaError
from odradek.web.application import Application, application
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.guards import PRINCIPAL, Policy
from odradek.web.problems import Problem, json_response
from odradek.world.clock import Clock
from odradek.world.randomness import Randomness

logger = logging.getLogger("odradek.balance")

PREFIX: Final = "/kafkacruisecontrol"
# Clients compare it: from 2.0.61 on, 202 says that an answer is not final.
_CRUISE_CONTROL_VERSION: Final = "2.5.0-odradek"
_KEPT_TASKS: Final = 100

_JSON: Final = Parameter("json", bool, False, "JSON in place of text.")
_VERBOSE: Final = Parameter("verbose", bool, False, "Also what each partition does.")
_DRY_RUN: Final = Parameter("dryrun", bool, True, "Plan only; false carries the plan out.")
_BROKERS: Final = Parameter("brokerid", int, None, "Ids of brokers.", many=True)
_TOPICS: Final = Parameter(
    "excluded_topics", str, None, "A regular expression for topics to leave."
)
_THROTTLE: Final = Parameter(
    "replication_throttle", int, None, "The most bytes a second to and from each broker."
)
_MOVES: Final = Parameter(
    "concurrent_partition_movements_per_broker", int, None, "The most replicas at once."
)
_IGNORED: Final = tuple(
    Parameter(name, is_ignored=True)
    for name in (
        "allow_capacity_estimation", "concurrent_leader_movements", "data_from",
        "exclude_recently_demoted_brokers", "exclude_recently_removed_brokers",
        "execution_progress_check_interval_ms", "get_response_schema", "ignore_proposal_cache",
        "reason", "doAs", "replica_movement_strategies", "review_id", "skip_urp_demotion",
        "exclude_follower_demotion", "throttle_added_broker", "throttle_removed_broker",
        "use_ready_default_goals", "fast_mode", "super_verbose", "substates", "force_stop",
        "stop_external_agent", "start", "end", "time", "populate_disk_info", "capacity_only",
    )
)  # fmt: skip
# They would change what is done, so they are not skipped.
_REFUSED: Final = {
    "goals": "the goals and their order are fixed here",
    "destination_broker_ids": "use add_broker to move replicas to certain brokers",
    "kafka_assigner": "there is no other mode here",
    "rebalance_disk": "moves between the disks of a broker are not there yet",
    "skip_hard_goal_check": "hard goals are always pursued first",
    "stop_ongoing_execution": "call stop_proposal_execution first",
    "brokerid_and_logdirs": "moves between the disks of a broker are not there yet",
}
_REFUSED_PARAMETERS: Final = tuple(Parameter(name) for name in _REFUSED)


@dataclass
class Task:
    """A call, as `user_tasks` shows it."""

    id: str
    url: str
    client: str
    started_ms: int
    status: str = "Active"

    def to_json(self) -> dict[str, Any]:
        return {
            "UserTaskId": self.id,
            "RequestURL": self.url,
            "ClientIdentity": self.client,
            "StartMs": str(self.started_ms),
            "Status": self.status,
        }


class BalanceService:
    """The endpoints, and the run in the background, if there is one."""

    def __init__(
        self,
        balancer: Balancer,
        clock: Clock,
        randomness: Randomness,
        *,
        options: Options,
        request: Request,
        measuring: Measuring,
    ) -> None:
        """`options`, `request` and `measuring` are what applies where a call says nothing else."""
        self._balancer = balancer
        self._clock = clock
        self._randomness = randomness
        self._options = options
        self._request = request
        self._measuring = measuring
        self._tasks: deque[Task] = deque(maxlen=_KEPT_TASKS)
        self._running: tuple[Task, asyncio.Task[None]] | None = None
        self._is_starting = False
        self.endpoints = tuple(self._declare())

    def application(self, policy: Policy) -> Application:
        return application("Odradek balance", "1", self.endpoints, policy, lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        if self._running is not None:
            self._running[1].cancel()
            await asyncio.gather(self._running[1], return_exceptions=True)

    def _declare(self) -> list[Endpoint]:
        declared: list[tuple[str, str, _Answer, str, tuple[Parameter, ...]]] = [
            ("GET", "state", self._state, "What the service is doing.", ()),
            ("GET", "load", self._load, "The load of each broker.", ()),
            ("GET", "proposals", self._proposals, "A plan that makes the load even.",
             (_VERBOSE, _TOPICS)),
            ("GET", "user_tasks", self._user_tasks, "The last calls that planned or moved.", ()),
            ("POST", "stop_proposal_execution", self._stop, "Stops what is being carried out.", ()),
        ]  # fmt: skip
        moving: tuple[Parameter, ...] = (_DRY_RUN, _VERBOSE, _TOPICS, _THROTTLE, _MOVES)
        for name, kind, summary in (
            ("rebalance", Kind.BALANCE, "Makes the load of all brokers even."),
            ("add_broker", Kind.ADD, "Moves replicas to brokers that are new."),
            ("remove_broker", Kind.REMOVE, "Moves everything away from brokers."),
            ("demote_broker", Kind.DEMOTE, "Moves leaders away from brokers."),
        ):
            parameters = moving if kind is Kind.BALANCE else (_BROKERS, *moving)
            declared.append(("POST", name, partial(self._move, kind), summary, parameters))
        endpoints = []
        for method, name, answer, summary, taken in declared:
            known = {parameter.name for parameter in taken} | {"json"}
            others = [
                parameter
                for parameter in (*_IGNORED, *_REFUSED_PARAMETERS)
                if parameter.name not in known
            ]
            endpoint = Endpoint(
                method,
                f"{PREFIX}/{name}",
                _not_set,
                summary,
                (*taken, _JSON, *others),
                changes=method == "POST",
            )
            endpoints.append(replace(endpoint, handler=partial(self._handle, endpoint, answer)))
        return endpoints

    # Every call

    async def _handle(self, endpoint: Endpoint, answer: "_Answer", http: HttpRequest) -> Response:
        headers = {"Cruise-Control-Version": _CRUISE_CONTROL_VERSION}
        try:
            query = endpoint.query(http)
            for name, reason in _REFUSED.items():
                if query.get(name) not in (None, "", "false", "False"):
                    raise Problem(400, f"{name} is not supported: {reason}")
            content, text = await answer(http, query, headers)
        except Problem as problem:
            return _failure(problem.status, problem.message, headers)
        except (PlanImpossible, JournalUnreadable, ValueError) as error:
            return _failure(400, str(error), headers)
        except AlreadyRunning as error:
            return _failure(409, str(error), headers)
        except (ClientError, KafkaError, RunFailed) as error:
            return _failure(503, f"the brokers do not answer as expected: {error}", headers)
        given = http.query_params.keys()
        ignored = [parameter.name for parameter in _IGNORED if parameter.name in given]
        if ignored:
            headers["X-Ignored-Parameters"] = ", ".join(ignored)
        if query["json"]:
            return json_response(content, headers=headers)
        return PlainTextResponse(text + "\n", headers=headers)

    def _note(self, http: HttpRequest, headers: dict[str, str]) -> Task:
        client = http.client.host if http.client is not None else "-"
        task = Task(
            str(self._randomness.uuid()),
            f"{http.method} {http.url.path}",
            f"{http.scope.get(PRINCIPAL, '-')}@{client}",
            self._clock.now_ms(),
        )
        headers["User-Task-ID"] = task.id
        self._tasks.appendleft(task)
        return task

    # Calls that look

    async def _state(self, http: HttpRequest, query: "_Query", headers: "_Headers") -> "_Content":
        progress = await self._balancer.status()
        model = await self._balancer.model(Measuring(rates={}))
        task_id = self._running[0].id if self._running is not None else None
        content = cruise_control.state_json(model, progress, task_id)
        return content, f"ExecutorState: {content['ExecutorState']['state']}"

    async def _load(self, http: HttpRequest, query: "_Query", headers: "_Headers") -> "_Content":
        content = cruise_control.load_json(await self._balancer.model(self._measuring))
        lines = ["BROKER  STATE  REPLICAS  LEADERS  DISK MB"] + [
            f"{row['Broker']:<6}  {row['BrokerState']:5}  {row['Replicas']:<8}  {row['Leaders']:<7}"
            f"  {row['DiskMB']:.1f}"
            for row in content["brokers"]
        ]
        return content, "\n".join(lines)

    async def _user_tasks(
        self, http: HttpRequest, query: "_Query", headers: "_Headers"
    ) -> "_Content":
        rows = [task.to_json() for task in self._tasks]
        text = "\n".join(f"{row['UserTaskId']} {row['Status']} {row['RequestURL']}" for row in rows)
        return {"userTasks": rows, "version": cruise_control.VERSION}, text

    async def _proposals(
        self, http: HttpRequest, query: "_Query", headers: "_Headers"
    ) -> "_Content":
        task = self._note(http, headers)
        with _ending(task):
            plan = await self._plan(Kind.BALANCE, query)
        return self._planned(plan, query, self._options)

    async def _plan(self, kind: Kind, query: "_Query") -> Plan:
        excluded = query["excluded_topics"] or self._request.exclude_topics
        try:
            compile_pattern(excluded or "")
        except InvalidPattern as error:
            raise Problem(400, f"excluded_topics is not a regular expression: {error}") from None
        brokers = frozenset(query.get("brokerid") or ())
        if kind is not Kind.BALANCE and not brokers:
            raise Problem(400, "brokerid is needed: the ids of brokers with commas between")
        request = replace(self._request, kind=kind, brokers=brokers, exclude_topics=excluded)
        return await self._balancer.plan(request, self._measuring)

    def _planned(self, plan: Plan, query: "_Query", options: Options) -> "_Content":
        topics = {name.topic for name in plan.before.partitions}
        content = cruise_control.plan_json(
            plan,
            verbose=bool(query["verbose"]),
            excluded=sorted(excluded_topics(query["excluded_topics"], topics)),
        )
        return content, "\n".join(plan_lines(plan, options))

    # Calls that move

    async def _move(
        self, kind: Kind, http: HttpRequest, query: "_Query", headers: "_Headers"
    ) -> "_Content":
        options = self._options_of(query)
        if not query["dryrun"] and (self._running is not None or self._is_starting):
            raise AlreadyRunning(
                "a plan is being carried out; state shows it, stop_proposal_execution stops it"
            )
        task = self._note(http, headers)
        self._is_starting = self._is_starting or not query["dryrun"]
        try:
            with _ending(task, "Completed" if query["dryrun"] else None):
                plan = await self._plan(kind, query)
                if not query["dryrun"]:
                    await self._start(task, plan, kind, options)
        finally:
            if not query["dryrun"]:
                self._is_starting = False
        return self._planned(plan, query, options)

    def _options_of(self, query: "_Query") -> Options:
        options = self._options
        throttle, moves = query["replication_throttle"], query[_MOVES.name]
        if throttle is not None:
            if throttle < 1000:
                raise Problem(400, "replication_throttle is in bytes a second, 1000 or more")
            options = replace(options, throttle=throttle)
        if moves is not None:
            if moves < 1:
                raise Problem(400, f"{_MOVES.name} is 1 or more")
            options = replace(options, max_moves=moves)
        return options

    async def _start(self, task: Task, plan: Plan, kind: Kind, options: Options) -> None:
        """Returns when the run has begun, or raises why it cannot."""
        if plan.is_empty:
            task.status = "Completed"
            return
        started = asyncio.Event()

        def on_start() -> None:
            task.status = "InExecution"
            started.set()

        run = self._balancer.run(plan, kind.value, options, logger.info, on_start)
        running = asyncio.create_task(self._finish(task, run))
        self._running = task, running
        waiting = asyncio.create_task(started.wait())
        try:
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if running.done() and not started.is_set():
            running.result()

    async def _finish(self, task: Task, run: Coroutine[Any, Any, Entry]) -> None:
        ended = "CompletedWithError"
        try:
            entry = await run
            ended = "Completed" if entry.state is State.COMPLETED else "CompletedWithError"
        except (RunFailed, ClientError, KafkaError) as error:
            logger.warning("The plan could not be carried out: %s", error)
        finally:
            self._running = None
            task.status = ended

    async def _stop(self, http: HttpRequest, query: "_Query", headers: "_Headers") -> "_Content":
        said: list[str] = []
        try:
            entry = await self._balancer.cancel(said.append)
        except TimeoutError:
            raise Problem(503, "the run does not stop; it may be of another process") from None
        message = (
            "Nothing is being carried out." if entry is None else "Proposal execution stopped."
        )
        message = " ".join([message, *said])
        return {"message": message, "version": cruise_control.VERSION}, message


_Query = dict[str, Any]
_Headers = dict[str, str]
_Content = tuple[dict[str, Any], str]
_Answer = Callable[[HttpRequest, _Query, _Headers], Coroutine[Any, Any, _Content]]


async def _not_set(request: HttpRequest) -> Response:
    raise NotImplementedError


class _ending:  # noqa: N801 - used like a function
    """Gives a task its status at the end of a block; None leaves it, unless the block failed."""

    def __init__(self, task: Task, status: str | None = "Completed") -> None:
        self._task = task
        self._status = status

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._task.status = "CompletedWithError"
        elif self._status is not None:
            self._task.status = self._status


def _failure(status: int, message: str, headers: dict[str, str]) -> Response:
    """An error as Cruise Control writes it, with our own keys beside."""
    content = {
        "errorMessage": message,
        "stackTrace": "",
        "version": cruise_control.VERSION,
        "error_code": status,
        "message": message,
    }
    return json_response(content, status=status, headers=headers)
