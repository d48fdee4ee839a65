"""Runs the metadata store of a cluster on this machine: a SQLite file that brokers use over a Unix
socket. It is the main function of a process that `odradek up` starts."""

import asyncio
import signal
from collections.abc import Callable

from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.store import MetadataError, StoreUnavailable
from odradek.telemetry.logs import one_file, start_logging
from odradek.tools.failures import CommandFailed
from odradek.tools.standard_input import watch_input_end
from odradek.world import OsDisk, World

# How long the store waits for the brokers after its parent has ended. They stop then too, and need
# the store while they do.
_BROKER_STOP_TIMEOUT_S = 10.0
_POLL_INTERVAL_S = 0.05
_LOCK_TIMEOUT_S = 2.0


def serve_metadata(
    path: str,
    socket_path: str,
    *,
    log_level: str,
    log_path: str,
    on_ready: Callable[[str], None],
    is_deserted: Callable[[], bool],
    forgets_sessions: bool,
) -> int:
    """Serves until SIGTERM or SIGINT, or until standard input has ended and `is_deserted` returns
    True, which means that no broker is left.

    With `forgets_sessions`, it drops the sessions of an earlier run at once. The caller sets this
    if no broker of that run is alive.
    """
    files = one_file(log_path, OsDisk())
    files.report_errors()
    start_logging(log_level, files=files)
    # asyncio's own event loop: there is little to do, and uvloop would cost memory.
    asyncio.run(_serve(path, socket_path, on_ready, is_deserted, forgets_sessions))
    return 0


async def _serve(
    path: str,
    socket_path: str,
    on_ready: Callable[[str], None],
    is_deserted: Callable[[], bool],
    forgets_sessions: bool,
) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    abandoned = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)

    def abandon() -> None:
        abandoned.set()
        stopping.set()

    watch_input_end(abandon)
    try:
        world = World()
        if forgets_sessions and world.disk.exists(path):
            await (await _opened(path, world, has_durable_sessions=False)).close()
        metadata = await _opened(path, world, has_durable_sessions=True)
        service = MetadataService(metadata, socket_path, world.randomness)
        await service.start()
    except MetadataError as error:
        raise CommandFailed(str(error)) from None
    try:
        on_ready(socket_path)
        await stopping.wait()
        if abandoned.is_set():
            await _wait_until(is_deserted)
    finally:
        await service.close()
        await metadata.close()


async def _opened(path: str, world: World, *, has_durable_sessions: bool) -> SqliteMetadata:
    """Opens the store. It waits for the lock of the file for a moment: if a previous `odradek up`
    was killed, its store process ends a little later than its last broker."""
    for _ in range(round(_LOCK_TIMEOUT_S / _POLL_INTERVAL_S)):
        try:
            return SqliteMetadata(path, world, has_durable_sessions=has_durable_sessions)
        except StoreUnavailable:
            await asyncio.sleep(_POLL_INTERVAL_S)
    return SqliteMetadata(path, world, has_durable_sessions=has_durable_sessions)


async def _wait_until(is_deserted: Callable[[], bool]) -> None:
    for _ in range(round(_BROKER_STOP_TIMEOUT_S / _POLL_INTERVAL_S)):
        if is_deserted():
            return
        await asyncio.sleep(_POLL_INTERVAL_S)
