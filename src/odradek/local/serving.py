"""Runs a broker in the foreground for `up` and `broker`: from settings to a clean stop.

One line on standard output when the broker is ready, one when it has stopped. The first Ctrl-C
or SIGTERM stops it cleanly; a second one ends it at once. While it runs, `broker.pid` in its
first log directory says which process it is.

If systemd started the process, it is told when the broker is ready and when it stops, and the event
loop beats for its watchdog (`world/service_manager.py`).
"""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.config import BrokerSettings, InvalidSetting, parse_overrides
from odradek.local.cluster_directory import (
    PID_FILE,
    remove_pid,
    require_usable_directory,
    write_pid,
)
from odradek.tools.client_properties import with_secrets
from odradek.tools.failures import CommandFailed
from odradek.tools.standard_input import watch_input_end
from odradek.wording import counted
from odradek.world.event_loop import fastest_loop

if TYPE_CHECKING:
    from odradek.broker import Broker
    from odradek.telemetry.logs import LogFiles
    from odradek.world import World
    from odradek.world.garbage_collection import GarbageCollection
    from odradek.world.service_manager import ServiceManager

# The log directory of a broker that runs in memory.
MEMORY_DIRECTORY = "/odradek"


def settings_from(
    properties: Mapping[str, str],
    overrides: Iterable[str],
    *,
    in_memory: bool = False,
    said: set[str] | None = None,
) -> BrokerSettings:
    """Reads settings and applies the overrides of the command line. An unknown name in an override
    is an error.

    Warnings go to standard error. `said` remembers them if several brokers are started, so that
    each is printed once.
    """
    try:
        typed = with_secrets(parse_overrides(overrides))
        settings = BrokerSettings.from_properties({**properties, **typed, **_memory(in_memory)})
    except InvalidSetting as problem:
        raise CommandFailed(str(problem)) from None
    for warning in settings.warnings:
        if any(warning.startswith(f"Unknown setting {name} ") for name in typed):
            raise CommandFailed(warning.replace(" is ignored", " in --override"))
        _warn(warning, said)
    if settings.idle_sentence is not None:
        _warn(settings.idle_sentence, said)
    return settings


def _warn(line: str, said: set[str] | None) -> None:
    if said is None or line not in said:
        print(f"warning: {line}", file=sys.stderr)
    if said is not None:
        said.add(line)


def _memory(in_memory: bool) -> dict[str, str]:
    if not in_memory:
        return {}
    return {"odradek.metadata.store": "memory", "log.dirs": MEMORY_DIRECTORY}


def serve(
    settings: BrokerSettings,
    *,
    log_level: str | None = None,
    log_path: str | None = None,
    in_memory: bool = False,
    until_input_closes: bool = False,
    on_ready: Callable[[str], None] | None = None,
    announcement: str | None = None,
) -> int:
    """Runs the broker until it is told to stop. Returns the exit code.

    `log_level` applies to log files and terminal; by default the terminal shows warnings, and the
    settings decide about files. With `log_path` all log lines go to that file and to nothing else.
    `on_ready` is called with the broker's address, instead of printing lines on standard output;
    `announcement` is printed after them.
    """
    from odradek.broker import Broker
    from odradek.world import MemoryDisk, OsDisk, World
    from odradek.world.garbage_collection import GarbageCollection
    from odradek.world.service_manager import ServiceManager

    manager = ServiceManager.from_environment()
    if manager.watchdog_s is not None:
        # The watchdog ends a process by SIGABRT. Then the journal has where the loop was stuck.
        faulthandler.enable()
    if not in_memory:
        # Only the first: a broker goes on without one of several directories.
        require_usable_directory(OsDisk(), settings.data_directories[0])
    files = _start_logs(
        settings,
        log_level,
        log_path,
        writes_files=not in_memory,
        has_terminal=on_ready is None,
    )
    world = World(disk=MemoryDisk()) if in_memory else World()
    pid_path = None if in_memory else f"{settings.data_directories[0]}/{PID_FILE}"
    broker = Broker(settings, world)
    collector = GarbageCollection()

    def announce() -> None:
        collector.start()
        if files is not None:
            files.report_errors()
        if pid_path is not None:
            write_pid(world.disk, pid_path, os.getpid())
        if on_ready is not None:
            on_ready(broker.bootstrap)
        else:
            _print_first_lines(broker, None if in_memory else settings, announcement)
        manager.ready(f"ready at {broker.bootstrap}")

    serving = _serve(
        broker, world, collector, manager, announce, until_input_closes=until_input_closes
    )
    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(serving)
    finally:
        if pid_path is not None:
            remove_pid(world.disk, pid_path, os.getpid())
    if on_ready is None:
        print(last_line(None if in_memory else settings.data_directories[0]), flush=True)
    return 0


def _print_first_lines(
    broker: "Broker", on_disk: BrokerSettings | None, announcement: str | None
) -> None:
    kept = "in memory" if on_disk is None else f"data in {', '.join(on_disk.data_directories)}"
    url = broker.management_url
    more = "" if url is None else f", metrics at {url}"
    ready = f"odradek is ready at {broker.bootstrap} ({kept}{more}); Ctrl-C stops it"
    print(ready, *filter(None, [announcement]), sep="\n", flush=True)


def last_line(data: str | None) -> str:
    """Returns what the terminal of a broker says at the end: `odradek local grow` may have stopped
    it, and then it goes on elsewhere."""
    from odradek.local.growth import GROWTH_LOCK, Growth
    from odradek.world import OsDisk

    stopped = "odradek has stopped"
    if data is None or not OsDisk().exists(f"{data}/{GROWTH_LOCK}"):
        return stopped
    try:
        OsDisk().lock(f"{data}/{GROWTH_LOCK}").release()
    except BlockingIOError:
        growth = Growth.read(OsDisk(), os.path.abspath(data))
        if growth is not None:
            return (
                f"{stopped} here and goes on in the background, as"
                f" {counted(growth.brokers, 'broker')} at {growth.bootstrap};"
                f" odradek local stop --data {data} stops it"
            )
    return stopped


def _start_logs(
    settings: BrokerSettings,
    level: str | None,
    path: str | None,
    *,
    writes_files: bool,
    has_terminal: bool,
) -> "LogFiles | None":
    from odradek.telemetry.logs import LogFiles, one_file, start_logging
    from odradek.world import OsDisk

    directory = settings.application_log_directory
    file_level = level or settings.odradek_logs_level
    if path is not None:
        files = one_file(path, OsDisk(), line_format=settings.odradek_logs_format)
        start_logging(file_level, files=files)
    elif writes_files and directory is not None:
        files = LogFiles(
            directory,
            OsDisk(),
            line_format=settings.odradek_logs_format,
            max_bytes=settings.odradek_logs_max_file_bytes,
            max_backups=settings.odradek_logs_kept_files,
        )
        start_logging(
            file_level,
            files=files,
            stream=sys.stderr if has_terminal else None,
            stream_level=level or "WARN",
            stream_format=settings.odradek_logs_format,
        )
    else:
        start_logging(level or "WARN", stream_format=settings.odradek_logs_format)
        return None
    return files


async def _serve(
    broker: "Broker",
    world: "World",
    collector: "GarbageCollection",
    manager: "ServiceManager",
    announce: Callable[[], None],
    *,
    until_input_closes: bool,
) -> None:
    task = asyncio.create_task(broker.run(on_ready=announce))
    collecting = asyncio.create_task(collector.run())
    beating = asyncio.create_task(manager.run()) if manager.is_there else None
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        manager.stopping("stopping: leadership moves to other brokers, logs are flushed")
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if until_input_closes:
        watch_input_end(stop)
    try:
        await task
    except asyncio.CancelledError:
        pass
    except Exception as failure:
        expected = startup_failure(failure)
        _log_end(expected)
        raise expected from failure
    finally:
        collecting.cancel()
        if beating is not None:
            beating.cancel()
        world.workers.close()


def _log_end(failure: Exception) -> None:
    """Logs why the broker ended. The caller prints it on the terminal."""
    import logging

    from odradek.telemetry.logs import SERVER, TOLD

    is_expected = isinstance(failure, CommandFailed)
    words = f"stopped: {failure}" if is_expected else "ended by an unexpected error"
    logging.getLogger(SERVER).critical(words, exc_info=None if is_expected else failure, extra=TOLD)


def startup_failure(failure: Exception) -> Exception:
    """Returns the expected failure inside an exception group as one line; else the failure
    itself."""
    from odradek.broker import BrokerCannotStart

    if isinstance(failure, BrokerCannotStart):
        return CommandFailed(str(failure))
    if isinstance(failure, ExceptionGroup):
        for inner in failure.exceptions:
            found = startup_failure(inner)
            if isinstance(found, CommandFailed):
                return found
    return failure
