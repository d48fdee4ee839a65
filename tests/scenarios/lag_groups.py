"""Fifty consumer groups that behave as a script says, for `tests.scenarios.lag_comparison`.

A group has members of the classic protocol or of the new one, static members, or no members at all,
as a program that only commits. Once in a tick each group commits what its behaviour says. The
client is librdkafka, so that Odradek's own client cannot hide a mistake of the brokers.
"""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.scenarios.chaos_load import Worker

TICK_S: Final = 1.0
JUDGED_FROM: Final = 24
"""From this tick on every group shows what it is."""
DOOMED_UNTIL: Final = 12
_QUIET: Final = {"log_level": 0}
_PATIENCE_S: Final = 30.0
_PARTITIONS: Final = 2
_STEADY: Final = 6000
_GROWTH: Final = 40
_TRIMMED: Final = 500

TOPICS: Final = ("steady", "growing", "compacted", "doomed", "trimmed", "bare", "marked")
CLASSIC, NEW, STATIC, NONE = "classic", "consumer", "static", "none"
MEMBERSHIPS: Final = (CLASSIC, NEW, STATIC, NONE)


@dataclass(frozen=True)
class Script:
    """What a group does, and the status that it deserves by Burrow's rules."""

    behaviour: str
    membership: str
    topics: tuple[str, ...]
    status: str

    @property
    def name(self) -> str:
        return f"{self.behaviour}-{self.membership}"

    def has_left_at(self, tick: int) -> bool:
        return self.behaviour == "stopped" and tick >= 6

    def offset(self, tick: int, end: int) -> int | None:
        """Returns what is committed in this tick, or None if nothing is."""
        at = {
            "nothing": None,
            "transaction": None,
            "stopped": 10 * tick if tick < 6 else None,
            "idle": 10 * tick if tick < 6 else None,
            "once": 100 if tick == 0 else None,
            "doomed": 20 if tick < DOOMED_UNTIL else None,
            "half-doomed": 20 if tick < DOOMED_UNTIL else None,
            "end": end,
            "open-transaction": end,
            "bare": end,
            "beyond": end + 50,
            # Less often than ends are asked for, or two commits are compared with the same end.
            "slow": 10 * tick if not tick % 3 else None,
            "catching-up": 30 * tick,
            "recovered": 30 * tick - (100 if tick == JUDGED_FROM - 4 else 0),
            # Down in steps, and a little up between: never back where it was.
            "rewound": _STEADY - 1000 - 50 * (tick // 6) + 5 * (tick % 6),
        }
        return at.get(self.behaviour, 10)


def scripts() -> list[Script]:
    """Returns the fifty groups."""
    everyone = {
        "end": ("growing", "OK"),
        "slow": ("growing", "WARN"),
        "catching-up": ("steady", "OK"),
        "stalled": ("steady", "STALL"),
        "stopped": ("steady", "STOP"),
        "rewound": ("steady", "REWIND"),
    }
    some = {
        "recovered": ((CLASSIC, NEW), ("steady",), "OK"),
        "idle": ((CLASSIC, NEW, STATIC), ("steady",), "STOP"),
        "nothing": ((CLASSIC, NEW, STATIC), ("steady",), "NOTFOUND"),
        "beyond": ((CLASSIC, NONE), ("steady",), "OK"),
        "doomed": ((CLASSIC, NONE), ("doomed",), "NOTFOUND"),
        "half-doomed": ((CLASSIC, NONE), ("doomed", "steady"), "STOP"),
        "compacted": ((CLASSIC, NEW, NONE), ("compacted",), "STALL"),
        "trimmed": ((CLASSIC, NONE), ("trimmed",), "STALL"),
        "partial": ((CLASSIC, NONE), ("steady",), "STALL"),
        "bare": ((CLASSIC, NONE), ("bare",), "OK"),
        "once": ((NONE,), ("steady",), "STOP"),
        "transaction": ((NONE,), ("steady",), "STALL"),
        "open-transaction": ((NONE,), ("marked",), "OK"),
    }
    found = [
        Script(behaviour, membership, (topic,), status)
        for (behaviour, (topic, status)), membership in itertools.product(
            everyone.items(), MEMBERSHIPS
        )
    ]
    for behaviour, (memberships, topics, status) in some.items():
        found += [Script(behaviour, membership, topics, status) for membership in memberships]
    return found


class Groups(Worker):
    """Runs all groups in one thread, and the producers of their topics. `freeze` ends commits and
    records, so that lags can be compared; members stay."""

    def __init__(self, bootstrap: str, tick_s: float = TICK_S) -> None:
        super().__init__("groups")
        self._tick_s = tick_s
        self._bootstrap = bootstrap
        self.scripts = scripts()
        self.tick = 0
        self._is_frozen = False
        self.is_still = False
        self._consumers: dict[str, Consumer] = {}
        self._ends = dict.fromkeys(TOPICS, 0)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **_QUIET})
        self._transactions: list[Producer] = []

    def freeze(self) -> None:
        self._is_frozen = True

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **_QUIET})
        topics = [
            NewTopic(
                name,
                _PARTITIONS,
                3,
                config={"cleanup.policy": "compact"} if name == "compacted" else {},
            )
            for name in TOPICS
        ]
        for created in admin.create_topics(topics).values():
            created.result(_PATIENCE_S)
        for name, count in {"steady": _STEADY, "compacted": 300, "doomed": 100}.items():
            self._write(name, count)
        self._write("trimmed", 2 * _TRIMMED)
        trimmed = [TopicPartition("trimmed", index, _TRIMMED) for index in range(_PARTITIONS)]
        for deleted in admin.delete_records(trimmed).values():
            deleted.result(_PATIENCE_S)
        self._write_in_transactions()

    def _write(self, topic: str, count: int) -> None:
        """Appends so many records to each partition."""
        for number, partition in itertools.product(range(count), range(_PARTITIONS)):
            key = b"%d" % (number % 10)
            self._producer.produce(topic, b"a book", key, partition=partition)
            if not number % 500:
                self._producer.poll(0)
        assert self._producer.flush(_PATIENCE_S) == 0
        self._ends[topic] += count

    def _transactional(self, name: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": name,
                # A transaction stays open until the end of the run.
                "transaction.timeout.ms": 900_000,
                **_QUIET,
            }
        )
        producer.init_transactions(_PATIENCE_S)
        self._transactions.append(producer)
        return producer

    def _write_in_transactions(self) -> None:
        """Leaves a marker and an open transaction in the topic `marked`."""
        producer = self._transactional("marks")
        for ends in (True, False):
            producer.begin_transaction()
            for number, partition in itertools.product(range(10), range(_PARTITIONS)):
                producer.produce("marked", b"%d" % number, partition=partition)
            assert producer.flush(_PATIENCE_S) == 0
            if ends:
                producer.commit_transaction(_PATIENCE_S)
        # Ten records, a marker, ten records.
        self._ends["marked"] = 21

    # Running

    def work(self) -> None:
        offsets = self._transactional("offsets")
        for script in self.scripts:
            self._consumers[script.name] = self._consumer(script)
        while not self._stops.is_set():
            began_s = time.monotonic()
            if self._is_frozen:
                self.is_still = True
            else:
                self._one_tick(offsets)
                self.tick += 1
            while not self._stops.is_set() and time.monotonic() - began_s < self._tick_s:
                for script in self._members():
                    self._consumers[script.name].consume(1000, 0)
                time.sleep(0.05)
        for consumer in self._consumers.values():
            consumer.close()

    def _members(self) -> Iterator[Script]:
        for script in self.scripts:
            if script.membership != NONE and script.name in self._consumers:
                yield script

    def _consumer(self, script: Script) -> Consumer:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self._bootstrap,
            "group.id": script.name,
            "client.id": script.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            **_QUIET,
        }
        if script.membership == NEW:
            settings["group.protocol"] = "consumer"
        if script.membership == STATIC:
            settings["group.instance.id"] = "one"
        consumer = Consumer(settings)
        if script.membership != NONE:
            consumer.subscribe(list(script.topics))
        return consumer

    def _one_tick(self, offsets: Producer) -> None:
        self._write("growing", _GROWTH)
        if self.tick == DOOMED_UNTIL:
            admin = AdminClient({"bootstrap.servers": self._bootstrap, **_QUIET})
            admin.delete_topics(["doomed"])["doomed"].result(_PATIENCE_S)
        for script in self.scripts:
            if script.behaviour == "transaction":
                self._commit_in_transaction(offsets, script)
            elif script.has_left_at(self.tick):
                if (consumer := self._consumers.pop(script.name, None)) is not None:
                    consumer.close()
            else:
                self._commit(script)

    def _commit(self, script: Script) -> None:
        partitions = 1 if script.behaviour == "partial" else _PARTITIONS
        wanted = [
            TopicPartition(topic, index, offset)
            for topic in script.topics
            if (offset := script.offset(self.tick, self._ends[topic])) is not None
            for index in range(partitions)
        ]
        consumer = self._consumers[script.name]
        if not wanted or (script.membership != NONE and not consumer.assignment()):
            return  # A member that has not joined yet would be fenced if it is a static one.
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            # Its group rebalances: it commits in the next tick.
            if self.tick > DOOMED_UNTIL:
                raise

    def _commit_in_transaction(self, producer: Producer, script: Script) -> None:
        consumer = self._consumers[script.name]
        producer.begin_transaction()
        positions = [TopicPartition("steady", index, 10) for index in range(_PARTITIONS)]
        producer.send_offsets_to_transaction(
            positions, consumer.consumer_group_metadata(), _PATIENCE_S
        )
        producer.commit_transaction(_PATIENCE_S)
