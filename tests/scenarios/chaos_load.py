"""Load from real clients while a cluster suffers, and the judgement of what they saw.

Idempotent producers send numbered records to every partition, one after the other; a transactional
producer writes the same number into two partitions and aborts every fourth time. Consumers follow
both topics. Afterwards each topic is read from its beginning, and the history is judged by the
checkers of the simulation, so that real processes and simulated ones keep the same rules.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from simulation.checkers import History, Send, violations

LOAD, PAIRS = "load", "pairs"
PATIENCE_S: Final = 60.0
_ABORTS_EVERY: Final = 4
_TRANSACTION_TIMEOUT_MS: Final = 15_000
# In which partitions a transaction may be read, by what became of it.
_ALLOWED: Final[dict[str, list[list[int]]]] = {
    "committed": [[0, 1]],
    "aborted": [[]],
    "unknown": [[], [0, 1]],
}
# librdkafka waits longer each time, up to ten seconds, before it connects again to a broker that
# has gone twice within that time. Here brokers go every few seconds.
_CLIENT: Final = {"log_level": 0, "reconnect.backoff.max.ms": 500}
# What librdkafka needs to log in: a broker without security needs nothing.
NO_LOGIN: Final[Mapping[str, str]] = {}
NO_SETTINGS: Final[Mapping[str, str]] = {}
# Of one request: a coordinator that is stopped or cut off does not answer, and another one may be
# asked meanwhile. librdkafka's default is as long as our own patience.
_REQUEST_TIMEOUT_MS: Final = 10_000


def create_topics(
    bootstrap: str,
    partitions: int,
    replicas: int = 3,
    *,
    login: Mapping[str, str] = NO_LOGIN,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **login, **_CLIENT})
    config = {"min.insync.replicas": str(max(replicas - 1, 1)), **settings}
    topics = [
        NewTopic(LOAD, partitions, replicas, config=config),
        NewTopic(PAIRS, 2, replicas, config=config),
    ]
    for made in admin.create_topics(topics).values():
        made.result(PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Death:
    """A client that could not go on. If it is one of those that others replace, another one did."""

    client: str
    reason: str
    moment_s: float
    # The rule by which a client may die so; empty if there is none, and it is an anomaly.
    allowed: str = ""

    def __str__(self) -> str:
        rule = f" (allowed: {self.allowed})" if self.allowed else ""
        return f"{self.client} died: {self.reason}{rule}"


def not_allowed(deaths: Iterable[Death]) -> list[Death]:
    return [death for death in deaths if not death.allowed]


class Worker:
    """Runs in a thread until told to stop; what it raised is raised again by `finish`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stops = threading.Event()
        self._error: BaseException | None = None
        self.ended_s = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stops.set()

    def finish(self) -> None:
        self._stops.set()
        error = self.join()
        if error is not None:
            raise error

    def join(self, timeout_s: float | None = None) -> BaseException | None:
        """Waits for its end; returns what ended it, if it was an error."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return TimeoutError(f"it was told to stop and goes on after {timeout_s} s")
        return self._error

    @property
    def has_died(self) -> bool:
        return self._error is not None

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._error = error
        finally:
            self.ended_s = time.monotonic()

    def work(self) -> None:
        raise NotImplementedError


class IdempotentLoad(Worker):
    """acks=all and default retries, so that nothing may ever fail."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        partitions: int,
        rate: int,
        history: History,
        *,
        login: Mapping[str, str] = NO_LOGIN,
    ) -> None:
        super().__init__(name)
        self._partitions = partitions
        self._pause_s = 1 / rate
        self._history = history
        self.failures: list[str] = []
        # Acknowledged, at an offset that nobody was told.
        self.unplaced: list[Send] = []
        self.acknowledged_s: dict[int, list[float]] = defaultdict(list)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                **login,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                **_CLIENT,
            }
        )

    def log_in_as(self, user: str, password: str) -> None:
        """Connections that are made from now on use this password."""
        self._producer.set_sasl_credentials(user, password)

    def work(self) -> None:
        number = 0
        due_s = time.monotonic()
        while not self._stops.is_set():
            self._send(number)
            number += 1
            due_s = max(due_s + self._pause_s, time.monotonic() - 1.0)
            self._producer.poll(max(due_s - time.monotonic(), 0))
        left = self._producer.flush(PATIENCE_S)
        assert left == 0, f"{self.name}: {left} records were never answered"

    def _send(self, number: int) -> None:
        partition = number % self._partitions
        value = f"{self.name}:{number}".encode()
        send = self._history.sending(self.name, partition, value)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"{value!r}: {error}")
                return
            self.acknowledged_s[partition].append(time.monotonic())
            offset = message.offset()
            if offset is None or offset < 0:
                self.unplaced.append(send)
            else:
                self._history.acknowledged(send, offset)

        try:
            self._producer.produce(LOAD, value, partition=partition, on_delivery=delivered)
        except BufferError:
            self._producer.poll(0.05)
            self._history.sends.remove(send)


class TransactionalLoad(Worker):
    """Each transaction is a number in both partitions. `fates` says what became of it."""

    def __init__(
        self, bootstrap: str, pause_s: float = 0.02, login: Mapping[str, str] = NO_LOGIN
    ) -> None:
        super().__init__("transactions")
        self._bootstrap = bootstrap
        self._login = dict(login)
        self._pause_s = pause_s
        self.fates: dict[int, str] = {}
        self.deaths: list[Death] = []
        self.lives = 0
        self.slowest_s = 0.0

    def work(self) -> None:
        number = 0
        producer = self._new()
        while not self._stops.is_set():
            began = self._now_s()
            try:
                self._transact(producer, number)
            except KafkaException as error:
                fatal = error if error.args[0].fatal() else self._abort(producer, number)
                if fatal is not None:
                    self._note_death(number, error, fatal, self._now_s() - began)
                    producer = self._new()
            self.slowest_s = max(self.slowest_s, self._now_s() - began)
            number += 1
            self._stops.wait(self._pause_s)

    def _now_s(self) -> float:
        return time.monotonic()

    def _new(self) -> Producer:
        self.lives += 1
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                **self._login,
                "transactional.id": "pairs",
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                "socket.timeout.ms": _REQUEST_TIMEOUT_MS,
                **_CLIENT,
            }
        )
        _insist(lambda: producer.init_transactions(PATIENCE_S))
        return producer

    def _transact(self, producer: Producer, number: int) -> None:
        aborts = number % _ABORTS_EVERY == _ABORTS_EVERY - 1
        self.fates[number] = "aborted"
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(PAIRS, b"%d" % number, partition=partition)
        if aborts:
            producer.flush(PATIENCE_S)
            _insist(lambda: producer.abort_transaction(PATIENCE_S))
            return
        self.fates[number] = "unknown"
        self.committing(number)
        _insist(lambda: producer.commit_transaction(PATIENCE_S))
        self.fates[number] = "committed"

    def summary(self) -> str:
        fates = list(self.fates.values())
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in _ALLOWED)
        return (
            f"transactions: {counts}, slowest {self.slowest_s:.2f} s,"
            f" {self.lives} lives of the producer"
        )

    def committing(self, number: int) -> None:
        """Called before the commit of a transaction is asked for."""

    def _abort(self, producer: Producer, number: int) -> KafkaException | None:
        """Why the producer cannot go on. An abort that succeeds settles what was unknown."""
        try:
            _insist(lambda: producer.abort_transaction(PATIENCE_S))
        except KafkaException as error:
            return error
        self.fates[number] = "aborted"
        return None

    def _note_death(
        self, number: int, first: KafkaException, fatal: KafkaException, open_s: float
    ) -> None:
        """A producer may be fenced by the time-out of its transaction.

        `first` is what failed first; if the producer could abort, `fatal` is the answer to that.
        """
        allowed = ""
        if open_s * 1000 >= _TRANSACTION_TIMEOUT_MS:
            allowed = "its transaction was open for longer than its time-out"
        reason = f"transaction {number}, after {open_s:.1f} s: {first.args[0]}"
        if fatal is not first:
            reason += f"; when it was aborted: {fatal.args[0]}"
        self.deaths.append(Death(self.name, reason, time.monotonic(), allowed))


def _insist(call: Callable[[], object]) -> None:
    """As librdkafka asks for: what may be tried again is tried again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline_s:
                raise
        else:
            return


class Follower(Worker):
    """Polls a topic from its beginning on, for as long as it lives."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        history: History,
        login: Mapping[str, str] = NO_LOGIN,
    ) -> None:
        super().__init__(f"follower of {topic}")
        self._topic = topic
        self._partitions = partitions
        self._history = history
        self._bootstrap = bootstrap
        self._login = dict(login)
        self._next_login: tuple[str, str] | None = None
        self._has_next = threading.Event()

    def log_in_as(self, user: str, password: str) -> None:
        """Connections that are made from now on use this password. The thread that consumes sets
        it: a consumer of confluent-kafka lets one thread in at a time, and this one would wait for
        as long as there are records."""
        self._next_login = user, password
        self._has_next.set()
        while self._has_next.is_set() and self._thread.is_alive():
            time.sleep(0.01)

    def work(self) -> None:
        partitions = range(self._partitions)
        consumer = _consumer(self._bootstrap, self._topic, partitions, self._login)
        try:
            while not self._stops.is_set():
                if self._next_login is not None and self._has_next.is_set():
                    consumer.set_sasl_credentials(*self._next_login)
                    self._has_next.clear()
                for message in consumer.consume(1000, 0.1):
                    if message.error() is None:
                        partition, offset, value = _place(message)
                        self._history.polled(self.name, partition, offset, value)
        finally:
            consumer.close()


def read_all(
    bootstrap: str, topic: str, partitions: int, login: Mapping[str, str] = NO_LOGIN
) -> dict[int, list[tuple[int, bytes]]]:
    """Everything committed, from the beginning to the end."""
    consumer = _consumer(bootstrap, topic, range(partitions), login)
    found: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(partitions)}
    try:
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), PATIENCE_S)[1]
            for number in range(partitions)
        }
        deadline_s = time.monotonic() + PATIENCE_S
        while any(
            position.offset < ends[position.partition]
            for position in consumer.position(
                [TopicPartition(topic, number) for number in range(partitions) if ends[number]]
            )
        ):
            assert time.monotonic() < deadline_s, f"cannot read {topic} to its end {ends}"
            for message in consumer.consume(10_000, 0.1):
                if message.error() is None:
                    partition, offset, value = _place(message)
                    found[partition].append((offset, value))
    finally:
        consumer.close()
    return found


def _consumer(
    bootstrap: str, topic: str, partitions: Iterable[int], login: Mapping[str, str]
) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            **login,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            **_CLIENT,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    return consumer


def _place(message: Message) -> tuple[int, int, bytes]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    return partition, offset, value


# Judging


def judge_load(
    history: History, producers: Iterable[IdempotentLoad], final: dict[int, list[tuple[int, bytes]]]
) -> list[str]:
    """Every acknowledged record once and in order, and nothing that nobody sent."""
    for partition, records in final.items():
        history.read_at_the_end(partition, records)
    found = [str(one) for one in violations(history, idempotent=True)]
    present: set[tuple[object, bytes]] = {
        (partition, value) for partition, records in final.items() for _, value in records
    }
    for producer in producers:
        found += [f"a send failed: {failure}" for failure in producer.failures[:5]]
        found += [
            f"lost in {send.partition}: {send.value!r}"
            for send in producer.unplaced
            if (send.partition, send.value) not in present
        ]
    found += _out_of_order(final)
    return found


def _out_of_order(final: dict[int, list[tuple[int, bytes]]]) -> list[str]:
    """A producer's numbers rise in every partition."""
    found = []
    for partition, records in final.items():
        last: dict[bytes, int] = {}
        for offset, value in records:
            producer, _, number = value.partition(b":")
            if int(number) <= last.get(producer, -1):
                found.append(f"out of order in {partition}: {value!r} at {offset}")
            last[producer] = int(number)
    return found


def judge_transactions(
    fates: dict[int, str], final: dict[int, list[tuple[int, bytes]]]
) -> list[str]:
    """All of a transaction or nothing, once; what was committed is there, what was aborted not."""
    seen: dict[int, list[int]] = defaultdict(list)
    for partition, records in final.items():
        for _, value in records:
            seen[int(value)].append(partition)
    found = []
    for number, fate in fates.items():
        partitions = sorted(seen.pop(number, []))
        if partitions not in _ALLOWED[fate]:
            found.append(f"transaction {number} was {fate} and is read in {partitions}")
    return found + [f"transaction {number} was never begun" for number in seen]


def longest_silence_s(producers: Iterable[IdempotentLoad], since_s: float, until_s: float) -> float:
    """The longest time in which some partition acknowledged nothing to anybody."""
    by_partition: dict[int, list[float]] = defaultdict(list)
    for producer in producers:
        for partition, times in list(producer.acknowledged_s.items()):
            by_partition[partition] += times
    longest = 0.0
    for times in by_partition.values():
        within = sorted(time_s for time_s in times if time_s <= until_s)
        before = [time_s for time_s in within if time_s < since_s][-1:]
        during = [time_s for time_s in within if time_s >= since_s]
        moments = [*before, *during, until_s]
        longest = max(
            [
                longest,
                *(later - earlier for earlier, later in pairwise(moments)),
            ]
        )
    return longest
