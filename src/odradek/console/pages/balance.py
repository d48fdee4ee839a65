"""Balance: plans with the load of each broker before and after, and runs that carry them out.

Planning and moving are requests of the user, as those of `odradek balance` are, and both share a
journal: on one machine they know of each other's runs. A run goes on when the browser goes; when
the console stops, it stops its moves and removes its throttles.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.responses import Response

from odradek.client.admin.admin import Admin
from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.rendering import duration, size
from odradek.console.rights import require_on_cluster
from odradek.groups.consumer.topic_patterns import InvalidPattern, compile_pattern
from odradek.ops.balance.balancer import Balancer, Measuring
from odradek.ops.balance.execution import Options, Progress, RunFailed, divided
from odradek.ops.balance.journal import AlreadyRunning, JournalUnreadable
from odradek.ops.balance.model import Resource
from odradek.ops.balance.plan import Plan, expected_s
from odradek.ops.balance.planner import Kind, PlanImpossible, Request
from odradek.ops.balance.reading import BalanceAdmin
from odradek.ops.balance.report import throttle_warnings
from odradek.protocol.acls import Operation
from odradek.protocol.errors import KafkaError
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.console.service import ConsoleService

logger = logging.getLogger("odradek.console")

_KINDS: Final = {
    "balance": "Spread replicas, leaders and load evenly",
    "add-broker": "Move replicas to these brokers, which are new",
    "remove-broker": "Move everything away from these brokers",
    "demote-broker": "Move leaders away from these brokers",
}
_MEASURED: Final = {"0": "not at all", "5": "for 5 seconds", "15": "for 15 seconds"}
_MB: Final = 1_000_000
_MAX_PLANS: Final = 5
_PLAN_AGE_S: Final = 600.0
_SHOWN_MOVES: Final = 200
_MAY_NOT: Final = "may not stop a run, which may be another user's"
_COLUMNS: Final = (
    ("Replicas", Resource.REPLICAS, False),
    ("Leads", Resource.LEADERS, False),
    ("Data", Resource.DISK, True),
    ("Bytes in a second", Resource.RATE, True),
)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan that a user looks at."""

    session: str
    cluster: str
    kind: Kind
    plan: Plan
    made_s: float


class BalancePages(Pages):
    def __init__(self, console: "ConsoleService") -> None:
        super().__init__(console)
        self._plans: OrderedDict[str, _Planned] = OrderedDict()
        self._randomness = Randomness()
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, str] = {}

    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/balance", self._form, "What is being balanced, and the form for a plan."),
            self.changes("/balance", self._make, "Makes a plan."),
            self.shows("/balance/plans/{plan}", self._plan, "A plan with before and after."),
            self.changes("/balance/plans/{plan}", self._run, "Carries a plan out."),
            self.changes("/balance/stop", self._stop, "Stops a run."),
            self.changes("/balance/resume", self._resume, "Goes on with an interrupted run."),
        ]

    async def close(self) -> None:
        """Ends the runs of this console; each stops its moves and restores throttles."""
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    # Planning

    async def _form(self, asked: PageRequest, problem: str = "") -> Response:
        balancer = await _balancer(asked)
        progress: Progress | None = None
        notes: list[str] = []
        try:
            progress = await balancer.status()
        except JournalUnreadable as error:
            notes.append(str(error))
        if failure := self._failures.get(asked.cluster.name):
            notes.append(f"The last run failed: {failure}")
        return asked.page(
            "balance.html", "balance", 400 if problem else 200, tab="balance", problem=problem,
            progress=progress, is_running=self._is_running(asked.cluster.name) or (
                progress is not None and progress.is_alive
            ), notes=notes, kinds=_KINDS, measured=_MEASURED,
            journal=balancer.journal.path, fields=dict(asked.form.fields),
        )  # fmt: skip

    async def _make(self, asked: PageRequest) -> Response:
        form = asked.form
        try:
            kind = _kind(form.text("kind"))
            request = Request(
                kind, _brokers(form.text("brokers"), kind), _pattern(form.text("not"))
            )
            seconds = float(form.text("measure", "0")) if form.text("measure") in _MEASURED else 0.0
            plan = await (await _balancer(asked)).plan(request, Measuring(seconds))
        except (BadForm, PlanImpossible) as error:
            return await self._form(asked, str(error))
        while len(self._plans) >= _MAX_PLANS:
            self._plans.popitem(last=False)
        name = self._randomness.bytes(16).hex()
        self._plans[name] = _Planned(
            asked.session.name, asked.cluster.name, kind, plan, asyncio.get_running_loop().time()
        )
        return asked.go(asked.url("balance", "plans", name))

    def _known(self, asked: PageRequest) -> _Planned:
        found = self._plans.get(str(asked.path["plan"]))
        is_old = (
            found is not None
            and asyncio.get_running_loop().time() - found.made_s > _PLAN_AGE_S
        )  # fmt: skip
        who = (asked.session.name, asked.cluster.name)
        if found is None or is_old or (found.session, found.cluster) != who:
            raise Problem(
                404, "this plan is forgotten: the cluster may look otherwise now. Make it again"
            )
        return found

    async def _plan(self, asked: PageRequest, problem: str = "") -> Response:
        planned = self._known(asked)
        plan = planned.plan
        options = _options(asked.form.text("throttle", "50"), asked.form.text("moves", "5"), None)
        waves = divided(plan, options)
        elected = len(
            {move.partition for move in plan.moves if not move.adding} | set(plan.elections)
        )
        return asked.page(
            "balance_plan.html", "balance", 400 if problem else 200, plan=plan, problem=problem,
            kind=_KINDS[planned.kind.value], columns=_columns(plan), rows=_broker_rows(plan),
            moves=plan.moves[:_SHOWN_MOVES], waves=len(waves), elected=elected,
            expected=duration(expected_s(waves, options.throttle)),
            warnings=[*plan.warnings, *throttle_warnings(plan, options)],
            action=asked.url("balance", "plans", asked.path["plan"]),
            fields={"throttle": "50", "moves": "5", **dict(asked.form.fields)},
        )  # fmt: skip

    # Carrying out

    async def _run(self, asked: PageRequest) -> Response:
        planned = self._known(asked)
        form = asked.form
        try:
            options = _options(form.text("throttle"), form.text("moves"), planned.plan)
        except BadForm as error:
            return await self._plan(asked, str(error))
        try:
            await self._start(asked, planned, options)
        except (AlreadyRunning, RunFailed, JournalUnreadable) as error:
            return await self._plan(asked, str(error))
        self._plans.pop(str(asked.path["plan"]), None)
        asked.changed()
        return asked.go(asked.url("balance"), "good", "The plan is being carried out.")

    async def _resume(self, asked: PageRequest) -> Response:
        try:
            await self._start(asked, None, Options())
        except (AlreadyRunning, PlanImpossible, RunFailed, JournalUnreadable) as error:
            return await self._form(asked, str(error))
        return asked.go(asked.url("balance"), "good", "The run goes on.")

    async def _start(self, asked: PageRequest, planned: _Planned | None, options: Options) -> None:
        """Returns when the run has begun, or raises why it cannot."""
        name = asked.cluster.name
        if self._is_running(name):
            raise AlreadyRunning("A plan is being carried out already; stop it first.")
        self._failures.pop(name, None)
        started = asyncio.Event()
        run = asyncio.create_task(self._carried_out(asked, planned, options, started))
        self._runs[name] = run
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([run, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if run.done() and not started.is_set():
            run.result()

    def _is_running(self, cluster: str) -> bool:
        run = self._runs.get(cluster)
        return run is not None and not run.done()

    async def _carried_out(
        self, asked: PageRequest, planned: _Planned | None, options: Options, started: asyncio.Event
    ) -> None:
        """A run, with clients of its own: the request that began it ends before."""
        cluster = asked.cluster
        async with cluster.pool.clients(asked.log_in.caller) as clients:
            balancer = await _opened(clients.admin)
            try:
                if planned is None:
                    started.set()
                    await balancer.resume(options, logger.info)
                else:
                    await balancer.run(
                        planned.plan, planned.kind.value, options, logger.info, started.set
                    )
            except (RunFailed, ClientError, KafkaError, AlreadyRunning, PlanImpossible) as error:
                if not started.is_set():
                    raise
                logger.warning("The plan could not be carried out: %s", error)
                self._failures[cluster.name] = str(error)

    async def _stop(self, asked: PageRequest) -> Response:
        await require_on_cluster(asked, Operation.ALTER, _MAY_NOT)
        said: list[str] = []
        try:
            entry = await (await _balancer(asked)).cancel(said.append)
        except TimeoutError:
            return await self._form(asked, "The run does not stop; look again in a minute.")
        asked.changed()
        words = "Nothing is being carried out." if entry is None else "The run was stopped."
        return asked.go(asked.url("balance"), "good", " ".join([words, *said]))


async def _balancer(asked: PageRequest) -> Balancer:
    return await _opened(asked.admin)


async def _opened(admin: Admin) -> Balancer:
    # An admin client has the calls of all smaller ones.
    return await Balancer.open(cast(BalanceAdmin, admin), OsDisk(), SystemClock())


def _kind(text: str) -> Kind:
    if text not in _KINDS:
        raise BadForm("What to do: choose one")
    return Kind(text)


def _brokers(text: str, kind: Kind) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise BadForm("Brokers: ids separated by commas")
    if kind is Kind.BALANCE:
        if parts:
            raise BadForm("Brokers: all are balanced; leave the field empty")
    elif not parts:
        raise BadForm("Brokers: say which, as in 3, 4")
    return frozenset(map(int, parts))


def _pattern(text: str) -> str | None:
    try:
        compile_pattern(text)
    except InvalidPattern as error:
        raise BadForm(f"Topics to leave: this is not a regular expression ({error})") from None
    return text or None


def _options(throttle: str, moves: str, plan: Plan | None) -> Options:
    """Returns how a plan is carried out. Without a plan, figures that are wrong are skipped:
    only a preview depends on them."""
    options = Options()
    for text, label, least in ((throttle, "Throttle", 0.001), (moves, "Replicas at once", 1.0)):
        try:
            value = float(text.replace(",", "") or "0")
        except ValueError:
            value = 0.0
        if label == "Throttle" and not text and plan is not None:
            options = replace(options, throttle=-1)
        elif not least <= value < 1e6:
            if plan is not None:
                raise BadForm(f"{label}: a number of at least {least:g}")
        elif label == "Throttle":
            options = replace(options, throttle=int(value * _MB))
        else:
            options = replace(options, max_moves=int(value))
    return options


def _columns(plan: Plan) -> list[str]:
    return [name for name, resource, _ in _COLUMNS if _is_known(plan, resource)]


def _is_known(plan: Plan, resource: Resource) -> bool:
    return plan.before.rates_known or resource is not Resource.RATE


def _broker_rows(plan: Plan) -> list[dict[str, Any]]:
    """Returns the loads of each broker, before and after, with the share of the largest one."""
    before, after = plan.before.current_loads(), plan.after.current_loads()
    resources = [one for one in _COLUMNS if _is_known(plan, one[1])]
    largest = {
        resource: max((*(load[resource] for load in before.values()),
                       *(load[resource] for load in after.values())), default=0) or 1
        for _, resource, _ in resources
    }  # fmt: skip
    return [
        {
            "id": broker.id,
            "rack": broker.rack,
            "is_alive": broker.is_alive,
            "cells": [
                _cell(before[broker.id][resource], after[broker.id][resource], largest[resource],
                      is_bytes=is_bytes)
                for _, resource, is_bytes in resources
            ],
        }
        for broker in plan.before.brokers.values()
    ]  # fmt: skip


def _cell(before: float, after: float, largest: float, *, is_bytes: bool) -> Mapping[str, Any]:
    shown = size if is_bytes else lambda value: f"{value:,.0f}"
    return {
        "before": shown(before),
        "after": shown(after),
        "before_width": round(100 * before / largest, 1),
        "after_width": round(100 * after / largest, 1),
        "differs": round(before) != round(after),
    }
