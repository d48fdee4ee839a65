"""The one retry policy of the client: delays, deadlines, which errors, and that no other exists."""

import ast
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import odradek.client
from odradek.client.errors import ConnectionClosed, RequestTimedOut, UnsupportedVersion
from odradek.client.retry import Backoff, RetryPolicy, deadline, may_fetch_again, needs_metadata
from odradek.client.settings import ClientSettings
from odradek.protocol.errors import ErrorCode, error_for
from odradek.world import Randomness
from simulation.run import run
from simulation.world import Simulation
from tests.inside import inside

_CLIENT = Path(odradek.client.__file__).parent
# Sleeps that are intervals, not back-off: a heartbeat, and the age of metadata.
_INTERVALS = {
    ("metrics/pusher.py", "run"),
    ("metrics/pusher.py", "_push_on"),
    ("group/classic_membership.py", "_beat"),
    ("group/subscription.py", "_watch"),
}


def in_virtual_time(test: Callable[[RetryPolicy], Awaitable[None]], **options: int) -> None:
    async def main(_: Simulation) -> None:
        settings = ClientSettings(**options)  # type: ignore[arg-type]
        await test(RetryPolicy(settings, Randomness(1)))

    run(main, 1)


in_virtual_minutes = inside(in_virtual_time)
"""Decorates a test that `in_virtual_time` runs."""


class Attempts:
    """Raises the given errors, one for each call, and then returns; notes when it was called."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.times_s: list[float] = []

    async def __call__(self) -> str:
        self.times_s.append(asyncio.get_running_loop().time())
        if self._errors:
            raise self._errors.pop(0)
        return "done"

    @property
    def delays_s(self) -> list[float]:
        return [
            after - before for before, after in zip(self.times_s, self.times_s[1:], strict=False)
        ]


def test_the_connection_setup_timeout_doubles_up_to_its_limit() -> None:
    settings = ClientSettings(
        socket_connection_setup_timeout_ms=10_000, socket_connection_setup_timeout_max_ms=30_000
    )
    policy = RetryPolicy(settings, Randomness(1))
    timeouts = [policy.connection_setup_timeout_ms(failures) for failures in (0, 1, 2, 1000)]
    assert timeouts == [10_000, 20_000, 30_000, 30_000]


def test_back_off_doubles_up_to_its_limit_with_jitter() -> None:
    backoff = Backoff(100, 1000, Randomness(3))
    for failures, expected_s in ((1, 0.1), (2, 0.2), (3, 0.4)):
        delays_s = [backoff.delay_s(failures) for _ in range(200)]
        assert 0.8 * expected_s <= min(delays_s) < 0.85 * expected_s
        assert 1.15 * expected_s < max(delays_s) <= 1.2 * expected_s


def test_no_delay_exceeds_the_maximum_with_its_jitter() -> None:
    """KIP-580: the maximum is applied after the jitter."""
    backoff = Backoff(100, 1000, Randomness(3))
    assert max(backoff.delay_s(failures) for failures in (4, 5, 500) for _ in range(200)) == 1.0


def test_a_first_delay_above_the_maximum_makes_the_maximum_constant() -> None:
    backoff = Backoff(5000, 1000, Randomness(3))
    assert {backoff.delay_s(failures) for failures in range(1, 9)} == {1.0}


@in_virtual_minutes()
async def test_an_operation_is_attempted_until_it_succeeds(policy: RetryPolicy) -> None:
    attempts = Attempts(*(ConnectionClosed("gone") for _ in range(6)))
    assert await policy.run(attempts) == "done"
    assert [round(delay_s / 0.1) for delay_s in attempts.delays_s[:2]] == [1, 2]
    assert attempts.delays_s[5] <= 1.0
    assert attempts.delays_s[5] >= 0.8


@in_virtual_minutes(
    retry_backoff_ms=500,
    retry_backoff_max_ms=500,
    reconnect_backoff_ms=4,
    reconnect_backoff_max_ms=7,
)
async def test_the_settings_decide_about_the_delays(policy: RetryPolicy) -> None:
    attempts = Attempts(*(ConnectionClosed("gone") for _ in range(3)))
    await policy.run(attempts)
    assert all(0.4 <= delay_s <= 0.5 for delay_s in attempts.delays_s)
    connections = policy.connection_failures()
    first_s, *later_s = [connections.add() for _ in range(5)]
    assert 0.0032 <= first_s <= 0.0048
    assert all(0.0064 <= delay_s <= 0.007 for delay_s in later_s)
    connections.reset()
    assert connections.add() <= 0.0048


@in_virtual_minutes()
async def test_an_error_that_is_not_retriable_is_raised_at_once(policy: RetryPolicy) -> None:
    attempts = Attempts(UnsupportedVersion("old"))
    with pytest.raises(UnsupportedVersion):
        await policy.run(attempts)
    attempts = Attempts(error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
        await policy.run(attempts)
    assert len(attempts.times_s) == 1


@in_virtual_minutes()
async def test_the_caller_may_name_other_errors_and_a_number_of_retries(
    policy: RetryPolicy,
) -> None:
    attempts = Attempts(UnsupportedVersion("old"))
    assert await policy.run(attempts, may_retry=lambda _: True) == "done"
    attempts = Attempts(*(ConnectionClosed(str(number)) for number in range(5)))
    retried: list[str] = []
    with pytest.raises(ConnectionClosed, match="2"):
        await policy.run(attempts, max_retries=2, on_retry=lambda error: retried.append(str(error)))
    assert retried == ["0", "1"]


@in_virtual_minutes()
async def test_markers_of_the_previous_transaction_are_waited_for_briefly(
    policy: RetryPolicy,
) -> None:
    attempts = Attempts(*(error_for(ErrorCode.CONCURRENT_TRANSACTIONS) for _ in range(3)))
    await policy.run(attempts)
    assert attempts.delays_s[0] <= 0.024
    assert sum(attempts.delays_s) <= 0.168


@in_virtual_minutes()
async def test_a_deadline_names_the_last_error(policy: RetryPolicy) -> None:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    attempts = Attempts(*(ConnectionClosed(f"failure {number}") for number in range(99)))
    with pytest.raises(RequestTimedOut, match="not done within 5000 ms: failure") as raised:
        await policy.run_within(5_000, "not done", attempts)
    assert isinstance(raised.value.__cause__, ConnectionClosed)
    assert loop.time() - begun_s == pytest.approx(5.0)

    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RequestTimedOut, match="not done within 10 ms: no broker answered"):
        await policy.run_within(10, "not done", never)


@in_virtual_minutes()
async def test_a_timeout_of_one_request_passes_a_deadline_unchanged(policy: RetryPolicy) -> None:
    error = RequestTimedOut("one request")
    with pytest.raises(RequestTimedOut) as raised:
        async with deadline(1_000, lambda: ("the deadline", None)):
            raise error
    assert raised.value is error


def test_metadata_is_refreshed_when_the_leader_may_have_moved() -> None:
    assert needs_metadata(error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert needs_metadata(ConnectionClosed("gone"))
    assert needs_metadata(RequestTimedOut("late"))
    assert not needs_metadata(error_for(ErrorCode.REQUEST_TIMED_OUT))
    assert not needs_metadata(error_for(ErrorCode.NOT_ENOUGH_REPLICAS))


def test_fetches_are_also_repeated_after_an_unknown_server_error() -> None:
    assert may_fetch_again(error_for(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert may_fetch_again(error_for(ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert not may_fetch_again(error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _sleeps(source: str) -> set[str]:
    """Returns the functions that await `asyncio.sleep` of anything but 0."""
    found = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            is_sleep = isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.sleep"
            if is_sleep and ast.unparse(node) != "asyncio.sleep(0)":
                found.add(function.name)
    return found


def test_no_other_code_of_the_client_backs_off_by_itself() -> None:
    found = {
        (str(path.relative_to(_CLIENT)), function)
        for path in sorted(_CLIENT.rglob("*.py"))
        if path.name != "retry.py"
        for function in _sleeps(path.read_text())
    }
    assert found == _INTERVALS
    counting = [
        str(path.relative_to(_CLIENT))
        for path in sorted(_CLIENT.rglob("*.py"))
        if path.name != "retry.py" and "failures += 1" in path.read_text()
    ]
    # The fetcher schedules a partition's next fetch with `Backoff` and does not sleep.
    assert counting == ["consumer/fetcher.py"]


def test_the_search_for_own_back_off_finds_it() -> None:
    source = "async def again():\n    while True:\n        await asyncio.sleep(backoff_s)\n"
    assert _sleeps(source) == {"again"}
