"""kill -9 a broker again and again in the middle of compaction.

    python -m tests.scenarios.kill_while_cleaning --kills 30 [--seed N] [--encrypted]

A producer writes few keys over and over into small segments, and the cleaner, slowed down, is
nearly always at work. The broker is killed while files of an unfinished pass lie on the disk; now
and then it is the worker process alone, which the broker has to notice. What must hold after
every kill: the worker is gone too, the log verifies, no file of the pass is left, offsets only
rise, and a reader from the start ends with the newest value of every key.

With `--encrypted` the topic is encrypted. Its records are not compressed and have random markers in
key, value and header, and none of them may be in any file of the broker, while it compacts and
after each kill.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess, free_ports, ready_odradek
from odradek.cli.dump_log.encrypted_segments import disk_with_keys
from odradek.security.keys.key_file import KeyFile
from odradek.world import Disk, OsDisk, World
from tests.log_verification import verify_log
from tests.scenarios.kill_under_load import PATIENCE_S, QUIET, reader

TOPIC = "states"
PARTITIONS = 2
KEYS = 500
VALUE_BYTES = 200
UNFINISHED = (".cleaned", ".swap")
CLEANING = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.io.max.bytes.per.second": "10000000",
    "log.cleaner.io.buffer.size": "65536",
    "log.cleaner.dedupe.buffer.size": "1000000",
    "log.segment.delete.delay.ms": "0",
    "log.initial.task.delay.ms": "0",
}
RESTING = {"log.cleaner.enable": "false"}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "262144",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "500",
}


@dataclass
class Tally:
    """What the run saw, for people."""

    kills: int = 0
    workers_killed: int = 0
    written: int = 0
    # What lay about when the broker died.
    unfinished: Counter[str] = field(default_factory=Counter)
    min_records: int = sys.maxsize
    # Of an encrypted topic: how much was searched for markers.
    searched_bytes: int = 0

    def __str__(self) -> str:
        found = ", ".join(f"{count} {suffix}" for suffix, count in sorted(self.unfinished.items()))
        return (
            f"{self.kills} kills in the middle of compaction (unfinished files: {found}), "
            f"{self.workers_killed} of the worker alone; {self.written} records written, "
            f"{self.min_records} left at the smallest; nothing newest lost, no file left over"
        )


class KillWhileCleaning:
    """One broker, one producer, one reader that checks."""

    def __init__(self, directory: Path, seed: int, *, is_encrypted: bool = False) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        self._is_encrypted = is_encrypted
        self._key_file = str(directory / "keys" / "topics.json")
        self._markers = [self._random.randbytes(16) for _ in range(3)]
        if is_encrypted:
            directory.joinpath("keys").mkdir(parents=True)
            KeyFile(self._key_file, World()).create(TOPIC)
        self._port = free_ports(1)[0]
        self._newest: dict[tuple[int, bytes], bytes | None] = {}
        self._number = 0
        self.tally = Tally()

    def run(self, kills: int) -> Tally:
        broker = self._start(CLEANING)
        try:
            self._create_topic(broker)
            producer = self._new_producer(broker)
            while self.tally.kills < kills:
                if self.tally.kills % 5 == 4:
                    self._kill_worker(producer)
                self._load_until_cleaning(producer)
                time.sleep(self._random.uniform(0, 0.05))
                worker = self._worker(broker)
                self._search_markers()
                broker.kill()
                self._search_markers()
                self.tally.kills += 1
                for path in self._unfinished():
                    self.tally.unfinished[path.suffix] += 1
                if worker is not None:
                    psutil.wait_procs([worker], timeout=PATIENCE_S)
                    assert not worker.is_running(), "the worker outlives its broker"
                broker = self._start(RESTING)
                assert producer.flush(PATIENCE_S) == 0, "records were never acknowledged"
                assert self._unfinished() == [], "files of an unfinished pass are left"
                self._check(broker)
                assert broker.stop() == 0, broker.said()
                self._verify_files()
                broker = self._start(CLEANING)
            self._load_until_cleaning(producer)
            assert producer.flush(PATIENCE_S) == 0
            assert broker.stop() == 0, broker.said()
            assert self._unfinished() == [], "a clean stop leaves files of an unfinished pass"
            self._verify_files()
        finally:
            broker.kill()
        return self.tally

    def _start(self, overrides: dict[str, str]) -> BrokerProcess:
        if self._is_encrypted:
            provider = {"odradek.key.provider": "file", "odradek.key.file": self._key_file}
            overrides = overrides | provider
        broker = ready_odradek(self._directory, overrides, port=self._port)
        self._broker = broker
        return broker

    def _create_topic(self, broker: BrokerProcess) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        key = {"odradek.encryption.key": TOPIC} if self._is_encrypted else {}
        topic = NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_CONFIG | key)
        admin.create_topics([topic])[TOPIC].result(PATIENCE_S)

    def _new_producer(self, broker: BrokerProcess) -> Producer:
        return Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "compression.type": "none"
                if self._is_encrypted
                else self._random.choice(["none", "lz4", "zstd"]),
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                **QUIET,
            }
        )

    # Load, and the moment to kill

    def _write_some(self, producer: Producer) -> None:
        for _ in range(200):
            key = b"key %d" % self._random.randrange(KEYS)
            partition = self._random.randrange(PARTITIONS)
            value = None
            if self._random.random() > 0.05:
                noise = self._random.randbytes(VALUE_BYTES // 2)
                value = b"%d " % self._number + noise.ljust(VALUE_BYTES, b".")
            headers: list[tuple[str, bytes]] = []
            if self._is_encrypted:
                in_key, in_value, in_header = self._markers
                key, headers = in_key + key, [("marker", in_header)]
                value = None if value is None else value + in_value
            producer.produce(TOPIC, value, key, partition, headers=headers)
            self._newest[partition, key] = value
            self._number += 1
            self.tally.written += 1
        producer.poll(0)

    def _load_until_cleaning(self, producer: Producer) -> None:
        """Writes until there are files of a pass under way."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._unfinished():
            assert time.monotonic() < deadline, f"nothing is compacted: {self._broker.said()}"
            for _ in range(15):
                self._write_some(producer)
            assert producer.flush(PATIENCE_S) == 0, "records were never acknowledged"
            until = time.monotonic() + 1.0
            while not self._unfinished() and time.monotonic() < until:
                time.sleep(0.002)

    def _kill_worker(self, producer: Producer) -> None:
        """The worker dies alone; the broker starts another and goes on."""
        self._load_until_cleaning(producer)
        worker = self._worker(self._broker)
        if worker is None:
            return
        worker.kill()
        self.tally.workers_killed += 1
        deadline = time.monotonic() + PATIENCE_S
        while (other := self._worker(self._broker)) is None or other.pid == worker.pid:
            assert time.monotonic() < deadline, f"no other worker comes: {self._broker.said()}"
            # It may have been through when it died: then there must be more to do.
            self._write_some(producer)
            time.sleep(0.02)

    def _worker(self, broker: BrokerProcess) -> psutil.Process | None:
        for child in psutil.Process(broker.process.pid).children():
            try:
                if "odradek.world.worker_process" in child.cmdline():
                    return child
            except psutil.Error:
                continue
        return None

    # What must hold

    def _search_markers(self) -> None:
        """None of the markers is in a file of the broker; the keys are elsewhere."""
        if not self._is_encrypted:
            return
        data = self._directory / "data"
        for path in data.rglob("*"):
            try:
                content = path.read_bytes() if path.is_file() else b""
            except FileNotFoundError:
                continue  # It was replaced or deleted meanwhile.
            assert not any(marker in content for marker in self._markers), f"plain text in {path}"
            self.tally.searched_bytes += len(content)

    def _disk(self) -> Disk:
        if not self._is_encrypted:
            return OsDisk()
        logs = [str(path) for each in self._directories() for path in each.glob("*.log")]
        return disk_with_keys(OsDisk(), logs, self._key_file, None)

    def _directories(self) -> list[Path]:
        return [self._directory / "data" / f"{TOPIC}-{number}" for number in range(PARTITIONS)]

    def _unfinished(self) -> list[Path]:
        return [
            path
            for directory in self._directories()
            for path in directory.glob("*")
            if path.suffix in UNFINISHED
        ]

    def _check(self, broker: BrokerProcess) -> None:
        found: dict[tuple[int, bytes], bytes | None] = {}
        records = 0
        with reader(broker) as consumer:
            partitions = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions]
            consumer.assign(partitions)
            positions = [0] * PARTITIONS
            deadline = time.monotonic() + PATIENCE_S
            while positions != ends:
                assert time.monotonic() < deadline, f"read to {positions}, end is {ends}"
                for message in consumer.consume(10_000, 0.1):
                    assert message.error() is None, message.error()
                    partition, offset, key = message.partition(), message.offset(), message.key()
                    assert key is not None
                    assert offset >= positions[partition], "offsets go back"
                    positions[partition] = offset + 1
                    found[partition, key] = message.value()
                    records += 1
                reached = consumer.position(partitions)
                positions = [
                    max(one, two.offset) for one, two in zip(positions, reached, strict=True)
                ]
        self.tally.min_records = min(self.tally.min_records, records)
        newest = {where: value for where, value in self._newest.items() if value is not None}
        kept = {where: value for where, value in found.items() if value is not None}
        wrong = [where for where in newest | kept if newest.get(where) != kept.get(where)]
        assert not wrong, f"{len(wrong)} keys have not their newest value, one of them {wrong[0]}"

    def _verify_files(self) -> None:
        for directory in self._directories():
            report = verify_log(self._disk(), str(directory), deep=True)
            assert report.is_sound, report.problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--encrypted", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-cleaning-") as directory:
        story = KillWhileCleaning(Path(directory), options.seed, is_encrypted=options.encrypted)
        print(story.run(options.kills))
    return 0


if __name__ == "__main__":
    sys.exit(main())
