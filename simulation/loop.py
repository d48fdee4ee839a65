"""An asyncio event loop in virtual time.

Nothing waits: when no callback is ready, time jumps to the next timer. Callbacks run in the
order they were scheduled, timers by time and then by that order. Tasks and futures hash by
sequence number, because sets of them (a TaskGroup's, `asyncio.wait`'s) are iterated. An
exception that asyncio would only log ends the run, and so does a deadlock: no callback is ready
and no timer is set.
"""

import asyncio
import heapq
import math
import sys
import time
import zlib
from asyncio.format_helpers import _format_callback_source
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from types import CoroutineType, FrameType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from simulation.process import Process, State, current_process

if TYPE_CHECKING:
    from simulation.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# More callbacks than this at one moment of virtual time count as a busy loop.
MAX_STEPS_IN_AN_INSTANT = 1_000_000
# After how many steps the CPU time of the run is compared with its limit.
_STEPS_BETWEEN_LOOKS = 1024
_RUNNING = State.RUNNING


class SimulationError(AssertionError):
    """The run ended for a reason that production would log, hang on or loop on for ever."""


class SimulatedFuture(asyncio.Future[T]):
    """A future that hashes by a sequence number, so its place in a set is the same in every run.

    `SimulatedLoop.create_future` makes it and sets both attributes: a constructor in Python would
    cost too much, because so many futures are made.
    """

    __slots__ = ("number", "process")
    number: int
    process: Process | None

    def __hash__(self) -> int:
        return self.number


class SimulatedTask(asyncio.Task[T]):
    __slots__ = ("number", "process")

    def __init__(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        loop: "SimulatedLoop",
        name: str | None,
        context: Context | None,
    ) -> None:
        self.number = loop.next_number()
        self.process = current_process.get() if context is None else context.get(current_process)
        super().__init__(coro, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self.number


class SimulatedHandle:
    """A callback that will run: what asyncio has `Handle` for."""

    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """Drops the callback and its arguments. The loop skips the handle when its time comes."""
        self.callback = _nothing
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is _nothing


class SimulatedTimer(SimulatedHandle):
    """A callback that will run at a time: what asyncio has `TimerHandle` for."""

    __slots__ = ("when_s",)
    when_s: float

    def when(self) -> float:
        return self.when_s


def _nothing() -> None:
    """Stands in for the callback of a cancelled handle."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs one program from start to end. `Simulation` sets `network`."""

    def __init__(self, *, time_limit_s: float = 86_400.0, cpu_limit_s: float = math.inf) -> None:
        """A run that uses more than `cpu_limit_s` of CPU time ends with an error."""
        self.network: Network | None = None
        # Seconds before and after a blocking call in a worker: the call happens in between.
        self.blocking_delay_s: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
        self.steps = 0
        self.fingerprint = 0
        self._time_s = 0.0
        self._time_limit_s = time_limit_s
        self._cpu_limit_s = cpu_limit_s
        # The processes (as bytes) whose callbacks ran at this moment, in order: see `_note_steps`.
        self._places: list[bytes] = []
        self._ready: deque[SimulatedHandle] = deque()
        self._timers: list[tuple[float, int, SimulatedTimer]] = []
        self._numbers = 0
        self._graveyard: list[SimulatedTask[Any]] = []
        self._failure: BaseException | None = None
        # The process whose callback runs. Exceptions are reported outside the callback's context.
        self._stepping: Process | None = None
        self._running = False
        self._closed = False
        self._debug = False
        self._task_factory: Any = None

    # Time and callbacks

    def time(self) -> float:
        return self._time_s

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = SimulatedHandle(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Any:
        return self.call_at(self._time_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Any:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = SimulatedTimer(callback, args, copy_context() if context is None else context)
        handle.when_s = when
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, handle))
        return handle

    # Futures, tasks, workers

    def create_future(self) -> asyncio.Future[Any]:
        future: SimulatedFuture[Any] = SimulatedFuture(loop=self)
        self._numbers += 1
        future.number = self._numbers
        future.process = current_process.get()
        return future

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> Any:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        if self._task_factory is not None:
            task = self._task_factory(self, coro, context=context, **options)
        else:
            task = SimulatedTask(coro, loop=self, name=name, context=context)
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs the call on the loop after some virtual time, and completes the future later still.

        The caller cannot know when between the two the call happened, as with a real thread.
        """
        before_s, after_s = self.blocking_delay_s()
        result: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                value = func(*args)
            except Exception as error:  # noqa: BLE001 - the awaiting code gets it
                self.call_later(after_s, settle, result.set_exception, error)
            else:
                self.call_later(after_s, settle, result.set_result, value)

        def settle(setter: Callable[[Any], None], value: object) -> None:
            if not result.done():
                setter(value)

        self.call_later(before_s, work)
        return result

    def set_default_executor(self, executor: object) -> None:
        """There are no threads here."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There are no threads here."""

    async def shutdown_asyncgens(self) -> None:
        """Generators are closed by the tasks that hold them."""

    # Network

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        assert self.network is not None, "this loop has no network"
        return await self.network.connect(protocol_factory, host, port, **options)

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        assert self.network is not None, "this loop has no network"
        return await self.network.listen(protocol_factory, host, port, **options)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        assert self.network is not None, "this loop has no network"
        return self.network.resolve(host, port)

    # Running

    def run_until_complete(self, future: Any) -> Any:
        main = asyncio.ensure_future(future, loop=self)
        old_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finish_generator)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            self._run(main)
        finally:
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*old_hooks)
        self.raise_failure()
        return main.result()

    def _run(self, main: "asyncio.Future[Any]") -> None:
        deadline_s = time.thread_time() + self._cpu_limit_s
        try:
            while time.thread_time() < deadline_s:
                if self._run_some(main):
                    return
        finally:
            self._note_steps()
        raise SimulationError(
            f"too expensive: not done after {self._cpu_limit_s:g} seconds of work,"
            f" {self._time_s:.1f} virtual seconds and {self.steps} steps\n{self.describe_tasks()}"
        )

    def _run_some(self, main: "asyncio.Future[Any]") -> bool:
        """Runs the next callbacks that are ready, but those that were cancelled or whose process
        cannot run. Returns whether the run is over.

        Every callback of a run passes here, so this is one function with as few calls as possible.
        """
        ready, places = self._ready, self._places
        for _ in range(_STEPS_BETWEEN_LOOKS):
            if main.done() or self._failure is not None:
                return True
            if not ready:
                self._note_steps()
                self._advance()
                continue
            handle = ready.popleft()
            if handle.callback is _nothing:
                del handle
                continue
            process = handle.context.get(current_process)
            if process is None:
                places.append(b"-")
            elif process.state is _RUNNING:
                places.append(process.place)
            else:
                if process.state is State.STOPPED:
                    process.held.append(handle)
                del handle
                continue
            self._stepping = process
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio's own handles do
                callback = _format_callback_source(handle.callback, handle.args)
                message = f"Exception in callback {callback}"
                self.call_exception_handler({"message": message, "exception": error})
            self._stepping = None
            # Now, and not when time has moved on, because the finalizers of what it held may log.
            del handle
        if len(places) > MAX_STEPS_IN_AN_INSTANT:
            raise SimulationError(f"a busy loop: time stands still\n{self.describe_tasks()}")
        return False

    def _note_steps(self) -> None:
        """Adds the steps of this moment to the fingerprint: the time and the process of each."""
        places = self._places
        if places:
            self.steps += len(places)
            instant = f"{self._time_s!r} ".encode()
            self.fingerprint = zlib.crc32(instant + instant.join(places), self.fingerprint)
            places.clear()

    def _finish_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.call_soon(self.create_task, generator.aclose())

    def _advance(self) -> None:
        """Jumps to the next timer and makes everything that is due then ready."""
        timers = self._timers
        while timers and timers[0][2].callback is _nothing:
            heapq.heappop(timers)
        if not timers:
            raise SimulationError(
                f"deadlock: nothing is ready and no timer is set\n{self.describe_tasks()}"
            )
        when = max(timers[0][0], self._time_s)
        if when > self._time_limit_s:
            raise SimulationError(
                f"not done after {self._time_limit_s:g} virtual seconds\n{self.describe_tasks()}"
            )
        self._time_s = when
        while timers and timers[0][0] <= when:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not _nothing:
                self._ready.append(handle)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What asyncio would log ends the run, unless the process it happened in was killed."""
        error = context.get("exception")
        source = context.get("task") or context.get("future")
        process = getattr(source, "process", None) or self._stepping
        if process is not None and process.state is State.KILLED:
            return
        self.fail(f"{context.get('message')} [{process}] {error!r}", error)

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """Ends the run after the current step; the first reason counts."""
        if self._failure is None:
            self._failure = SimulationError(reason)
            self._failure.__cause__ = cause

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def set_exception_handler(self, handler: Any) -> None:
        """Ignored: a handler could hide an error that must end the run."""

    def get_exception_handler(self) -> None:
        return None

    # Processes

    def stop_process(self, process: Process) -> None:
        """Holds back every callback of the process, as SIGSTOP does. Virtual time goes on."""
        if process.state is State.RUNNING:
            process.state = State.STOPPED

    def resume_process(self, process: Process) -> None:
        if process.state is State.STOPPED:
            process.state = State.RUNNING
            while process.held:
                self._ready.append(process.held.popleft())

    def bury(self, process: Process, state: State) -> None:
        """Ends a process as SIGKILL and exit do: none of its code runs again, not even a `finally`.

        Its pending tasks are kept, because collecting a coroutine would run its `finally`.
        """
        process.state = state
        process.held.clear()
        self._graveyard += [task for task in self._pending_tasks() if task.process is process]

    def _pending_tasks(self) -> list[SimulatedTask[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimulatedTask)]
        return sorted(tasks, key=lambda task: task.number)

    def close(self) -> None:
        """Unwinds the tasks that are left. The run is over, so their errors mean nothing."""
        if self._closed:
            return
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        for task in self._pending_tasks():
            if task.process is not None:
                task.process.state = State.KILLED
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close(task.get_coro())
        self._graveyard.clear()

    # State

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    def describe_tasks(self) -> str:
        """Returns a line for each waiting task: its process, its name and where it waits."""
        lines = []
        for task in self._pending_tasks():
            if task.process is not None and task.process.is_dead:
                continue
            place = task.process.name if task.process else "-"
            lines.append(f"  {place}: {task.get_name()} waits in {_where(task.get_coro())}")
        return "\n".join(lines) or "  no task is waiting"


def _close(coroutine: Any) -> None:
    """Unwinds a coroutine that may await again while it unwinds."""
    for _ in range(100):
        try:
            coroutine.close()
        except BaseException:  # noqa: BLE001, S112 - the run is over
            continue
        return


def _where(awaited: object) -> str:
    """The chain of source lines in which an awaiting coroutine waits, outermost first."""
    places: Sequence[str] = []
    while True:
        frame: FrameType | None
        if isinstance(awaited, CoroutineType):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif isinstance(awaited, GeneratorType):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        else:
            break
        if frame is not None:
            code = frame.f_code
            place = f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
            places = [*places, place]
    return " > ".join(places) or "an unknown line"
