"""Runs coroutines on an event loop in a thread of its own, while other threads wait."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

import uvloop

from odradek.client.errors import ClientClosed

T = TypeVar("T")
Begun = concurrent.futures.Future


class _Call(Generic[T]):
    """A coroutine that runs on the client's loop while another thread waits for it.

    All state changes on the loop, so that there is one order of events: either the waiting thread
    has the result, or it was interrupted and `on_unseen` gets the result.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, T],
        on_unseen: Callable[[T], None] | None,
        program_ends: threading.Event,
    ) -> None:
        self.outcome: Begun[T] = concurrent.futures.Future()
        self.ended = threading.Event()
        self._work = work
        self._on_unseen = on_unseen
        self._program_ends = program_ends
        self._task: asyncio.Task[T] | None = None
        self._is_abandoned = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def abandon(self) -> None:
        """Cancels the work of a thread that was interrupted, and gives back its result."""
        self._is_abandoned = True
        if self._task is None:
            # The thread was interrupted before it could ask for the start.
            self._work.close()
            self.ended.set()
        elif self.outcome.done():
            self._return_unseen(self._task)
        else:
            # A task that has ended is not cancelled by it: `_finish` is about to run.
            self._task.cancel()

    def _finish(self, task: "asyncio.Task[T]") -> None:
        if self._is_abandoned:
            self._return_unseen(task)
        elif task.cancelled():
            if self._program_ends.is_set():
                # Only a daemon thread still waits. It ends with the process, without a traceback.
                return
            self.outcome.set_exception(ClientClosed("the client was closed during this call"))
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    def _return_unseen(self, task: "asyncio.Task[T]") -> None:
        try:
            if not task.cancelled() and task.exception() is None and self._on_unseen is not None:
                self._on_unseen(task.result())
        finally:
            self.ended.set()


class LoopThread:
    """An event loop that runs in a thread until it is stopped.

    If a call is interrupted (Ctrl-C, or a signal handler that raises), its coroutine is cancelled,
    and a result that it returned at the same moment is given back. No call waits for ever: neither
    on a loop that was stopped, nor in the loop's own thread, nor in a process that was forked and
    has no such thread.
    """

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        # Signal handlers run in the middle of a call and may call the client again.
        self._lock = threading.RLock()
        self._is_stopping = False
        self._program_ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._run_until_stopped()
        self.loop.close()

    def _run_until_stopped(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # It was stopped, or a callback raised SystemExit: no further call is accepted.
            with self._lock:
                self._is_stopping = True
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def call(self, work: Coroutine[Any, Any, T], on_unseen: Callable[[T], None] | None = None) -> T:
        """Runs `work` on the loop and returns its result, or raises its exception.

        If this thread is interrupted meanwhile, `work` is cancelled. If it returned nevertheless,
        `on_unseen` is called with the result, on the loop and before any later call.
        """
        try:
            self._check_caller()
        except BaseException:
            work.close()
            raise
        call = _Call(work, on_unseen, self._program_ends)
        try:
            if not self._submit(call.start):
                work.close()
                raise ClientClosed("the client is closed")
            return call.outcome.result()
        except BaseException as error:
            is_its_own = call.outcome.done() and call.outcome.exception() is error
            # The lock is not held here. A second signal ends this wait, not the cancellation.
            if not is_its_own and self._submit(call.abandon):
                call.ended.wait()
            raise

    def _check_caller(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a callback runs in the client's own thread, where nobody can wait for the client:"
                " hand the call to another thread, for example with queue.Queue"
            )
        if self._was_forked():
            raise ClientClosed(
                "the client was made before this process was forked: make one in each process"
            )

    def _was_forked(self) -> bool:
        """Returns whether this is a process that was forked after the client was made.

        Threads do not survive a fork, and locks may be held for ever: nothing may be waited for.
        """
        return not self._thread.is_alive() and not self._is_stopping

    def _submit(self, function: Callable[[], None]) -> bool:
        """Makes the loop call a function; returns False if the loop has been stopped."""
        with self._lock:
            if self._is_stopping:
                return False
            self.loop.call_soon_threadsafe(function)
            return True

    def begin(self, work: Coroutine[Any, Any, T]) -> "Begun[T]":
        """Starts a coroutine and does not wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """Cancels all calls and ends the thread; calls that wait raise ClientClosed."""
        if self._was_forked():
            return
        self._check_caller()
        if self.stop_soon():
            self._thread.join()

    def stop_soon(self) -> bool:
        """Does what `stop` does without waiting; returns False if there is nothing to stop.

        The garbage collector may call it, in any thread.
        """
        if self._was_forked():
            return False
        with self._lock:
            if self._is_stopping:
                return False
            self._is_stopping = True
            self.loop.call_soon_threadsafe(self.loop.stop)
            return True

    def stop_with_program(self) -> None:
        """Does what `stop` does when the program ends; calls that wait never return."""
        self._program_ends.set()
        self.stop()
