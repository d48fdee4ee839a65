"""An asyncio event loop in virtual time.

Nothing waits: when no callback is ready, time jumps to the next timer. Callbacks run in the
order they were scheduled, timers by time and then by that order. Tasks and futures hash by
sequence number, because sets of them (a TaskGroup's, `asyncio.wait`'s) are iterated. An
exception that asyncio would only log ends the run, and so does a run in which nobody can
ever proceed.
"""

import asyncio
import heapq
import math
import sys
import time
import weakref
import zlib
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

# More callbacks than this without time moving is a busy loop, not work.
MOST_STEPS_IN_AN_INSTANT = 1_000_000
# How often the cost of a run is looked at, in steps.
_STEPS_BETWEEN_LOOKS = 1024


class SimulationError(AssertionError):
    """The run ended where production would have logged, hung or spun."""


class SimulatedFuture(asyncio.Future[T]):
    """Hashes by sequence number: its place in a set does not depend on its address."""

    def __init__(self, *, loop: "SimulatedLoop") -> None:
        super().__init__(loop=loop)
        self._number = loop.next_number()
        self.process = current_process.get()

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[T]):
    def __init__(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        loop: "SimulatedLoop",
        name: str | None,
        context: Context | None,
    ) -> None:
        self.number = loop.next_number()
        self.process = (context or copy_context()).get(current_process)
        super().__init__(coro, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs one program from start to end; `network` is set by whoever builds the world."""

    def __init__(self, *, time_limit_s: float = 86_400.0, cpu_limit_s: float = math.inf) -> None:
        """`cpu_limit_s` bounds what a run costs: it ends some runs and changes none."""
        self.network: Network | None = None
        # Seconds before and after a blocking call in a worker: the call happens in between.
        self.blocking_delay_s: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
        self.steps = 0
        self.fingerprint = 0
        self._time_s = 0.0
        self._time_limit_s = time_limit_s
        self._cpu_limit_s = cpu_limit_s
        self._steps_at_this_instant = 0
        self._ready: deque[tuple[Process | None, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, Process | None, asyncio.TimerHandle]] = []
        self._numbers = 0
        self._tasks: weakref.WeakSet[SimulatedTask[Any]] = weakref.WeakSet()
        self._graveyard: list[SimulatedTask[Any]] = []
        self._failure: BaseException | None = None
        # Whose callback runs; exceptions of callbacks are reported outside their context.
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
    ) -> asyncio.Handle:
        self._require_open()
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((context.get(current_process), handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._require_open()
        if context is None:
            context = copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        process = context.get(current_process)
        heapq.heappush(self._timers, (when, self.next_number(), process, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are skipped when their time comes."""

    # Futures, tasks, workers

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> Any:
        self._require_open()
        if self._task_factory is not None:
            task = self._task_factory(self, coro, context=context, **options)
        else:
            task = SimulatedTask(coro, loop=self, name=name, context=context)
            self._tasks.add(task)
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs the call on the loop, some virtual time from now, and answers later still.

        The caller cannot know when between the two the call happened, as with a real thread.
        """
        before_s, after_s = self.blocking_delay_s()
        result: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                value = func(*args)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits
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
        while time.thread_time() < deadline_s:
            for _ in range(_STEPS_BETWEEN_LOOKS):
                if main.done() or self._failure is not None:
                    return
                self._step()
        raise SimulationError(
            f"too expensive: not done after {self._cpu_limit_s:g} seconds of work,"
            f" {self._time_s:.1f} virtual seconds and {self.steps} steps\n{self.describe_tasks()}"
        )

    def _finish_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.call_soon(self.create_task, generator.aclose())

    def _step(self) -> None:
        if not self._ready:
            self._advance()
            return
        self._steps_at_this_instant += 1
        if self._steps_at_this_instant > MOST_STEPS_IN_AN_INSTANT:
            raise SimulationError(f"a busy loop: time stands still\n{self.describe_tasks()}")
        process, handle = self._ready.popleft()
        if handle.cancelled():
            return
        if process is not None and process.state is not State.RUNNING:
            if process.state is State.STOPPED:
                process.held.append(handle)
            return
        self.steps += 1
        place = process.name if process is not None else "-"
        self.fingerprint = zlib.crc32(f"{self._time_s!r} {place}".encode(), self.fingerprint)
        self._stepping = process
        handle._run()
        self._stepping = None

    def _advance(self) -> None:
        """Jumps to the next timer and makes everything that is due then ready."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
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
        self._steps_at_this_instant = 0
        while timers and timers[0][0] <= when:
            _, _, process, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._ready.append((process, handle))

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
        """Ignored: nothing is to be swallowed here."""

    def get_exception_handler(self) -> None:
        return None

    # Processes

    def stop_process(self, process: Process) -> None:
        """As SIGSTOP does: everything of it waits, while time goes on."""
        if process.state is State.RUNNING:
            process.state = State.STOPPED

    def resume_process(self, process: Process) -> None:
        if process.state is State.STOPPED:
            process.state = State.RUNNING
            while process.held:
                self._ready.append((process, process.held.popleft()))

    def bury(self, process: Process, state: State) -> None:
        """As SIGKILL and exit do: nothing of it runs again, not even a `finally`.

        Its pending tasks are kept, because collecting a coroutine would run its `finally`.
        """
        process.state = state
        process.held.clear()
        self._graveyard += [task for task in self._pending_tasks() if task.process is process]

    def _pending_tasks(self) -> list[SimulatedTask[Any]]:
        return sorted((t for t in self._tasks if not t.done()), key=lambda task: task.number)

    def close(self) -> None:
        """Lets go of whatever is left. What unwinds now is after the end of the world."""
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

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    def describe_tasks(self) -> str:
        """Who waits, and where: one line a task."""
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
        except BaseException:  # noqa: BLE001, S112 - nobody is left whom it concerns
            continue
        return


def _where(awaited: object) -> str:
    """The innermost line of ours that an awaiting coroutine stands in."""
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
    return " > ".join(places) or "a place unknown"
