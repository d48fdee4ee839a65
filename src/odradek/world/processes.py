"""Work in a process of its own: long computation that must not take the broker's interpreter lock.

A work is a generator function `work(disk, clock, argument)`: it yields messages (plain data that
JSON knows), each perhaps with a `pause_s` to wait before it goes on, and returns one. Where the
disk is the machine's own, a child process runs it, niced, and ends with its parent; on any other
disk (memory, simulation) it runs here, step by step, in the loop's own time.

What work raises comes out as `WorkFailed`; the end of the process in the middle as `WorkerDied`.
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

# A message in one line; a job names every segment and every producer of a log.
_MAX_LINE_BYTES = 256 << 20


class WorkFailed(Exception):
    """The work raised. `kind` is the name of the exception, `number` its errno if it has one."""

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
        """Runs `work` to its end. If `on_message` raises, or this is cancelled, it ends at once."""
        ...

    async def end(self) -> None:
        """Lets the process go. The next `run` starts another."""
        ...


class Processes(Protocol):
    def worker(self, disk: Disk, clock: Clock) -> Worker:
        """A worker whose process starts with its first work."""
        ...


class OsProcesses:
    def worker(self, disk: Disk, clock: Clock) -> Worker:
        if isinstance(disk, OsDisk):
            return ProcessWorker()
        return InlineWorker(disk, clock)


class InlineWorker:
    """Runs work on the loop, which has its turn between any two steps."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock

    async def run(
        self, work: Work, argument: Message, on_message: Callable[[Message], None]
    ) -> Message:
        # As it would arrive elsewhere: no part of it is shared.
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
    """A child process that takes one work after the other."""

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
            pass  # It is dead: its output ends too.
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
        # A hash seed of its own: whoever compares hashes of keys relies on nobody knowing it.
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
        # The pipes close with the process; whoever cancels us must not leave them open.
        await asyncio.shield(process.wait())
        if process.stdin is not None:
            process.stdin.close()


def failure(error: Exception) -> WorkFailed:
    number = error.errno if isinstance(error, OSError) else None
    return WorkFailed(type(error).__name__, str(error), number)


def pause_of(message: Mapping[str, object]) -> float:
    pause_s = message.get("pause_s", 0.0)
    return pause_s if isinstance(pause_s, float) else 0.0
