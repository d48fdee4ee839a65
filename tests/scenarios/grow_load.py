"""The clients of a cluster that changes: a producer, transactions and a consumer group; and what
became of their records.

`grow.py` and `balance.py` start them. They note what was acknowledged and read, and the longest
pauses of both.
"""

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.scenarios.chaos_load import Worker

TOPIC: Final = "load"
PAIRS: Final = "pairs"
PARTITIONS: Final = 6
VALUE_BYTES: Final = 100
PATIENCE_S: Final = 120.0
BEAT_S: Final = 0.01
CLIENT: Final = {"log_level": 0}
# Records a second of the live producer.
_RATE: Final = 2000


class LiveProducer(Worker):
    """Idempotent, acks=all. Values of a partition rise, so that order can be checked."""

    def __init__(self, bootstrap: str, first: int) -> None:
        super().__init__("producer")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": round(PATIENCE_S * 1000),
                **CLIENT,
            }
        )
        self.next_value = first
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[KafkaError] = []
        self.longest_pause_s = 0.0
        self._last_s: float | None = None

    def fill(self, records: int) -> None:
        """Sends many records at once, before the run."""
        for _ in range(records):
            self._send()
        self._flush()
        self._last_s = None
        self.longest_pause_s = 0.0

    def work(self) -> None:
        while not self._stops.is_set():
            for _ in range(round(_RATE * BEAT_S)):
                self._send()
            self._producer.poll(BEAT_S)
        self._flush()

    def _send(self) -> None:
        value = self.next_value
        self.next_value += 1
        while True:
            try:
                self._producer.produce(
                    TOPIC,
                    (b"%d" % value).ljust(VALUE_BYTES, b"."),
                    partition=value % PARTITIONS,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(BEAT_S)
            else:
                return

    def _flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0, "records were never acknowledged"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        now_s = time.monotonic()
        if self._last_s is not None:
            self.longest_pause_s = max(self.longest_pause_s, now_s - self._last_s)
        self._last_s = now_s
        self.acknowledged[value_of(message)] = (message.partition() or 0, message.offset() or 0)


class LiveGroup(Worker):
    """A consumer group of one member, which commits what it has read."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("group")
        self._bootstrap = bootstrap
        self.read: Counter[tuple[int, int]] = Counter()
        self.longest_silence_s = 0.0
        self._last_s: float | None = None
        self.is_measuring = False

    def work(self) -> None:
        with a_consumer(self._bootstrap, "readers", auto_commit=True) as consumer:
            consumer.subscribe([TOPIC])
            while not self._stops.is_set():
                self._take(consumer.consume(10_000, 0.05))
            # Closing it commits what it has read.

    def _take(self, messages: list[Message]) -> None:
        good = [message for message in messages if message.error() is None]
        for message in good:
            self.read[message.partition() or 0, message.offset() or 0] += 1
        if not good:
            return
        now_s = time.monotonic()
        if self.is_measuring and self._last_s is not None:
            self.longest_silence_s = max(self.longest_silence_s, now_s - self._last_s)
        self._last_s = now_s


class LiveTransactions(Worker):
    """Writes the same number into two partitions of `pairs`, and commits."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("transactions")
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "pairs", **CLIENT}
        )
        self.committed = 0
        self.aborted = 0

    def begin(self) -> None:
        self._producer.init_transactions(PATIENCE_S)
        self._commit_one()

    def work(self) -> None:
        while not self._stops.is_set():
            self._commit_one()
            time.sleep(BEAT_S)

    def _commit_one(self) -> None:
        self._producer.begin_transaction()
        for partition in (0, 1):
            self._producer.produce(PAIRS, b"%d" % self.committed, partition=partition)
        try:
            self._producer.commit_transaction(PATIENCE_S)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(PATIENCE_S)
            self.aborted += 1
        else:
            self.committed += 1


def value_of(message: Message) -> int:
    payload = message.value()
    assert payload is not None
    return int(payload.rstrip(b"."))


@contextmanager
def a_consumer(bootstrap: str, group: str, *, auto_commit: bool) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": auto_commit,
            "auto.commit.interval.ms": 200,
            "isolation.level": "read_committed",
            "enable.partition.eof": not auto_commit,
            **CLIENT,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def wait_until(is_so: Callable[[], bool], problem: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, problem
        time.sleep(BEAT_S)


def end_of_run(outcome: "Soundness", directory: Path, *, as_json: bool) -> int:
    """Prints what a run saw. Keeps its data if that is not as it must be. Returns the exit code."""
    print(json.dumps(outcome.__dict__) if as_json else outcome)
    if outcome.is_sound:
        shutil.rmtree(directory)
        return 0
    print(f"the data is kept in {directory}", file=sys.stderr)
    return 1


class Soundness(Protocol):
    """What a run saw, and whether all of it is as it must be."""

    @property
    def is_sound(self) -> bool: ...


# What became of the records

Log = list[list[tuple[int, int]]]
"""Value and offset of the records of each partition."""


def read_log(bootstrap: str, topic: str, partitions: int) -> Log:
    """Reads a topic to its end."""
    found: Log = [[] for _ in range(partitions)]
    ends: set[int] = set()
    with a_consumer(bootstrap, "judge", auto_commit=False) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        last_s = time.monotonic() + PATIENCE_S
        while len(ends) < partitions:
            assert time.monotonic() < last_s, f"{topic} cannot be read"
            for message in consumer.consume(10_000, 0.1):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    found[partition].append((value_of(message), message.offset() or 0))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.add(partition)
    return found


class Verdict(NamedTuple):
    lost: int
    """Acknowledged records that are not where their acknowledgement said."""
    doubled: int
    problems: list[str]


def verdict_on(log: Log, producer: LiveProducer) -> Verdict:
    """Says whether the log of the topic has each acknowledged record exactly once and in order."""
    problems = [f"a send failed: {error}" for error in producer.failures[:3]]
    places: dict[int, tuple[int, int]] = {}
    for partition, records in enumerate(log):
        values = [value for value, _ in records]
        if values != sorted(values):
            problems.append(f"{TOPIC}-{partition} is out of order")
        places |= {value: (partition, offset) for value, offset in records}
    lost = sum(places.get(value) != place for value, place in producer.acknowledged.items())
    return Verdict(lost, sum(map(len, log)) - len(places), problems)
