"""Compaction of ten million records with a million keys: its speed, its memory, and its effect on
other requests.

    python -m benchmarks.compaction [--records 10000000] [--keys 1000000] [--without-kafka]
                                    [--without-load] [--json FILE]

Both brokers get the same topic, and a change of its settings starts compaction. It is done when the
file `cleaner-offset-checkpoint`, which both write, says so. Memory is the peak of all the broker's
processes minus what they held before. Then more records are written and compacted while one
connection sends a produce request to another topic every two milliseconds. Its round trips are
compared with those of the same load without compaction.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks import wire
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess, ToolMissing, odradek_broker
from benchmarks.figures import percentile

TOPIC, OTHER = "states", "bystander"
VALUE_BYTES = 100
SEGMENT_BYTES = 100 << 20
BACKOFF_MS = 100
OVERRIDES = {
    "log.cleaner.backoff.ms": str(BACKOFF_MS),
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "100",
}
REQUEST_EVERY_S = 0.002
IDLE_S = 10.0
PATIENCE_S = 600.0

Row = dict[str, float]


def measure(broker: BrokerProcess, records: int, keys: int, *, with_load: bool) -> Row:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        # No log reaches this dirty ratio, so compaction waits for the change of settings.
        "min.cleanable.dirty.ratio": "1.0",
    }
    topics = [NewTopic(TOPIC, 1, 1, config=config), NewTopic(OTHER, 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    write(broker, records, keys, seed=1)
    time.sleep(2)
    before = broker.usage()
    log_bytes = _log_bytes(broker)
    with highest_memory(broker) as highest:
        elapsed_s, offset = compact(broker, admin)
    usage = broker.usage()
    row = {
        "records/s": offset / elapsed_s,
        "seconds": elapsed_s,
        "CPU µs a record": (usage.cpu_s - before.cpu_s) / offset * 1e6,
        "MB read": log_bytes / 1e6,
        "MB left": _log_bytes(broker) / 1e6,
        "memory before, MB": before.resident_bytes / 1e6,
        "memory more, MB": (highest() - before.resident_bytes) / 1e6,
    }
    if with_load:
        row |= bystander(broker, admin, records // 2, keys)
    return row


def write(broker: BrokerProcess, records: int, keys: int, seed: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": 1,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "batch.num.messages": 10_000,
            "log_level": 0,
        }
    )
    chosen = random.Random(seed)
    names = [b"key-%08d" % number for number in range(keys)]
    value = chosen.randbytes(VALUE_BYTES)
    produce, pick = producer.produce, chosen.random
    for number in range(records):
        while True:
            try:
                produce(TOPIC, value, names[int(pick() * keys)], 0)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"{broker.name} left records unacknowledged")


def compact(broker: BrokerProcess, admin: AdminClient) -> tuple[float, int]:
    """Starts compaction. Returns the seconds until all closed segments are compacted, and their end
    offset."""
    segments = sorted(path for path in _directory(broker).glob("*.log"))
    end = int(segments[-1].stem)
    started = time.perf_counter()
    _alter(admin, "0.01")
    while (reached := _compacted_up_to(broker)) < end:
        if time.perf_counter() - started > PATIENCE_S:
            raise RuntimeError(f"{broker.name} compacted up to {reached} of {end}")
        time.sleep(0.01)
    elapsed_s = time.perf_counter() - started
    _alter(admin, "1.0")
    return elapsed_s, end


def _alter(admin: AdminClient, ratio: str) -> None:
    entry = ConfigEntry(
        "min.cleanable.dirty.ratio", ratio, incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def _directory(broker: BrokerProcess) -> Path:
    return broker.data_directory / f"{TOPIC}-0"


def _log_bytes(broker: BrokerProcess) -> int:
    return sum(path.stat().st_size for path in _directory(broker).glob("*.log"))


def _compacted_up_to(broker: BrokerProcess) -> int:
    try:
        lines = (broker.data_directory / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[2]) for line in lines[2:] if line.split()[0] == TOPIC), 0)


@contextmanager
def highest_memory(broker: BrokerProcess) -> Iterator[Callable[[], int]]:
    """Measures the peak memory of the broker's processes during the `with` block."""
    highest, over = 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not over.is_set():
            highest = max(highest, broker.usage().resident_bytes)
            over.wait(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: highest
    finally:
        over.set()
        thread.join()


def bystander(broker: BrokerProcess, admin: AdminClient, records: int, keys: int) -> Row:
    """Measures round trips of produce requests to another topic, without and during compaction."""
    over = threading.Event()
    threading.Timer(IDLE_S, over.set).start()
    idle = round_trips(broker, over)
    write(broker, records, keys, seed=2)
    time.sleep(2)
    over = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            compact(broker, admin)
        except RuntimeError as error:
            failures.append(error)
        finally:
            over.set()

    thread = threading.Thread(target=work)
    thread.start()
    busy = round_trips(broker, over)
    thread.join()
    if failures:
        raise failures[0]
    return {
        "p50 idle, ms": statistics.median(idle) * 1000,
        "p50 compacting, ms": statistics.median(busy) * 1000,
        "p99 idle, ms": percentile(idle, 0.99) * 1000,
        "p99 compacting, ms": percentile(busy, 0.99) * 1000,
        "requests meanwhile": len(busy),
    }


def round_trips(broker: BrokerProcess, over: threading.Event) -> list[float]:
    frame = wire.produce_frame(OTHER, wire.one_record_batch(b"x" * 100, int(time.time() * 1000)))
    connection = wire.WireConnection(broker.port)
    durations = []
    while not over.is_set():
        started = time.perf_counter()
        connection.send(frame)
        answer = connection.receive()
        durations.append(time.perf_counter() - started)
        if wire.produce_error(answer, OTHER):
            raise RuntimeError(f"produce was answered with {wire.produce_error(answer, OTHER)}")
        time.sleep(max(REQUEST_EVERY_S - durations[-1], 0))
    connection.close()
    return durations


def table(rows: dict[str, Row]) -> str:
    names = list(rows)
    lines = [" " * 22 + "".join(f"{name:>16}" for name in names)]
    for figure in next(iter(rows.values())):
        cells = "".join(f"{rows[name].get(figure, 0):>16,.2f}" for name in names)
        lines.append(f"{figure:22}{cells}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--without-kafka", action="store_true", help="measure Odradek alone")
    parser.add_argument("--without-load", action="store_true", help="no round trips meanwhile")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="odradek-compaction-") as name:
        with odradek_broker(Path(name) / "odradek", OVERRIDES) as broker:
            rows["Odradek"] = measure(
                broker, options.records, options.keys, with_load=not options.without_load
            )
        try:
            if not options.without_kafka:
                kafka = ApacheKafka.install()
                with kafka.broker(Path(name) / "kafka", OVERRIDES) as broker:
                    rows["Apache Kafka"] = measure(
                        broker, options.records, options.keys, with_load=not options.without_load
                    )
        except ToolMissing as reason:
            print(f"Apache Kafka is left out: {reason}", file=sys.stderr)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
