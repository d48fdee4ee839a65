"""The metadata store of a cluster on this machine, as a process: a SQLite file behind a socket."""

import asyncio
import signal
from collections.abc import Callable

from odradek.metadata.service import MetadataService
from odradek.metadata.sqlite import SqliteMetadata
from odradek.metadata.store import MetadataError, StoreUnavailable
from odradek.telemetry.logs import one_file, start_logging
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import watch_input_end
from odradek.world import OsDisk, World

# Whoever started us has gone: brokers stop by themselves, and need the store for that.
_LAST_BROKERS_S = 10.0
_LOOK_AGAIN_S = 0.05
_PREDECESSOR_S = 2.0


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
    """Until SIGTERM, or until standard input ends and `is_deserted`.

    `forgets_sessions` where it is known that no broker of before is alive: nobody is waited for.
    """
    files = one_file(log_path, OsDisk())
    files.speak_up()
    start_logging(log_level, files=files)
    # asyncio's own loop: there is little to do, and uvloop would cost memory.
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
    told = asyncio.Event()
    abandoned = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)

    def abandon() -> None:
        abandoned.set()
        told.set()

    watch_input_end(abandon)
    try:
        world = World()
        if forgets_sessions and world.disk.exists(path):
            await (await _opened(path, world, keeps_sessions=False)).close()
        metadata = await _opened(path, world, keeps_sessions=True)
        service = MetadataService(metadata, socket_path, world.randomness)
        await service.start()
    except MetadataError as error:
        raise CommandFailed(str(error)) from None
    try:
        on_ready(socket_path)
        await told.wait()
        if abandoned.is_set():
            await _until(is_deserted)
    finally:
        await service.close()
        await metadata.close()


async def _opened(path: str, world: World, *, keeps_sessions: bool) -> SqliteMetadata:
    """The store of a cluster whose parent was killed ends a moment after its last broker."""
    for _ in range(round(_PREDECESSOR_S / _LOOK_AGAIN_S)):
        try:
            return SqliteMetadata(path, world, keeps_sessions=keeps_sessions)
        except StoreUnavailable:
            await asyncio.sleep(_LOOK_AGAIN_S)
    return SqliteMetadata(path, world, keeps_sessions=keeps_sessions)


async def _until(is_deserted: Callable[[], bool]) -> None:
    for _ in range(round(_LAST_BROKERS_S / _LOOK_AGAIN_S)):
        if is_deserted():
            return
        await asyncio.sleep(_LOOK_AGAIN_S)
