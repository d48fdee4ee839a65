"""What the three clients share: they pass calls on to the asyncio client and wait."""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

from odradek.client.errors import ClientClosed
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

    def __exit__(self, *_: object) -> None:
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
        try:
            self._wait(close())
        except ClientClosed:
            return
        finally:
            self._thread.stop()
