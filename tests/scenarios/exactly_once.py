"""Consume, transform, produce in transactions, while workers and the broker are killed.

    python -m tests.scenarios.exactly_once --records 100000 [--runs 20] [--seed N]

Workers share one consumer group. Each reads some records, writes one for each of them and commits
its position in the same transaction. Now and then a worker or the broker dies by kill -9 and is
started again. At the end a read-committed consumer must see every record's output once: nothing
lost, nothing twice, nothing aborted.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess, free_ports, ready_odradek

SOURCE, TARGET, GROUP = "source", "target", "workers"
PARTITIONS = 4
WORKERS = 3
PATIENCE_S = 60.0
QUIET = {"log_level": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100}


@dataclass
class Tally:
    """What the run saw, for people."""

    records: int = 0
    aborted: int = 0
    broker_kills: int = 0
    worker_kills: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.records} records once each, {self.aborted} more aborted,"
            f" {self.broker_kills} kills of the broker, {self.worker_kills} of workers,"
            f" {self.seconds:.0f} s"
        )


# A worker: a process of its own


def work(bootstrap: str, slot: str) -> None:
    """Until killed, or until librdkafka says that this instance cannot go on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            # Whoever follows a killed worker takes its place at once.
            "group.instance.id": slot,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"worker-{slot}",
            "transaction.timeout.ms": 10_000,
            "linger.ms": 1,
            **QUIET,
        }
    )
    producer.init_transactions(PATIENCE_S)
    consumer.subscribe([SOURCE])
    while True:
        messages = consumer.consume(20, 0.2)
        messages = [message for message in messages if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(
                    TARGET, b"seen " + (message.value() or b""), partition=message.partition()
                )
            positions: dict[int, int] = {}
            for message in messages:
                positions[message.partition() or 0] = (message.offset() or 0) + 1
            producer.send_offsets_to_transaction(
                [TopicPartition(SOURCE, *position) for position in positions.items()],
                consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
            _commit(producer)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
            _rewind(consumer)


def _commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(PATIENCE_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _rewind(consumer: Consumer) -> None:
    """Back to what is committed: the records were read, and nothing came of it."""
    while True:
        try:
            for position in consumer.committed(consumer.assignment(), PATIENCE_S):
                offset = position.offset if position.offset >= 0 else 0
                consumer.seek(TopicPartition(SOURCE, position.partition, offset))
            return
        except KafkaException as error:
            if error.args[0].code() == KafkaError._STATE:
                return  # The partition was taken away; whoever has it starts where it should.
            if not error.args[0].retriable():
                raise


# The run


class ExactlyOnce:
    def __init__(self, directory: Path, seed: int, records: int) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        self._records = records
        self._port = free_ports(1)[0]
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self.tally = Tally()

    def run(self) -> Tally:
        began = time.monotonic()
        broker = self._start_broker()
        try:
            self._prepare(broker.bootstrap)
            while not self._is_done(broker.bootstrap):
                self._keep_workers(broker.bootstrap)
                time.sleep(self._random.uniform(0.3, 1.5))
                if self._random.random() < 0.35:
                    broker.kill()
                    self.tally.broker_kills += 1
                    broker = self._start_broker()
                else:
                    self._kill_worker()
                assert time.monotonic() - began < 600, "it never ends"
            self._end_workers()
            self._check(broker.bootstrap)
        finally:
            self._end_workers()
            broker.kill()
        self.tally.seconds = time.monotonic() - began
        return self.tally

    def _start_broker(self) -> BrokerProcess:
        overrides = {"group.initial.rebalance.delay.ms": "100"}
        return ready_odradek(self._directory, overrides, port=self._port)

    def _prepare(self, bootstrap: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        topics = [NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]
        for created in admin.create_topics(topics).values():
            created.result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **QUIET})
        for number in range(self._records):
            producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def _keep_workers(self, bootstrap: str) -> None:
        for number in range(WORKERS):
            slot = str(number)
            worker = self._workers.get(slot)
            if worker is None or worker.poll() is not None:
                command = [sys.executable, "-m", __spec__.name, "--worker", slot, bootstrap]
                self._workers[slot] = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def _kill_worker(self) -> None:
        worker = self._random.choice(list(self._workers.values()))
        if worker.poll() is None:
            worker.kill()
            worker.wait()
            self.tally.worker_kills += 1

    def _end_workers(self) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.wait()
        self._workers.clear()

    def _is_done(self, bootstrap: str) -> bool:
        """Every position is committed. Read-committed would wait for those of the killed."""
        settings = {"group.id": GROUP, "isolation.level": "read_uncommitted", **QUIET}
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        try:
            positions = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
            found = consumer.committed(positions, PATIENCE_S)
        except KafkaException:
            return False
        finally:
            consumer.close()
        done: int = sum(max(position.offset, 0) for position in found)
        return done == self._records

    def _check(self, bootstrap: str) -> None:
        committed = self._read(bootstrap, "read_committed")
        expected = {b"seen %d" % number for number in range(self._records)}
        lost = expected - committed.keys()
        repeated = [value for value, count in committed.items() if count > 1]
        assert not lost, f"{len(lost)} lost, such as {min(lost)!r}"
        assert not repeated, f"{len(repeated)} repeated, such as {repeated[0]!r}"
        assert committed.keys() == expected
        self.tally.records = self._records
        everything = self._read(bootstrap, "read_uncommitted")
        self.tally.aborted = everything.total() - self._records

    def _read(self, bootstrap: str, isolation: str) -> "Counter[bytes]":
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                **QUIET,
            }
        )
        consumer.assign([TopicPartition(TARGET, number, 0) for number in range(PARTITIONS)])
        values: Counter[bytes] = Counter()
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"reading ends nowhere: {values.total()} records"
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    values[message.value() or b""] += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
                else:
                    raise KafkaException(error)
        consumer.close()
        return values


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", nargs=2, metavar=("SLOT", "BOOTSTRAP"))
    options = parser.parse_args(arguments)
    if options.worker:
        slot, bootstrap = options.worker
        work(bootstrap, slot)
    for number in range(options.runs):
        seed = options.seed + number
        with tempfile.TemporaryDirectory() as directory:
            tally = ExactlyOnce(Path(directory), seed, options.records).run()
        print(f"seed {seed}: {tally}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
