"""Runs programs that block inside the simulated world: each in a thread that waits its turn.

A thread runs only while the loop stands still, from one thing that it waits for to the next, so
there is one order of events and the seed decides it. What the program waits for is done by the task
that it belongs to, in virtual time. When its process is killed the thread is left waiting, and ends
when the run does.
"""

import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_current = threading.local()


def wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Waits for something in the program whose thread this is."""
    return _current.program.wait(work)


class Abandoned(BaseException):
    """Raised in a thread whose process was killed."""


class BlockingProgram(Generic[T]):
    """`await run()` in the process it belongs to; within, `wait` for what takes virtual time."""

    def __init__(self, program: Callable[["BlockingProgram[T]"], T]) -> None:
        self._program = program
        self._turn = threading.Semaphore(0)
        self._loop_turn = threading.Semaphore(0)
        self._asked: Coroutine[Any, Any, Any] | None = None
        self._answer: Any = None
        self._error: BaseException | None = None
        self._result: list[T] = []
        self._failure: BaseException | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._body, daemon=True)

    async def run(self) -> T:
        self._thread.start()
        try:
            self._loop_turn.acquire()
            while not self._is_over:
                assert self._asked is not None
                asked, self._asked = self._asked, None
                self._answer = self._error = None
                try:
                    self._answer = await asked
                except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                    self._error = error
                self._turn.release()
                self._loop_turn.acquire()
        finally:
            self.abandon()
        if self._failure is not None:
            raise self._failure
        return self._result[0]

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Called in the thread."""
        if self._is_over:
            work.close()
            raise Abandoned
        self._asked = work
        self._loop_turn.release()
        self._turn.acquire()
        if self._is_over:
            raise Abandoned
        if self._error is not None:
            raise self._error
        return self._answer

    def abandon(self) -> None:
        """Lets the thread end, if it has not."""
        if self._thread.is_alive() and not self._is_over:
            self._is_over = True
            self._turn.release()
            self._thread.join()
        if self._asked is not None:
            self._asked.close()
            self._asked = None

    def _body(self) -> None:
        _current.program = self
        try:
            self._result.append(self._program(self))
        except Abandoned:
            return
        except BaseException as error:  # noqa: BLE001 - it is raised by `run`
            self._failure = error
        self._is_over = True
        self._loop_turn.release()
