"""When a client tries again: the one policy behind every retry of this package.

- Which errors are retried: `is_retriable` of `client.errors`, unless the caller names others.
- How long to wait: exponential back-off with jitter as KIP-580 defines it, from
  `retry.backoff.ms` to `retry.backoff.max.ms` between requests, and from `reconnect.backoff.ms`
  to `reconnect.backoff.max.ms` between connections to one broker.
- How long one attempt to connect may take: `RetryPolicy.connection_setup_timeout_ms`.
- Until when: `deadline` ends an operation after `default.api.timeout.ms` or `max.block.ms` with
  an error that names the last failure. `request.timeout.ms` limits a single attempt and belongs to
  `connection`; `delivery.timeout.ms` limits a batch and belongs to `producer.batch_timers`.
- When metadata is refreshed before the next attempt: `needs_metadata`.

Place: `Cluster.retry` is the policy of one client; producer, consumer, groups, transactions and
admin calls take it from there. A test refuses other code of this package that sleeps to back off.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from odradek.client.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionFailed,
    NoBrokerAvailable,
    RequestTimedOut,
    is_retriable,
)
from odradek.client.settings.shared import ClientSettings
from odradek.protocol.errors import ErrorCode, KafkaError, StaleMetadataError, UnknownTopic
from odradek.world.randomness import Randomness

T = TypeVar("T")

# CONCURRENT_TRANSACTIONS means that the markers of the previous transaction are being written,
# which takes a few milliseconds. Kafka's TransactionManager waits 20 ms for the same reason
# (ADD_PARTITIONS_RETRY_BACKOFF_MS); here the wait grows from there.
_MARKERS_BACKOFF_MS: Final = 20
_JITTER: Final = 0.2
_MAX_DOUBLINGS: Final = 30
_MAX_SETUP_DOUBLINGS: Final = 10


def needs_metadata(error: BaseException) -> bool:
    """Returns whether metadata must be refreshed before the request is sent again.

    The leader may have moved: a broker said so, or the broker did not answer. Or the topic was
    created again: its leader epochs begin anew, below the one that this client knows.
    """
    if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return True
    return isinstance(
        error, StaleMetadataError | UnknownTopic | BrokerUnreachable | RequestTimedOut
    )


def may_fetch_again(error: KafkaError) -> bool:
    """Returns whether a refused fetch is sent again instead of failing the partition.

    UNKNOWN_SERVER_ERROR is not retriable elsewhere, but Kafka's FetchCollector only warns of it.
    """
    return is_retriable(error) or error.code == ErrorCode.UNKNOWN_SERVER_ERROR


class Backoff:
    """Delays that double with every consecutive failure, with jitter (KIP-580)."""

    __slots__ = ("_first_ms", "_max_ms", "_randomness")

    def __init__(self, first_ms: int, max_ms: int, randomness: Randomness) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._randomness = randomness

    def delay_s(self, failures: int) -> float:
        """Returns the delay after this many consecutive failures; it never exceeds `max_ms`."""
        doubled_ms = self._first_ms * 2.0 ** min(max(failures - 1, 0), _MAX_DOUBLINGS)
        jitter = 1 - _JITTER + 2 * _JITTER * self._randomness.fraction()
        return min(doubled_ms * jitter, self._max_ms) / 1000


class Failures:
    """Counts the consecutive failures of one operation and waits before its next attempt."""

    __slots__ = ("_backoff", "count")

    def __init__(self, backoff: Backoff) -> None:
        self.count = 0
        self._backoff = backoff

    def reset(self) -> None:
        """Forgets the failures, because the operation succeeded."""
        self.count = 0

    def add(self) -> float:
        """Counts a failure and returns the delay before the next attempt, in seconds."""
        self.count += 1
        return self._backoff.delay_s(self.count)

    async def wait(self) -> None:
        """Counts a failure and sleeps for its delay."""
        await asyncio.sleep(self.add())


async def sleep_until(time_s: float) -> None:
    """Sleeps until the event loop's clock shows `time_s`; returns at once if it does already."""
    delay_s = time_s - asyncio.get_running_loop().time()
    if delay_s > 0:
        await asyncio.sleep(delay_s)


class RetryPolicy:
    """The retries of one client, from its settings."""

    def __init__(self, settings: ClientSettings, randomness: Randomness) -> None:
        self._setup_timeout_ms = settings.socket_connection_setup_timeout_ms
        self._max_setup_timeout_ms = settings.socket_connection_setup_timeout_max_ms
        self.request_backoff = Backoff(
            settings.retry_backoff_ms, settings.retry_backoff_max_ms, randomness
        )
        self._connection_backoff = Backoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, randomness
        )
        self._markers_backoff = Backoff(
            min(_MARKERS_BACKOFF_MS, settings.retry_backoff_ms),
            settings.retry_backoff_max_ms,
            randomness,
        )

    def failures(self) -> Failures:
        """Returns a new count for an operation that sends requests."""
        return Failures(self.request_backoff)

    def connection_failures(self) -> Failures:
        """Returns a new count for the connections to one broker."""
        return Failures(self._connection_backoff)

    def connection_setup_timeout_ms(self, failures: int) -> int:
        """Returns how long the next attempt to connect may take after consecutive failures.

        It doubles from `socket.connection.setup.timeout.ms` to
        `socket.connection.setup.timeout.max.ms` (KIP-601).
        """
        doubled_ms = self._setup_timeout_ms << min(failures, _MAX_SETUP_DOUBLINGS)
        return min(doubled_ms, self._max_setup_timeout_ms)

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        may_retry: Callable[[BaseException], bool] = is_retriable,
        max_retries: int | None = None,
        on_retry: Callable[[BaseException], None] | None = None,
    ) -> T:
        """Calls `attempt` until it returns, with back-off after each error that may be retried.

        `on_retry` is called with each such error before the wait. Any other error is raised, and
        so is the one that comes after `max_retries` retries.
        """
        failures = self.failures()
        markers = Failures(self._markers_backoff)
        while True:
            try:
                return await attempt()
            except (ClientError, KafkaError) as error:
                retries = failures.count + markers.count
                if not may_retry(error) or (max_retries is not None and retries >= max_retries):
                    raise
                if on_retry is not None:
                    on_retry(error)
                is_concurrent = (
                    isinstance(error, KafkaError)
                    and error.code == ErrorCode.CONCURRENT_TRANSACTIONS
                )
            await (markers if is_concurrent else failures).wait()

    async def run_within(
        self,
        timeout_ms: int,
        timed_out: str,
        attempt: Callable[[], Awaitable[T]],
        *,
        may_retry: Callable[[BaseException], bool] = is_retriable,
        max_retries: int | None = None,
        waits_for: Callable[[], BaseException | None] | None = None,
    ) -> T:
        """Does what `run` does until the deadline.

        Then it raises what `deadline` raises; the message is `timed_out` followed by the time and
        by the last error. `waits_for` returns the error that an attempt waits out itself.
        """
        reason: list[BaseException] = []

        def describe() -> tuple[str, BaseException | None]:
            last = None if waits_for is None else waits_for()
            if last is None and reason:
                last = reason[-1]
            return f"{timed_out} within {timeout_ms} ms: {last or 'no broker answered'}", last

        def note(error: BaseException) -> None:
            reason[:] = [error]

        async with deadline(timeout_ms, describe):
            return await self.run(
                attempt, may_retry=may_retry, max_retries=max_retries, on_retry=note
            )


@asynccontextmanager
async def deadline(
    timeout_ms: int, describe: Callable[[], tuple[str, BaseException | None]]
) -> AsyncIterator[None]:
    """Raises `RequestTimedOut` if the body takes longer than `timeout_ms`.

    `describe` returns the message and the error that caused the delay, if one is known. If that was
    that no connection could be made, `NoBrokerAvailable` is raised instead: nothing was requested.
    A `RequestTimedOut` of a single request passes unchanged.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            yield
    except TimeoutError as error:
        if isinstance(error, ClientError):
            raise
        message, cause = describe()
        if isinstance(cause, NoBrokerAvailable | ConnectionFailed):
            raise NoBrokerAvailable(message) from cause
        raise RequestTimedOut(message) from cause
