"""`odradek local grow`: a single broker becomes a cluster of three, with its data, its id and its
address.

The order, and who does what:

1. This command decides (`_decide`) and writes that down (`local/growth.py`). It refuses what cannot
   work before anything is changed: busy ports, too little disk, several log directories.
2. A process in the background (`local/growing_cluster.py`) stops the broker, moves its data and
   starts the cluster. Clients see the restart of a broker.
3. This command gives all topics their copies (`growth_copies.py`), while clients go on.

After an interruption the same command goes on where it stopped: it reads from the directory and
from the brokers what has been done.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from odradek.cli.quantities import shown_bytes
from odradek.cli.replicas.reassign_actions import ReassignmentAdmin
from odradek.cli.running.growth_copies import Copies
from odradek.client.errors import ClientError
from odradek.client.settings import AdminSettings
from odradek.local.background import BackgroundCluster
from odradek.local.cluster_directory import STAGING, brokers_in, laptop_settings, running_broker
from odradek.local.growth import (
    GROWTH_FILE,
    GROWTH_LOCK,
    STORE_FILE,
    Growth,
    data_bytes,
    is_lone,
    is_moving,
)
from odradek.local.lone_broker import decide, require_ports
from odradek.local.processes import wait_until
from odradek.local.securing import SecuredDirectory
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.terminal import print_json
from odradek.wording import counted
from odradek.world.disk import OsDisk

_START_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 30.0
_API_TIMEOUT_MS = 60_000
# Beside the copies: the brokers' other files.
_SPARE_BYTES = 64_000_000


def grow(arguments: argparse.Namespace) -> int:
    if arguments.brokers == 1:
        raise UsageError("--brokers 1 is what there is already; a cluster has two or more")
    disk = OsDisk()
    data = os.path.abspath(arguments.data)
    growth = Growth.read(disk, data)
    is_new = is_lone(disk, data)
    if is_new:
        growth = asyncio.run(decide(arguments, data))
    elif growth is None:
        raise CommandFailed(_nothing_to_grow(disk, arguments.data, data))
    assert growth is not None
    if arguments.plan:
        _show_plan(disk, growth, arguments, is_new=is_new)
        return 0
    try:
        lock = disk.lock(f"{data}/{GROWTH_LOCK}")
    except BlockingIOError:
        raise CommandFailed(f"another `odradek local grow` is at work in {data}") from None
    try:
        if is_new:
            _require_space(disk, growth)
            growth.write(disk)
        return _go_on(disk, growth, arguments)
    finally:
        lock.release()


def _nothing_to_grow(disk: OsDisk, argument: str, data: str) -> str:
    if is_moving(disk, data):
        return (
            f"{data}/{GROWTH_FILE} is missing, so it is not known what was decided; move what is in"
            f" {data}/{STAGING} back to {data}, and begin again"
        )
    known = brokers_in(disk, data)
    if known:
        return (
            f"{data} holds a cluster of {counted(len(known), 'broker')} already; to give a topic"
            " more copies see `odradek reassign-partitions --generate --replication-factor`"
        )
    others = [
        path
        for path in ("./odradek-data", "./odradek-local")
        if is_lone(disk, os.path.abspath(path))
    ]
    hint = f"; did you mean --data {others[0]}?" if others and others[0] != argument else ""
    return f"there is no broker's data in {data}{hint or '; name its directory with --data'}"


def _go_on(disk: OsDisk, growth: Growth, arguments: argparse.Namespace) -> int:
    def say(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    _start(disk, growth, arguments.log_level, say)
    try:
        topics, partitions = asyncio.run(_copy(growth, arguments.throttle or -1, say))
    except KeyboardInterrupt:
        print(
            f"hint: clients are served meanwhile; go on with `odradek local grow --data"
            f" {growth.data}`",
            file=sys.stderr,
        )
        raise
    except ClientError as error:
        raise CommandFailed(
            f"{str(error).rstrip('.')}; see {growth.data}/up.log, and go on with"
            f" `odradek local grow --data {growth.data}`: nothing is lost"
        ) from None
    growth.forget(disk)
    disk.remove(f"{growth.data}/{GROWTH_LOCK}")
    if arguments.json:
        print_json(
            {
                "bootstrap": growth.bootstrap,
                "brokers": growth.brokers,
                "data": growth.data,
                "topics": topics,
                "partitions": partitions,
                "copies": growth.copies,
                "minInsyncReplicas": growth.min_in_sync,
            }
        )
        return 0
    print(
        f"odradek is ready at {growth.bootstrap} ({counted(growth.brokers, 'broker')}, data in"
        f" {growth.data}): {counted(partitions, 'partition')} of {counted(topics, 'topic')} on"
        f" {counted(growth.copies, 'broker')} each, acks=all means on at least"
        f" {growth.min_in_sync}; odradek local stop --data {growth.data} stops it"
    )
    return 0


# The cluster


def _start(disk: OsDisk, growth: Growth, log_level: str | None, say: Callable[[str], None]) -> None:
    """Starts the cluster in the background, unless all its brokers run."""
    cluster = BackgroundCluster(growth.data)
    lone = running_broker(disk, growth.data)
    is_untouched = is_lone(disk, growth.data)
    if cluster.running() not in (None, lone):
        # It serves, or an earlier command was killed and the process that it started is at work.
        return
    if not is_untouched and not is_moving(disk, growth.data) and _is_running(disk, growth):
        return
    if is_untouched:
        stops = f"broker 1 (process {lone}) restarts" if lone is not None else "broker 1 starts"
        say(
            f"{stops} at {growth.host}:{growth.port} as one of"
            f" {counted(growth.brokers, 'broker')}, in the background"
        )
        require_ports(growth, is_running=lone is not None)
    command = [sys.executable, "-m", "odradek.local.growing_cluster", growth.data]
    if log_level is not None:
        command.append(log_level)
    try:
        _, bootstrap = cluster.launch(command, _START_TIMEOUT_S)
    except CommandFailed as failure:
        raise CommandFailed(
            f"{failure}; mend that and go on with `odradek local grow --data {growth.data}`:"
            " nothing is lost"
        ) from None
    say(f"{counted(growth.brokers, 'broker is', 'brokers are')} ready at {bootstrap}")


def _is_running(disk: OsDisk, growth: Growth) -> bool:
    """Returns whether brokers of the cluster run. If `odradek up` was killed in the background, its
    brokers stop by themselves, so this waits for them."""

    def some_run() -> bool:
        return any(
            running_broker(disk, directory.directory) is not None
            for directory in growth.directories
        )

    was_killed = disk.exists(BackgroundCluster(growth.data).pid_path)
    if was_killed:
        wait_until(lambda: not some_run(), _STOP_TIMEOUT_S)
    return some_run()


async def _copy(growth: Growth, rate: int, say: Callable[[str], None]) -> tuple[int, int]:
    async with _admin(growth) as admin:
        return await Copies(admin, growth, rate, say).run()


@asynccontextmanager
async def _admin(growth: Growth) -> AsyncIterator[ReassignmentAdmin]:
    """Yields an admin client that outlasts the restart of a broker."""
    settings = AdminSettings.from_properties(
        {
            **SecuredDirectory(OsDisk(), growth.data).login(),
            "bootstrap.servers": growth.bootstrap,
            "client.id": "odradek-grow",
            "default.api.timeout.ms": str(_API_TIMEOUT_MS),
        }
    )
    async with ReassignmentAdmin(settings) as admin:
        yield admin


# The plan


def _needed_bytes(disk: OsDisk, growth: Growth) -> int:
    return (growth.copies - 1) * data_bytes(disk, growth.data) + _SPARE_BYTES


def _require_space(disk: OsDisk, growth: Growth) -> None:
    needed, free = _needed_bytes(disk, growth), disk.free_bytes(growth.data)
    if free < needed:
        raise CommandFailed(
            f"{growth.copies} copies need {shown_bytes(needed)} more in {growth.data}, and"
            f" {shown_bytes(free)} are free; free some space, or lower the retention of topics"
        )


def _show_plan(
    disk: OsDisk, growth: Growth, arguments: argparse.Namespace, *, is_new: bool
) -> None:
    lone = running_broker(disk, growth.data) if is_new else None
    needed = _needed_bytes(disk, growth) if is_new else None
    if arguments.json:
        print_json(
            {
                "data": growth.data,
                "bootstrap": growth.bootstrap,
                "brokers": growth.brokers,
                "process": lone,
                "settings": growth.settings | laptop_settings(growth.brokers),
                "copies": growth.copies,
                "minInsyncReplicas": growth.min_in_sync,
                "bytes": needed,
                "moved": not is_new,
            }
        )
        return
    print("\n".join(_plan_lines(disk, growth, arguments.throttle or -1, lone, needed)))


def _plan_lines(
    disk: OsDisk, growth: Growth, rate: int, lone: int | None, needed: int | None
) -> list[str]:
    first, *others = growth.directories
    lines = [f"odradek local grow --data {growth.data} would"]
    if needed is None:
        lines.append("go on with what was begun: broker 1 has moved already, or is moving;")
    else:
        stop = f"stop broker 1 (process {lone}), " if lone is not None else ""
        store = f"{growth.data}/{STORE_FILE}"
        lines += [
            f"1. {stop}rename its partitions into {first.directory}, use {store} for all brokers;",
            f"2. start broker 1 at {growth.host}:{first.port} again, and with it "
            + ", ".join(f"broker {other.id} at {growth.host}:{other.port}" for other in others)
            + ", in the background (clients wait for one restart of broker 1);",
        ]
    limit = "without a limit" if rate < 0 else f"with at most {shown_bytes(rate)}/s"
    lines.append(
        f"3. give every topic {growth.copies} copies, {limit}"
        + (
            f" ({shown_bytes(needed)} more in {growth.data}, where"
            f" {shown_bytes(disk.free_bytes(growth.data))} are free);"
            if needed is not None
            else ";"
        )
    )
    lines.append(
        f"4. require {growth.min_in_sync} in-sync replicas of a topic (min.insync.replicas) when"
        " its copies are in sync, and spread the leaders."
    )
    kept = ", ".join(f"{name}={value}" for name, value in sorted(growth.settings.items()))
    if kept and needed is not None:
        lines.append(f"Settings for all brokers: {kept}")
    lines.append("Nothing has been changed.")
    return lines
