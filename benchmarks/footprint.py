"""What each partition, connection and segment costs a broker: the constants of `odradek sizing`.

    python -m benchmarks.footprint [--partitions N] [--connections N] [--segments N] [--json]

One broker (`odradek up`) gets, one after the other, empty partitions, a record in each of them,
idle connections that have asked for metadata, full segments, and readers of these. Then three
brokers get partitions of three replicas each. After each step resident memory and descriptors
are read from /proc and the difference is divided by the number of things. Disk is what `st_size`
says of the files of a partition beside its records.
"""

import argparse
import json
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import (
    BrokerProcess,
    free_ports,
    odradek_broker,
    odradek_program,
    wait_until_ready,
)

SETTLING_S: Final = 1.5
SEGMENT_BYTES: Final = 1 << 20
BROKERS: Final = 3

Figures = dict[str, float]


class Process:
    """A broker's process, and its memory and descriptors at the last look."""

    def __init__(self, process_id: int) -> None:
        self._process = psutil.Process(process_id)
        self.memory_bytes = self.descriptors = 0
        self.look()

    def look(self) -> tuple[int, int]:
        """Returns the bytes and descriptors added since the last call."""
        before = (self.memory_bytes, self.descriptors)
        self.memory_bytes = self._process.memory_info().rss
        self.descriptors = self._process.num_fds()
        return self.memory_bytes - before[0], self.descriptors - before[1]


def one_broker(directory: Path, options: argparse.Namespace) -> Figures:
    figures: Figures = {}
    with odradek_broker(directory / "one") as broker:
        process = Process(broker.process_id)
        figures["broker, idle: bytes"] = process.memory_bytes
        figures["broker, idle: descriptors"] = process.descriptors

        def note(what: str, count: int) -> None:
            time.sleep(SETTLING_S)
            memory, descriptors = process.look()
            figures[f"{what}: bytes"] = memory / count
            figures[f"{what}: descriptors"] = descriptors / count

        create(broker.bootstrap, "warm-up", 1)
        fill(broker.bootstrap, "warm-up", 1)
        time.sleep(SETTLING_S)
        process.look()
        create(broker.bootstrap, "many", options.partitions)
        note("partition, empty", options.partitions)
        fill(broker.bootstrap, "many", options.partitions)
        note("partition, first record", options.partitions)
        with connections(broker.port, options.connections):
            note("connection", options.connections)
        time.sleep(SETTLING_S)
        process.look()
        settings = {"segment.bytes": str(SEGMENT_BYTES)}
        create(broker.bootstrap, "segments", 1, settings=settings)
        # The load itself takes memory once.
        produce_segments(broker.bootstrap, options.segments)
        time.sleep(SETTLING_S)
        process.look()
        produce_segments(broker.bootstrap, options.segments)
        note("segment, full", options.segments)
        read_all(broker.bootstrap)
        note("segment, read", options.segments)
        create(broker.bootstrap, "small-batches", 1)
        batches = fill_with_small_batches(broker.bootstrap)
        note("active segment, batch of 4 kB", batches)
        figures |= on_disk(broker.data_directory, options.partitions)
    return figures


def cluster(directory: Path, options: argparse.Namespace) -> Figures:
    """Measures replicas on three brokers, of which each leads a third."""
    data, port = directory / "three", free_ports(1)[0]
    command = [odradek_program(), "up", "--brokers", str(BROKERS), "--port", str(port)]
    command += ["--data", str(data)]
    supervisor = BrokerProcess.start(
        name="Odradek", command=command, port=port, data_directory=data, output=directory / "up.log"
    )
    try:
        for number in range(BROKERS):
            wait_until_ready(
                BrokerProcess("a broker", supervisor.process, port + number, data, directory)
            )
        pids = [int((data / f"broker-{one + 1}/broker.pid").read_text()) for one in range(BROKERS)]
        create(supervisor.bootstrap, "warm-up", BROKERS, replicas=BROKERS)
        fill(supervisor.bootstrap, "warm-up", BROKERS)
        time.sleep(SETTLING_S)
        processes = [Process(pid) for pid in pids]
        idle = sum(process.memory_bytes for process in processes) / BROKERS
        create(supervisor.bootstrap, "many", options.partitions, replicas=BROKERS)
        fill(supervisor.bootstrap, "many", options.partitions)
        time.sleep(SETTLING_S)
        grown = [process.look() for process in processes]
        replicas = BROKERS * options.partitions
        return {
            "broker of three, idle: bytes": idle,
            "replica of three, first record: bytes": sum(one[0] for one in grown) / replicas,
            "replica of three, first record: descriptors": sum(one[1] for one in grown) / replicas,
        }
    finally:
        supervisor.stop()


def create(
    bootstrap: str,
    topic: str,
    partitions: int,
    *,
    replicas: int = 1,
    settings: dict[str, str] | None = None,
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replicas, config=settings or {})
    for future in admin.create_topics([new], request_timeout=120).values():
        future.result()


def fill(bootstrap: str, topic: str, partitions: int) -> None:
    """One record into each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(partitions):
        producer.produce(topic, b"x" * 100, partition=number)
    if producer.flush(120):
        raise RuntimeError("some records were not acknowledged")


def produce_segments(bootstrap: str, segments: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "log_level": 0})
    value = b"x" * 1000
    for _ in range(segments * SEGMENT_BYTES // 1060):
        while True:
            try:
                producer.produce("segments", value)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(120):
        raise RuntimeError("some records were not acknowledged")


def fill_with_small_batches(bootstrap: str) -> int:
    """Writes batches of little more than 4096 bytes, which gives the largest possible number of
    index entries."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": 1, "log_level": 0, "batch.num.messages": 1}
    )
    count = 40_000
    for _ in range(count):
        while True:
            try:
                producer.produce("small-batches", b"x" * 4100)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(120):
        raise RuntimeError("some records were not acknowledged")
    return count


def read_all(bootstrap: str) -> None:
    """Reads from the start of every segment, found by time, so that the indexes are used too."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "footprint", "log_level": 0})
    try:
        partition = TopicPartition("segments", 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([TopicPartition("segments", 0, 0)])
        seen = 0
        while seen < end:
            seen += len(consumer.consume(10_000, timeout=5))
    finally:
        consumer.close()


@contextmanager
def connections(port: int, count: int) -> Iterator[None]:
    """Opens connections that have sent one request, like those of an idle client."""
    body = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 0)
    opened = []
    try:
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port), 10)
            opened.append(connection)
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            connection.recv(size, socket.MSG_WAITALL)
        yield
    finally:
        for connection in opened:
            connection.close()


def on_disk(data: Path, partitions: int) -> Figures:
    """Returns what a partition and a segment take on disk beside the records."""
    segments = data / "segments-0"
    records = sum(file.stat().st_size for file in segments.glob("*.log"))
    count = len(list(segments.glob("*.log")))
    beside = sum(
        file.stat().st_size for suffix in ("index", "timeindex") for file in
        segments.glob(f"*.{suffix}")
    )  # fmt: skip
    snapshots = sum(file.stat().st_size for file in segments.glob("*.snapshot"))
    little = [
        sum(file.stat().st_size for file in (data / f"many-{number}").iterdir())
        for number in range(partitions)
    ]
    return {
        "disk: index bytes for each byte of records": beside / records,
        "disk: snapshot bytes for each segment": snapshots / count,
        "disk: bytes of a partition with one record of 100 bytes": sum(little) / partitions,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = one_broker(Path(name), options) | cluster(Path(name), options)
    if options.json:
        json.dump(figures, sys.stdout, indent=2)
        return 0
    width = max(map(len, figures))
    for figure, value in figures.items():
        print(f"{figure.ljust(width)}  {value:,.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
