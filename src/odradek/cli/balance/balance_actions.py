"""The actions of `odradek balance`, after its flags are parsed."""

import argparse
import json
import sys
from collections.abc import Iterable

from odradek.groups.consumer.topic_patterns import InvalidPattern, compile_pattern
from odradek.ops.balance.balancer import Balancer, Measuring
from odradek.ops.balance.execution import Options, RunFailed
from odradek.ops.balance.goals import Limits
from odradek.ops.balance.journal import AlreadyRunning, Entry, JournalUnreadable, State
from odradek.ops.balance.planner import Kind, PlanImpossible, Request
from odradek.ops.balance.reading import BalanceAdmin
from odradek.ops.balance.report import plan_json, plan_lines, progress_json, progress_lines
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import read_text
from odradek.tools.hints import hint
from odradek.tools.interruption import until_interrupted
from odradek.tools.terminal import print_json
from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk
from odradek.world.randomness import Randomness

_KINDS = {
    "plan": Kind.BALANCE,
    "run": Kind.BALANCE,
    "add-broker": Kind.ADD,
    "remove-broker": Kind.REMOVE,
    "demote-broker": Kind.DEMOTE,
}


async def perform(arguments: argparse.Namespace) -> int:
    request = _request(arguments)
    measuring = Measuring(arguments.measure, _rates(arguments.rates))
    # A run outlives elections and restarts of brokers.
    if arguments.action == "serve":
        return await _serve(arguments, request, measuring)
    retries = {} if arguments.action in {"plan", "status"} else {"retries": "20"}
    try:
        async with open_admin(BalanceAdmin, arguments, **retries) as admin:
            balancer = await Balancer.open(admin, OsDisk(), SystemClock(), arguments.journal)
            if arguments.action == "status":
                return await _status(balancer, arguments)
            if arguments.action == "cancel":
                return await _cancel(balancer, arguments)
            if measuring.seconds and measuring.rates is None and sys.stderr.isatty():
                hint(f"measuring for {measuring.seconds:g} s what is written (--measure)")
            if arguments.action == "plan" or arguments.dry_run:
                return await _show_plan(balancer, arguments, request, measuring)
            return await _run(balancer, arguments, request, measuring)
    except (PlanImpossible, AlreadyRunning, JournalUnreadable, RunFailed) as error:
        raise CommandFailed(str(error)) from error


async def _serve(arguments: argparse.Namespace, request: Request, measuring: Measuring) -> int:
    from odradek.cli.web_options import listener_of, policy_of, require_web

    require_web()
    from odradek.ops.balance.service import PREFIX, BalanceService
    from odradek.web.guards import Limits
    from odradek.web.serving import CannotServe, serve

    listener = listener_of(arguments)
    # A plan may take as long as the measurement, and minutes for many thousand partitions.
    policy = policy_of(arguments, listener, Limits(timeout_s=600 + arguments.measure))
    clock = SystemClock()

    def ready(url: str) -> None:
        print(f"balance is ready at {url}{PREFIX}; Ctrl-C stops it", flush=True)
        if not policy.is_loopback and not policy.login.is_required:
            print(
                "warning: others can reach it without a log-in, so calls that change something are"
                " refused; give --users, --tokens or --tls-client-ca",
                file=sys.stderr,
                flush=True,
            )

    async with open_admin(BalanceAdmin, arguments, retries="20") as admin:
        balancer = await Balancer.open(admin, OsDisk(), clock, arguments.journal)
        service = BalanceService(
            balancer,
            clock,
            Randomness(),
            options=options_of(arguments),
            request=request,
            measuring=measuring,
        )
        try:
            await serve(service.application(policy), listener, ready)
        except CannotServe as error:
            raise CommandFailed(str(error)) from None
    return 0


def _request(arguments: argparse.Namespace) -> Request:
    try:
        compile_pattern(arguments.exclude_topics or "")
    except InvalidPattern as error:
        raise UsageError(f"--exclude-topics is not a regular expression: {error}") from None
    return Request(
        kind=_KINDS.get(arguments.action, Kind.BALANCE),
        brokers=arguments.id or frozenset(),
        exclude_topics=arguments.exclude_topics,
        limits=Limits(
            tolerance=arguments.tolerance / 100,
            max_replicas=arguments.max_replicas,
            disk_share=arguments.max_disk / 100,
        ),
    )


def options_of(arguments: argparse.Namespace) -> Options:
    return Options(
        throttle=arguments.throttle,
        max_moves=arguments.max_moves,
        max_wave_bytes=arguments.max_wave_bytes,
        stalled_s=arguments.stalled,
    )


def _rates(path: str | None) -> dict[TopicPartition, float] | None:
    if path is None:
        return None
    example = '{"orders-0": 12000, "orders-1": 3500.5}'
    try:
        content = json.loads(read_text(path))
    except ValueError as error:
        raise CommandFailed(f"{path} is not JSON: {error}; write {example}") from None
    rates = {}
    for name, rate in content.items() if isinstance(content, dict) else [("", None)]:
        topic, _, index = str(name).rpartition("-")
        if not topic or not index.isdigit() or not isinstance(rate, int | float):
            raise CommandFailed(f"{path}: partitions with bytes a second are needed, as {example}")
        rates[TopicPartition(topic, int(index))] = float(rate)
    return rates


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


async def _show_plan(
    balancer: Balancer, arguments: argparse.Namespace, request: Request, measuring: Measuring
) -> int:
    plan = await balancer.plan(request, measuring)
    options = options_of(arguments)
    if arguments.json:
        print_json(plan_json(plan, options))
    else:
        _print(plan_lines(plan, options))
    return 0


async def _run(
    balancer: Balancer, arguments: argparse.Namespace, request: Request, measuring: Measuring
) -> int:
    options = options_of(arguments)
    say = _say_nothing if arguments.json else _say
    ended: list[Entry] = []

    async def work() -> None:
        interrupted = await balancer.interrupted()
        if interrupted is not None:
            if arguments.action != "run":
                raise CommandFailed(
                    "the last run was interrupted; finish it with `odradek balance run`, or stop it"
                    " with `odradek balance cancel`"
                )
            say(f"going on with the plan ({interrupted.kind}) that was interrupted")
            ended.append(await balancer.resume(options, say))
            return
        plan = await balancer.plan(request, measuring)
        if not arguments.json:
            _print([*plan_lines(plan, options), ""])
        if not plan.is_empty:
            ended.append(await balancer.run(plan, request.kind.value, options, say))

    code = await until_interrupted(work())
    if code:
        print("odradek balance: interrupted; moves are stopped, throttles removed", file=sys.stderr)
        return code
    return await _report_end(balancer, arguments, ended[0] if ended else None)


async def _report_end(
    balancer: Balancer, arguments: argparse.Namespace, entry: Entry | None
) -> int:
    if arguments.json:
        progress = await balancer.status() if entry is not None else None
        print_json(
            {"state": "nothing to do"}
            if progress is None
            else progress_json(progress, balancer.journal.path)
        )
    elif entry is not None:
        print(
            "Done: every partition has arrived, and the throttles are removed."
            if entry.state is State.COMPLETED
            else f"The run was {entry.state.value}: {entry.reason}."
        )
    return 0 if entry is None or entry.state is State.COMPLETED else 1


def _say(line: str) -> None:
    print(line, flush=True)


def _say_nothing(line: str) -> None:
    pass


async def _status(balancer: Balancer, arguments: argparse.Namespace) -> int:
    progress = await balancer.status()
    if progress is None:
        if arguments.json:
            print_json({"state": "none"})
        else:
            print("Nothing was run yet; odradek balance plan shows what would be done.")
        return 0
    path = balancer.journal.path
    if arguments.json:
        print_json(progress_json(progress, path))
    else:
        _print(progress_lines(progress, path))
    return 0


async def _cancel(balancer: Balancer, arguments: argparse.Namespace) -> int:
    try:
        entry = await balancer.cancel(_say_nothing if arguments.json else _say)
    except TimeoutError:
        raise CommandFailed(
            "the process that carries the plan out does not stop; end it, then cancel again"
        ) from None
    if arguments.json:
        print_json({"cancelled": entry is not None})
    elif entry is None:
        print("Nothing to cancel.")
    else:
        print(f"The run is {entry.state.value}; no move is in progress, throttles are removed.")
    return 0
