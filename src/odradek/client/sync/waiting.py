"""What the three clients share: they pass calls on to the asyncio client and wait.

A client that nobody closes ends with the program, or when nothing refers to it any more: its tasks
are cancelled, so that a consumer leaves its group (`client.group.unclosed`).
"""

import atexit
import sys
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

from odradek.client.errors import ClientClosed
from odradek.client.habits import explain
from odradek.client.sync.loop_thread import LoopThread


class _AsyncClient(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_AsyncClient)
T = TypeVar("T")


class WaitingClient(Generic[C]):
    """Has the asyncio client, and the thread whose loop runs it."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._thread = LoopThread("odradek-client")
        try:
            self._client: C = self._run(make)
        except BaseException:
            self._thread.stop()
            raise
        self._if_collected = weakref.finalize(self, self._thread.stop_soon)
        # `_end_unclosed` does more than the finalizer, which would come before it.
        self._if_collected.atexit = False
        _open_clients.add(self)

    def _end_with_program(self) -> None:
        """Ends a client that the program has not closed."""
        self._thread.stop_with_program()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and returns its result."""
        return self._thread.call(work)

    def _run(self, function: Callable[[], T]) -> T:
        """Calls a function on the loop, as the asyncio client is not safe for threads."""

        async def call() -> T:
            return function()

        return self._thread.call(call())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: object, *others: object) -> None:
        explain(error)
        self.close()

    def start(self) -> Self:
        """Does nothing: the first call connects. aiokafka's clients have it."""
        return self

    def stop(self) -> None:
        """The same as `close`, by aiokafka's name."""
        self.close()

    def close(self) -> None:
        """Closes the client and ends its thread."""
        self._close(self._client.close)

    def _close(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        explain(sys.exception())
        try:
            self._wait(close())
        except ClientClosed:
            return
        finally:
            _open_clients.discard(self)
            self._if_collected.detach()
            self._thread.stop()


_open_clients: "weakref.WeakSet[WaitingClient[Any]]" = weakref.WeakSet()


@atexit.register
def _end_unclosed() -> None:
    """Ends the clients that the program has not closed.

    Otherwise asyncio would say of each of their tasks that it was destroyed.
    """
    for client in list(_open_clients):
        client._end_with_program()
