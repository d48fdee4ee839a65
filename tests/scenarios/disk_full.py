"""Fill the disk under load, let readers go on, make room, lose nothing.

    python -m tests.scenarios.disk_full [--rounds N] [--full-s S] [--disk-mb M]

A small tmpfs holds everything the broker writes, its metadata and application logs too, and a
ballast file. A producer writes until the disk is full. What must hold then: it gets
KAFKA_STORAGE_ERROR or a time-out and nothing else, a reader reads every acknowledged record.
Then the ballast goes: without a restart the producer writes again, offsets are committed and
topics made, and every acknowledged record is where its acknowledgement said, exactly once. It is
still there after a restart, and the log verifies.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import (
    BrokerProcess,
    ToolMissing,
    free_ports,
    ready_odradek,
)
from odradek.world import OsDisk
from tests.log_verification import verify_log

TOPIC = "load"
PARTITIONS = 2
VALUE_BYTES = 2000
PATIENCE_S = 30.0
BALLAST_SHARE = 0.5
QUIET = {"log_level": 0}
EXPECTED = frozenset(
    {KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}
)
"""What a producer may hear of a full disk."""
RETRIED = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""What a consumer that commits may hear of it."""


@dataclass
class Tally:
    """What the run saw, for people."""

    rounds: int = 0
    acknowledged: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    read_while_full: int = 0
    commits_refused: int = 0
    until_taken_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        refused = ", ".join(f"{count} {name}" for name, count in sorted(self.refused.items()))
        slowest = max(self.until_taken_s, default=0.0)
        return (
            f"{self.rounds} rounds: {self.acknowledged} records acknowledged, 0 lost; refused: "
            f"{refused or 'none'}; {self.read_while_full} read while the disk was full; records "
            f"taken again {slowest:.1f} s after room came back; "
            f"{self.commits_refused} commits refused"
        )


@contextmanager
def small_disk(path: Path, size_mb: int) -> Iterator[Path]:
    """A tmpfs of this size; raises `ToolMissing` where nothing can be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolMissing("mounting a tmpfs needs root: run this as root, on Linux") from error
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True, timeout=10)


class DiskFull:
    """One broker on a small disk, one producer, one reader that checks."""

    def __init__(self, directory: Path, disk_mb: int = 48) -> None:
        self._directory = directory
        self._disk_mb = disk_mb
        self._port = free_ports(1)[0]
        self._ballast = directory / "data" / "ballast"
        self._next_value = 0
        self._acknowledged: dict[int, tuple[int, int]] = {}
        self._errors: list[KafkaError] = []
        self.tally = Tally()

    def run(self, rounds: int, full_s: float) -> Tally:
        with small_disk(self._directory / "data", self._disk_mb):
            broker = self._start()
            try:
                self._create_topic(broker, TOPIC)
                for _ in range(rounds):
                    self._one_round(broker, full_s)
                assert broker.stop() == 0, broker.said()
                self._verify_files()
                broker = self._start()
                self._check(broker)
            finally:
                broker.kill()
        self.tally.acknowledged = len(self._acknowledged)
        return self.tally

    def _one_round(self, broker: BrokerProcess, full_s: float) -> None:
        producer = self._new_producer(broker)
        self._take_ballast()
        self._produce(producer, until_refused_s=PATIENCE_S)
        assert self._errors, "the disk never got full"
        committer = self._group_member(broker)
        # Others try again until their time is up: this one hears what the broker says.
        impatient = self._new_producer(broker, retries=0)
        deadline = time.monotonic() + full_s
        while time.monotonic() < deadline:
            self._produce(impatient, values=20)
            self.tally.read_while_full += self._check(broker)
            self._commit(committer)
        for error in self._errors:
            assert error.code() in EXPECTED, error
            self.tally.refused[error.name()] = self.tally.refused.get(error.name(), 0) + 1
        self._make_room()
        began_s = time.monotonic()
        while True:
            self._errors.clear()
            self._produce(self._new_producer(broker), values=10)
            if not self._errors:
                break
            assert time.monotonic() - began_s < PATIENCE_S, self._errors[0]
        self.tally.until_taken_s.append(time.monotonic() - began_s)
        while not self._commit(committer):
            assert time.monotonic() - began_s < PATIENCE_S, "commits are refused for ever"
        committer.close()
        self._create_topic(broker, f"after-{self.tally.rounds}")
        self._check(broker)
        self.tally.rounds += 1

    # The disk

    def _take_ballast(self) -> None:
        self._ballast.write_bytes(bytes(int(self._disk_mb * BALLAST_SHARE) << 20))

    def _make_room(self) -> None:
        self._ballast.unlink()

    # The broker

    def _start(self) -> BrokerProcess:
        return ready_odradek(self._directory, {"num.partitions": "1"}, port=self._port)

    def _create_topic(self, broker: BrokerProcess, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        topic = NewTopic(name, PARTITIONS, 1, config={"segment.bytes": "1048576"})
        admin.create_topics([topic])[name].result(PATIENCE_S)

    # Writing

    def _new_producer(self, broker: BrokerProcess, retries: int = 1000) -> Producer:
        return Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "delivery.timeout.ms": 1500,
                "request.timeout.ms": 1000,
                "retries": retries,
                "retry.backoff.ms": 50,
                **QUIET,
            }
        )

    def _produce(
        self, producer: Producer, *, values: int = 1 << 30, until_refused_s: float = PATIENCE_S
    ) -> None:
        """Sends so many records, or until one is refused, and hears of all of them."""
        refused = len(self._errors)
        deadline = time.monotonic() + until_refused_s
        is_endless = values == 1 << 30
        while values and time.monotonic() < deadline:
            try:
                producer.produce(
                    TOPIC,
                    (b"%d" % self._next_value).ljust(VALUE_BYTES, b"."),
                    partition=self._next_value % PARTITIONS,
                    on_delivery=self._delivered,
                )
            except BufferError:
                producer.poll(0.01)
                continue
            self._next_value += 1
            values -= 1
            producer.poll(0)
            if is_endless and len(self._errors) > refused:
                break
        assert producer.flush(PATIENCE_S) == 0, "records were neither taken nor refused"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
            return
        value = int((message.value() or b"").rstrip(b"."))
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._acknowledged[value] = (partition, offset)

    # Reading

    def _check(self, broker: BrokerProcess) -> int:
        """Reads everything; every acknowledged record is where it should be. How many there are.

        What was refused may be there all the same: an answer can come too late.
        """
        reader = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "checker",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        found: dict[int, tuple[int, int]] = {}
        try:
            for partition in range(PARTITIONS):
                where = TopicPartition(TOPIC, partition, 0)
                _, end = reader.get_watermark_offsets(where, timeout=PATIENCE_S)
                reader.assign([where])
                deadline = time.monotonic() + PATIENCE_S
                offset = 0
                while offset < end:
                    for message in reader.consume(1000, 0.5):
                        assert message.error() is None, message.error()
                        value = int((message.value() or b"").rstrip(b"."))
                        position = message.offset()
                        assert position is not None
                        assert value not in found, f"{value} is there twice"
                        found[value] = (partition, position)
                        offset = position + 1
                    assert time.monotonic() < deadline, f"reading stopped at {offset} of {end}"
        finally:
            reader.close()
        lost = {
            value: place for value, place in self._acknowledged.items() if found.get(value) != place
        }
        assert not lost, f"{len(lost)} acknowledged records are lost: {list(lost.items())[:5]}"
        return len(found)

    def _group_member(self, broker: BrokerProcess) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "group",
                "enable.auto.commit": False,
                "socket.timeout.ms": 2000,
                **QUIET,
            }
        )

    def _commit(self, consumer: Consumer) -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        except KafkaException as error:
            refusal: KafkaError = error.args[0]
        else:
            return True
        self.tally.commits_refused += 1
        # Codes below 0 are the client's own.
        assert refusal.code() in RETRIED or refusal.code() < 0, refusal
        return False

    def _verify_files(self) -> None:
        for partition in range(PARTITIONS):
            (log,) = (self._directory / "data").rglob(f"{TOPIC}-{partition}")
            report = verify_log(OsDisk(), str(log))
            assert report.is_sound, report.problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.disk_full")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--full-s", type=float, default=10.0, help="how long the disk stays full")
    parser.add_argument("--disk-mb", type=int, default=48)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-disk-full-") as directory:
        try:
            tally = DiskFull(Path(directory), arguments.disk_mb).run(
                arguments.rounds, arguments.full_s
            )
        except ToolMissing as missing:
            print(missing, file=sys.stderr)
            return 2
    print(tally)
    return 0


if __name__ == "__main__":
    sys.exit(main())
