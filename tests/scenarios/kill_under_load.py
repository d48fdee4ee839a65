"""kill -9 a broker again and again while an idempotent producer writes to it.

    python -m tests.scenarios.kill_under_load --kills 50 [--flush-messages N] [--seed N]

What must hold after every kill and restart on the same data: each acknowledged record is where its
acknowledgement said, each record is there exactly once and in order, and the log verifies. A killed
process leaves its written pages to the kernel, so this holds at any flush setting.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess, free_ports, ready_odradek
from odradek.world import OsDisk
from tests.log_verification import verify_log

TOPIC = "load"
PARTITIONS = 3
VALUE_BYTES = 300
PATIENCE_S = 30.0
QUIET = {"log_level": 0}


@dataclass
class Tally:
    """What the run saw, for people."""

    kills: int = 0
    acknowledged: int = 0
    under_way_at_a_kill: int = 0
    restart_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        slowest = max(self.restart_s, default=0.0)
        return (
            f"{self.kills} kills, {self.acknowledged} records acknowledged and all there,"
            f" {self.under_way_at_a_kill} under way at a kill, slowest restart {slowest:.2f} s"
        )


class KillUnderLoad:
    """One broker, one producer, one reader that checks."""

    def __init__(self, directory: Path, seed: int, flush_messages: int | None = None) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        self._overrides = {"log.roll.jitter.ms": "0"}
        if flush_messages is not None:
            self._overrides["log.flush.interval.messages"] = str(flush_messages)
        self._port = free_ports(1)[0]
        self._next_value = 0
        self._under_way = 0
        # Where each acknowledged value must be; values are checked once and then forgotten.
        self._acknowledged: dict[int, tuple[int, int]] = {}
        self._failures: list[KafkaError] = []
        self._checked = [0] * PARTITIONS
        self._last_value = [-1] * PARTITIONS
        self._seen = 0
        self.tally = Tally()

    def run(self, kills: int) -> Tally:
        broker = self._start()
        try:
            self._create_topic(broker)
            producer = self._new_producer(broker)
            for _ in range(kills):
                self._load_for(producer, self._random.uniform(0.1, 0.8))
                broker.kill()
                self.tally.kills += 1
                self.tally.under_way_at_a_kill += self._under_way
                self._load_for(producer, 0.01)  # some go out while nobody is there
                started = time.monotonic()
                broker = self._start()
                self.tally.restart_s.append(time.monotonic() - started)
                assert producer.flush(PATIENCE_S) == 0, "records were never acknowledged"
                self._check(broker)
                self._verify_files()
            assert broker.stop() == 0, broker.said()
            self._verify_files()
        finally:
            broker.kill()
        return self.tally

    def _start(self) -> BrokerProcess:
        return ready_odradek(self._directory, self._overrides, port=self._port)

    def _create_topic(self, broker: BrokerProcess) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        # Small segments, so that kills also meet rolls.
        topic = NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": "1048576"})
        admin.create_topics([topic])[TOPIC].result(PATIENCE_S)

    def _new_producer(self, broker: BrokerProcess) -> Producer:
        return Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                **QUIET,
            }
        )

    def _load_for(self, producer: Producer, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for _ in range(100):
                value = self._next_value
                payload = b"%d" % value
                producer.produce(
                    TOPIC,
                    payload.ljust(VALUE_BYTES, b"."),
                    partition=value % PARTITIONS,
                    on_delivery=self._delivered,
                )
                self._next_value += 1
                self._under_way += 1
            producer.poll(0)
            while self._under_way > 5_000 and time.monotonic() < deadline:
                producer.poll(0.01)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._under_way -= 1
        if error is not None:
            self._failures.append(error)
            return
        self._acknowledged[_value(message)] = (message.partition(), message.offset())
        self.tally.acknowledged += 1

    def _check(self, broker: BrokerProcess) -> None:
        """Read what is new since the last check: everything acknowledged, once and in order."""
        assert not self._failures, self._failures[0]
        with reader(broker) as consumer:
            partitions = [TopicPartition(TOPIC, n, self._checked[n]) for n in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions]
            consumer.assign(partitions)
            deadline = time.monotonic() + PATIENCE_S
            while self._checked != ends:
                assert time.monotonic() < deadline, f"read to {self._checked}, end is {ends}"
                for message in consumer.consume(10_000, 0.1):
                    self._check_message(message)
        missing = dict(list(self._acknowledged.items())[:3])
        assert not missing, f"acknowledged records are not in the log: {missing}"
        assert self._seen == self._next_value, "the log has not every record exactly once"

    def _check_message(self, message: Message) -> None:
        assert message.error() is None, message.error()
        partition, offset, value = message.partition(), message.offset(), _value(message)
        assert offset == self._checked[partition], "an offset is missing"
        assert value > self._last_value[partition], "a record is there twice, or out of order"
        self._checked[partition] = offset + 1
        self._last_value[partition] = value
        self._seen += 1
        place = self._acknowledged.pop(value, None)
        assert place in (None, (partition, offset)), f"{value} was acknowledged at {place}"

    def _verify_files(self) -> None:
        for partition in range(PARTITIONS):
            directory = self._directory / "data" / f"{TOPIC}-{partition}"
            report = verify_log(OsDisk(), str(directory), deep=True)
            assert report.is_sound, report.problems
            assert report.next_offset == self._checked[partition]


def _value(message: Message) -> int:
    payload = message.value()
    assert payload is not None
    return int(payload.rstrip(b"."))


@contextmanager
def reader(broker: BrokerProcess) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "check", **QUIET}
    consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 20})
    try:
        yield consumer
    finally:
        consumer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--flush-messages", type=int, help="log.flush.interval.messages")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-kill-") as directory:
        run = KillUnderLoad(Path(directory), options.seed, options.flush_messages)
        print(run.run(options.kills))
    return 0


if __name__ == "__main__":
    sys.exit(main())
