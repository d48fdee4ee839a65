"""Starts the process that runs Spark (`driver`), and starts it again if it ends."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from odradek.spark.turns.backoff import Backoff
from odradek.spark.turns.messages import Message, encoded, read_message

_log = logging.getLogger("odradek.spark")
_STOP_S: Final = 15.0


class DriverProcess:
    """The process runs from `start` to `close`. `on_failure` is called with the reason, in one
    line, when it has ended; `on_message` is called with each of its messages. `restarts` says
    whether it is started again if it ends."""

    def __init__(
        self,
        order: Mapping[str, object],
        on_failure: Callable[[str], None],
        on_message: Callable[[Message], None] | None = None,
        *,
        restarts: bool = True,
    ) -> None:
        self._order = order
        self._on_failure = on_failure
        self._on_message = on_message
        self._restarts = restarts
        self._process: asyncio.subprocess.Process | None = None
        self._has_worked = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="spark-driver")

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def close(self) -> None:
        if self._running is None:
            return
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        self._running = None

    async def _run(self) -> None:
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self._has_worked = False
            reason = await self._run_once()
            if not self._restarts:
                self._on_failure(reason)
                return
            # One that has finished a batch may start again at once, however short it lived.
            pause_s = backoff.next_s(inf if self._has_worked else loop.time() - began_s)
            _log.error("Spark has ended: %s; it starts again in %.0f s", reason, pause_s)
            self._on_failure(reason)
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> str:
        """Returns why the process has ended."""
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "odradek.spark.turns.driver",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        reason = None
        try:
            process.stdin.write(encoded(self._order))
            while (message := await read_message(process.stdout)) is not None:
                reason = message.get("failed", reason)
                self._has_worked = self._has_worked or "batch" in message
                if self._on_message is not None:
                    self._on_message(message)
            status = await process.wait()
        finally:
            await _ended(process)
            self._process = None
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return reason or f"its process was ended {how}"


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Returns when the process has ended: by itself if it does within a while."""
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
