"""What interrupts a thread that waits for the client's loop: a signal, or the end of the loop."""

import asyncio
import concurrent.futures
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from odradek.client.errors import ClientClosed
from odradek.client.sync import LoopThread
from odradek.client.sync.consumer import _Elsewhere
from odradek.protocol.types import TopicPartition


class Interrupted(Exception):
    pass


def _interrupt(*_: object) -> None:
    raise Interrupted


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    """A loop to call, while SIGUSR1 interrupts the main thread as Ctrl-C does."""
    before = signal.signal(signal.SIGUSR1, _interrupt)
    made = LoopThread("test")
    yield made
    made.stop()
    signal.signal(signal.SIGUSR1, before)


def _signal_main_thread() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def test_an_interrupted_call_ends_its_coroutine_before_the_next_call(thread: LoopThread) -> None:
    story: list[str] = []

    async def wait() -> None:
        story.append("begun")
        asyncio.get_running_loop().call_later(0.05, _signal_main_thread)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            story.append("cancelled")

    with pytest.raises(Interrupted):
        thread.call(wait())
    assert story == ["begun", "cancelled"]


class _InterruptedTooLate(concurrent.futures.Future[int]):
    """A result that is there when the signal comes, but has not been returned."""

    def result(self, timeout: float | None = None) -> int:
        super().result(timeout)
        raise Interrupted


def test_what_a_call_returned_is_given_back_if_the_signal_came_before_anybody_saw_it(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[int] = []

    async def take() -> int:
        return 7

    monkeypatch.setattr(concurrent.futures, "Future", _InterruptedTooLate)
    with pytest.raises(Interrupted):
        thread.call(take(), given_back.append)
    assert given_back == [7]


def test_what_a_coroutine_returns_although_it_is_cancelled_is_given_back(
    thread: LoopThread,
) -> None:
    given_back: list[int] = []

    async def take() -> int:
        asyncio.get_running_loop().call_later(0.05, _signal_main_thread)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 7
        return 8

    with pytest.raises(Interrupted):
        thread.call(take(), given_back.append)
    assert given_back == [7]


def test_what_is_returned_at_the_moment_of_the_signal_is_given_back_once(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task has ended and is about to say so, when the waiting thread gives it up."""
    given_back: list[int] = []
    given_up = threading.Event()
    submit = thread._submit

    def submit_and_say(function: Callable[[], None]) -> bool:
        done = submit(function)
        if function.__name__ == "abandon":
            given_up.set()
        return done

    monkeypatch.setattr(thread, "_submit", submit_and_say)

    async def take() -> int:
        loop = asyncio.get_running_loop()
        response = loop.create_future()

        def arrive() -> None:
            response.set_result(7)
            _signal_main_thread()
            # The loop is busy until the main thread has asked it to give the call up.
            given_up.wait(10)

        loop.call_later(0.05, arrive)
        found: int = await response
        return found

    with pytest.raises(Interrupted):
        thread.call(take(), given_back.append)
    assert given_back == [7]


def test_errors_of_the_coroutine_itself_are_not_taken_for_an_interruption(
    thread: LoopThread,
) -> None:
    async def fail() -> None:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        thread.call(fail())

    async def answer() -> int:
        return 42

    assert thread.call(answer()) == 42


def test_an_interrupted_poll_waits_for_the_rebalance_listener(thread: LoopThread) -> None:
    """Its thread cannot be ended, and the next poll must not return records before it has."""
    story: list[str] = []
    is_interrupted = threading.Event()

    class Listener:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            story.append("begun")
            _signal_main_thread()
            is_interrupted.wait(10)
            story.append("ended")

    async def poll() -> None:
        try:
            await _Elsewhere(Listener()).on_partitions_assigned([])
        finally:
            story.append("poll ended")

    def let_it_end(turns: int = 10) -> None:
        """A poll that does not wait has ended after so many turns of the loop."""
        if turns:
            thread.loop.call_soon(let_it_end, turns - 1)
        else:
            is_interrupted.set()

    submit = thread._submit

    def submit_and_say(function: Callable[[], None]) -> bool:
        done = submit(function)
        if function.__name__ == "abandon":
            thread.loop.call_soon_threadsafe(let_it_end)
        return done

    thread._submit = submit_and_say  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        thread.call(poll())
    assert story == ["begun", "ended", "poll ended"]


def test_a_call_that_waits_when_the_loop_is_stopped_ends(thread: LoopThread) -> None:
    begun = threading.Event()
    outcome: list[BaseException] = []

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            thread.call(wait())
        except ClientClosed as error:
            outcome.append(error)

    waiting = threading.Thread(target=call)
    waiting.start()
    assert begun.wait(10)
    thread.stop()
    waiting.join(10)
    assert not waiting.is_alive()
    assert len(outcome) == 1

    async def nothing() -> None: ...

    with pytest.raises(ClientClosed):
        thread.call(nothing())
