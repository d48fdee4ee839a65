"""Refreshes the metadata of a client and opens its connections to brokers.

Producer, consumer and admin client have one `Cluster` each. The metadata itself is in
`cluster_view`, a single connection in `connection`.
"""

import asyncio
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING

from odradek.client.cluster_view import ClusterView, Topic
from odradek.client.connection import Connection
from odradek.client.errors import (
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    ConnectionClosed,
    MetadataTimedOut,
    NoBrokerAvailable,
    is_retriable,
)
from odradek.client.metrics.counting import ConnectionCounts
from odradek.client.missing_topics import MissingTopics
from odradek.client.retry import Failures, RetryPolicy, sleep_until
from odradek.client.settings.shared import ClientSettings
from odradek.client.tracked_topics import TrackedTopics
from odradek.client.unreachable import UnreachableBrokers
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic, error_for
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.types import (
    BrokerId,
)
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.security import ClientSecurity

LONG_POLLS = "fetch"
"""The purpose of connections on which answers may take long."""
_LONG_AGO_S = -1e9
_MAX_ANSWERS_TO_QUESTION = 8
# Errors of a topic that stay, however long the client waits.
FATAL_FOR_TOPIC = {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


class _Link:
    """The connection to one address: open, being opened, or waiting after a failure."""

    __slots__ = ("connection", "counts", "failures", "not_before_s", "opening")

    def __init__(self, failures: Failures) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.failures = failures
        self.not_before_s = 0.0
        self.counts = ConnectionCounts()


class Cluster:
    """Refreshes the metadata and opens connections, again after failures."""

    def __init__(
        self,
        settings: ClientSettings,
        randomness: Randomness | None = None,
        *,
        auto_create_topics: bool = False,
    ) -> None:
        self.settings = settings
        self.view = ClusterView()
        self.randomness = randomness or Randomness()
        self.retry = RetryPolicy(settings, self.randomness)
        self._auto_create_topics = auto_create_topics
        self._loop = asyncio.get_running_loop()
        self._links: dict[tuple[str, int, str], _Link] = {}
        self._security = _security(settings, self.randomness)
        self._unreachable = UnreachableBrokers(settings, self.view)
        self._tracked = TrackedTopics()
        self._missing = MissingTopics(self.view)
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_again = False
        self._listeners: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failures = self.retry.failures()
        self._refresh_delay_s = 0.0
        self._failing_since_s: float | None = None
        # The error of the last refresh, if it failed.
        self.refresh_fault: BaseException | None = None
        self._last_update_s = _LONG_AGO_S
        # Called with each new connection, if somebody wants to know.
        self.on_connection: Callable[[Connection], None] | None = None
        self._closed = False

    def connection_counts(
        self,
    ) -> Iterator[tuple[BrokerId | None, ConnectionCounts, Connection | None]]:
        """Yields the counters of each address that was connected to, with its broker if that is
        known, and its connection now."""
        ids = {(broker.host, broker.port): broker.id for broker in self.view.brokers.values()}
        for (host, port, _), link in self._links.items():
            yield ids.get((host, port)), link.counts, link.connection

    def metadata_age_s(self, now_s: float) -> float:
        """Returns the age of the metadata, 0 if there is none."""
        return 0.0 if self._last_update_s == _LONG_AGO_S else now_s - self._last_update_s

    def check_loop(self, client: str) -> None:
        """Raises `ClientClosed` if the event loop of the client's first call has ended."""
        if self._loop.is_closed():
            raise ClientClosed(loop_ended(client))

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after every refresh, whether it succeeded or failed."""
        self._listeners.append(listener)

    # Connections

    async def connection(self, broker_id: int, purpose: str = "") -> Connection:
        """Returns a connection to a broker, opened if need be.

        There is one connection for each `purpose`, so that requests of one purpose do not wait
        behind those of another.
        """
        broker = self.view.brokers.get(BrokerId(broker_id))
        if broker is None:
            known = ", ".join(map(str, sorted(self.view.brokers))) or "none"
            raise NoBrokerAvailable(
                f"broker {broker_id} is not in the cluster; known brokers are: {known}"
            )
        try:
            return await self._connect(broker.host, broker.port, purpose)
        except (ClientError, KafkaError) as error:
            self._unreachable.note_failure(broker.host, broker.port, error, self._loop.time())
            raise

    def connected(self, broker_id: int, purpose: str = "") -> Connection | None:
        """Returns the connection to a broker if it is open already."""
        broker = self.view.brokers.get(BrokerId(broker_id))
        link = None if broker is None else self._links.get((broker.host, broker.port, purpose))
        if link is None or link.connection is None or not link.connection.is_open:
            return None
        return link.connection

    async def _connect(self, host: str, port: int, purpose: str = "") -> Connection:
        if self._closed:
            raise ClientClosed("the client is closed")
        link = self._links.get((host, port, purpose))
        if link is None:
            link = self._links[host, port, purpose] = _Link(self.retry.connection_failures())
        if link.connection is not None:
            if link.connection.is_open:
                return link.connection
            link.connection = None
        if link.opening is None:
            link.opening = self._loop.create_task(self._open(link, host, port))
            link.opening.add_done_callback(_look)
        return await asyncio.shield(link.opening)

    async def _open(self, link: _Link, host: str, port: int) -> Connection:
        settings = self.settings
        silence = None
        try:
            await sleep_until(link.not_before_s)
            silence = self._unreachable.watch_silence(host, port)
            timeout_ms = self.retry.connection_setup_timeout_ms(link.failures.count)
            link.connection = await Connection.open(
                host,
                port,
                client_id=settings.client_id,
                connect_timeout_ms=timeout_ms,
                # Who tries again for long may as well wait for a broker that hangs.
                first_answer_timeout_ms=None if self._unreachable.goes_on else timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
                send_buffer_bytes=settings.send_buffer_bytes,
                receive_buffer_bytes=settings.receive_buffer_bytes,
                counts=link.counts,
                security=self._security,
            )
        except (ClientError, KafkaError):
            link.not_before_s = self._loop.time() + link.failures.add()
            raise
        else:
            link.failures.reset()
            link.counts.opened += 1
            self._unreachable.note_success(host, port)
            if self.on_connection is not None:
                self.on_connection(link.connection)
            return link.connection
        finally:
            link.opening = None
            if silence is not None:
                silence.cancel()

    async def any_connection(self) -> Connection:
        """Returns a connection to any broker.

        Open connections come first, then brokers of the metadata, then `bootstrap.servers`.
        """
        for (_, _, purpose), link in self._links.items():
            # A request on a connection for long polls would wait until the poll ends.
            if purpose != LONG_POLLS and link.connection is not None and link.connection.is_open:
                return link.connection
        addresses = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        if not addresses or self.settings.metadata_recovery_strategy == "rebootstrap":
            addresses += [
                address for address in self.settings.bootstrap_addresses if address not in addresses
            ]
        start = self.randomness.integer_below(len(addresses)) if len(self.view.brokers) > 1 else 0
        failures: dict[tuple[str, int], BaseException] = {}
        for host, port in addresses[start:] + addresses[:start]:
            try:
                return await self._connect(host, port)
            except (BrokerUnreachable, TimeoutError) as error:
                failures[host, port] = error
        # Only now: one address that answers is enough to begin with.
        for (host, port), failure in failures.items():
            self._unreachable.note_failure(host, port, failure, self._loop.time())
        none = NoBrokerAvailable("; ".join(map(str, failures.values())))
        none.reasons = tuple(failures.values())
        raise none

    # Metadata

    def track(self, topic: str, *, is_needed: bool = True) -> None:
        """Adds a topic to every refresh from now on; the next refresh does not wait. It raises if
        this cannot be a topic."""
        if self._tracked.add(topic, self._loop.time(), is_needed=is_needed):
            # Whoever needs it is warned, though somebody has asked about it before.
            self._missing.forget(topic)
            self._last_update_s = _LONG_AGO_S

    def untrack(self, topic: str) -> None:
        self._tracked.remove(topic)
        self._missing.forget(topic)

    def refresh_soon(self) -> None:
        """Starts a refresh unless one is under way; after a failure it backs off first."""
        if self._closed:
            return
        if self._refreshing is not None:
            self._refresh_again = True
            return
        self._refreshing = self._loop.create_task(self._refresh_with_backoff())
        self._refreshing.add_done_callback(_look)

    async def refresh(self) -> None:
        """Refreshes, or waits for the refresh under way; raises the error of that refresh."""
        if self._closed:
            raise ClientClosed("the client is closed")
        if self._refreshing is None:
            self.refresh_soon()
        refreshing = self._refreshing
        if refreshing is not None:
            await asyncio.shield(refreshing)

    async def _refresh_with_backoff(self) -> None:
        try:
            if self._failures.count:
                await sleep_until(self._loop.time() + self._refresh_delay_s)
            else:
                # A request that fails again after each refresh must not refresh without pause.
                await sleep_until(self._last_update_s + self.settings.retry_backoff_ms / 1000)
            await self._refresh_once()
            self._failures.reset()
            self._failing_since_s = self.refresh_fault = None
        except (ClientError, KafkaError) as error:
            self.refresh_fault = error
            self._refresh_delay_s = self._failures.add()
            self._note_failure()
            raise
        finally:
            self._refreshing = None
            self._schedule()
            for listener in self._listeners:
                listener()
            if self._refresh_again:
                self._refresh_again = False
                self.refresh_soon()

    async def _refresh_once(self) -> None:
        connection = await self.any_connection()
        needed_topics, other_topics = self._tracked.needed(), self._tracked.others()
        self._last_update_s = self._loop.time()
        try:
            response = await self._ask_about(connection, [*needed_topics, *other_topics])
        except ConnectionClosed as error:
            if connection.closed_at_first_request:
                self._unreachable.note_closed(connection.host, connection.port, error)
            raise
        if self._auto_create_topics:
            # Not with the first request: that a topic did not exist is worth a warning.
            unknown = self._missing.unknown_in(response, needed_topics)
            if unknown:
                await self._ask_about(connection, unknown, may_create=True)
        await self._missing.report(connection, self._tracked.is_needed)

    async def _ask_about(
        self, connection: Connection, topics: list[str], *, may_create: bool = False
    ) -> MetadataResponse:
        response = await connection.request(
            MetadataRequest(
                topics=[MetadataRequestTopic(name=topic) for topic in topics],
                allow_auto_topic_creation=may_create,
            ),
            MetadataResponse,
        )
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._rebootstrap()
            raise error_for(response.error_code)
        self.view.update(response, topics)
        return response

    def _note_failure(self) -> None:
        now_s = self._loop.time()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        trigger_s = self.settings.metadata_recovery_rebootstrap_trigger_ms / 1000
        if (
            self.settings.metadata_recovery_strategy == "rebootstrap"
            and now_s - self._failing_since_s > trigger_s
        ):
            self._rebootstrap()

    def _rebootstrap(self) -> None:
        """Forgets the brokers, so that the next refresh starts from bootstrap.servers."""
        self.view.brokers = {}
        self._failing_since_s = None
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()

    def _schedule(self) -> None:
        """Sets the timer of the refresh that comes after `metadata.max.age.ms`."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            age_s = self.settings.metadata_max_age_ms / 1000
            self._timer = self._loop.call_later(age_s, self._refresh_by_age)

    def _refresh_by_age(self) -> None:
        self._close_idle()
        self._forget_questions()
        self.refresh_soon()

    def _forget_questions(self) -> None:
        for topic in self._tracked.old_questions(self._loop.time()):
            self.untrack(topic)
            self.view.forget(topic)

    def _close_idle(self) -> None:
        limit_ms = self.settings.connections_max_idle_ms
        if limit_ms < 0:
            return
        oldest_s = self._loop.time() - limit_ms / 1000
        for link in self._links.values():
            connection = link.connection
            if connection and not connection.in_flight and connection.last_used_s < oldest_s:
                connection.close()

    async def topic(self, name: str, timeout_ms: int) -> Topic:
        """Returns a topic as soon as its metadata is known.

        After `timeout_ms` it raises `UnknownTopic` if brokers say that there is no such topic,
        `NoBrokerAvailable` if none could be reached, else `MetadataTimedOut`. An invalid name or a
        missing permission is raised at once.
        """
        self.track(name)
        return await self._topic(name, timeout_ms, inf)

    async def existing_topic(self, name: str, timeout_ms: int) -> Topic:
        """Does what `topic` does for a question: it creates no topic and waits for none."""
        self.track(name, is_needed=False)
        return await self._topic(name, timeout_ms, _MAX_ANSWERS_TO_QUESTION)

    async def _topic(self, name: str, timeout_ms: int, max_answers: float) -> Topic:
        deadline_s = self._loop.time() + timeout_ms / 1000
        reason: BaseException | None = None
        answers = 0
        while name not in self.view.topics:
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self.refresh()
            except TimeoutError as error:
                last_error = reason or self.view.errors.get(name) or error
                hint = self.view.hints.get(name, "")
                raise _missing_topic(name, timeout_ms, last_error, hint) from None
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    raise
                reason = error
                continue
            reason = None
            fault = self.view.errors.get(name)
            answers += 1
            if fault is not None and (
                fault.code in FATAL_FOR_TOPIC
                or (isinstance(fault, UnknownTopic) and answers >= max_answers)
            ):
                raise fault
        return self.view.topics[name]

    async def close(self) -> None:
        """Closes every connection and ends the refresh under way. If it is cancelled, the
        connections are closed all the same."""
        self._closed = True
        if self._loop.is_closed():
            return
        if self._timer is not None:
            self._timer.cancel()
        tasks: list[asyncio.Task[None] | asyncio.Task[Connection]] = []
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        tasks += [link.opening for link in self._links.values() if link.opening is not None]
        for task in tasks:
            task.cancel()
        connections = [link.connection for link in self._links.values() if link.connection]
        for connection in connections:
            connection.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in connections:
            await connection.wait_closed()


def _security(settings: ClientSettings, randomness: Randomness) -> "ClientSecurity | None":
    """Returns what connections need for TLS and SASL; None for PLAINTEXT, which imports none."""
    if settings.security_protocol == "PLAINTEXT":
        return None
    from odradek.client.security import ClientSecurity  # noqa: PLC0415

    return ClientSecurity(settings, randomness)


def loop_ended(client: str) -> str:
    """Returns what a program is told that uses a client in a second `asyncio.run()`."""
    return (
        f"the event loop of the {client} has ended: close() a {client} before that (`async with`"
        " does), and make a new one in each asyncio.run()"
    )


def _missing_topic(
    name: str, timeout_ms: int, last_error: BaseException, hint: str = ""
) -> Exception:
    if isinstance(last_error, UnknownTopic):
        return UnknownTopic(
            last_error.code,
            f"There is no topic {name}, nor was it created within {timeout_ms} ms: check the name,"
            f" or create it (odradek topics --create --topic {name}){hint or '.'}",
        )
    if isinstance(last_error, BrokerUnreachable):
        return NoBrokerAvailable(
            f"no broker could be reached for {timeout_ms} ms, so nothing is known of topic {name}:"
            f" {last_error}"
        )
    return MetadataTimedOut(f"topic {name} is not there after {timeout_ms} ms: {last_error}")


def _look(task: "asyncio.Task[None] | asyncio.Task[Connection]") -> None:
    """Marks the exception as retrieved: a caller that awaits the task still gets it, and asyncio
    does not log it if there is no such caller."""
    if not task.cancelled():
        task.exception()
