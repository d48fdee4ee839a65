"""Work in another process: long computations that must not take the broker's interpreter lock.

A work is a generator function `work(disk, clock, argument)`. It yields messages (plain data that
JSON can express) and returns one. A message may have `pause_s`: the work is resumed after so many
seconds. If the disk is the real one, a child process runs the work with low priority, and ends
with its parent. On any other disk (memory, simulation) the work runs on the event loop, step by
step.

An exception in the work is raised as `WorkFailed`, and the end of the process as `WorkerDied`.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol

from odradek.world.clock import Clock
from odradek.world.disk import Disk, OsDisk

Message = dict[str, object]
Work = Callable[[Disk, Clock, Mapping[str, Any]], Generator[Message, None, Message]]

# Of a message, which is one line. A job names every segment and every producer of a log.
_MAX_LINE_BYTES = 256 << 20


class WorkFailed(Exception):
    """The work has raised an exception. `kind` is its name, `number` its errno if it has one."""

    def __init__(self, kind: str, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.number = number


class WorkerDied(Exception):
    """The process ended before its work did: killed, out of memory, or it crashed."""


class Worker(Protocol):
    async def run(
        self, work: Work, argument: Message, on_message: Callable[[Message], None]
    ) -> Message:
        """Runs `work` to its end. The work ends at once if `on_message` raises or the call is
        cancelled."""
        ...

    async def end(self) -> None:
        """Ends the process. The next `run` starts another one."""
        ...


class Processes(Protocol):
    def worker(self, disk: Disk, clock: Clock) -> Worker:
        """Returns a worker. Its process starts with its first work."""
        ...


class OsProcesses:
    def worker(self, disk: Disk, clock: Clock) -> Worker:
        if isinstance(disk, OsDisk):
            return ProcessWorker()
        return InlineWorker(disk, clock)


class InlineWorker:
    """Runs work on the event loop; other tasks run between any two steps."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock

    async def run(
        self, work: Work, argument: Message, on_message: Callable[[Message], None]
    ) -> Message:
        # The work gets a copy, as in another process.
        steps = work(self._disk, self._clock, json.loads(json.dumps(argument)))
        try:
            while True:
                try:
                    message = next(steps)
                except StopIteration as end:
                    return json.loads(json.dumps(end.value))  # type: ignore[no-any-return]
                except Exception as error:
                    raise failure(error) from error
                on_message(json.loads(json.dumps(message)))
                await asyncio.sleep(pause_of(message))
        finally:
            steps.close()

    async def end(self) -> None:
        """There is no process."""


class ProcessWorker:
    """A child process that runs one work after the other."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(
        self, work: Work, argument: Message, on_message: Callable[[Message], None]
    ) -> Message:
        process = self._process or await self._start()
        order: Message = {"work": f"{work.__module__}:{work.__qualname__}", "argument": argument}
        try:
            return await self._converse(process, order, on_message)
        except WorkFailed:
            raise
        except BaseException:
            await self.end()
            raise

    async def _converse(
        self,
        process: asyncio.subprocess.Process,
        order: Message,
        on_message: Callable[[Message], None],
    ) -> Message:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # The process is dead, so its output ends too.
        while line := await process.stdout.readline():
            message = json.loads(line)
            if "error" in message:
                raise WorkFailed(message["error"], message["text"], message.get("number"))
            if "result" in message:
                result: Message = message["result"]
                return result
            on_message(message)
        code = await process.wait()
        raise WorkerDied(
            f"the worker process {process.pid} was killed by signal {-code}"
            if code < 0
            else f"the worker process {process.pid} ended with status {code}"
        )

    async def _start(self) -> asyncio.subprocess.Process:
        # A random hash seed: compaction compares hashes of keys that clients choose, and a client
        # that knew the seed could make keys collide.
        environment = {**os.environ, "PYTHONHASHSEED": "random"}
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "odradek.world.worker_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
                limit=_MAX_LINE_BYTES,
            )
        except OSError as error:
            raise WorkerDied(f"no worker process can be started: {error}") from error
        return self._process

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # The pipes close with the process. Cancellation must not leave them open.
        await asyncio.shield(process.wait())
        if process.stdin is not None:
            process.stdin.close()


def failure(error: Exception) -> WorkFailed:
    number = error.errno if isinstance(error, OSError) else None
    return WorkFailed(type(error).__name__, str(error), number)


def pause_of(message: Mapping[str, object]) -> float:
    pause_s = message.get("pause_s", 0.0)
    return pause_s if isinstance(pause_s, float) else 0.0
