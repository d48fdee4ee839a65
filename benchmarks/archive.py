"""A topic to Parquet and back with the commands that users type, compared record by record.

    python -m benchmarks.archive [--records 5000000] [--json]

Keys of 8 bytes, values of 100 random ones, a header on every record, times over three hours, four
partitions. It shows records a second by the command's own time and by wall time (which includes
Java's start), and the peak memory of its processes. The broker runs on the same cores and is not
counted. For comparison it also measures the limits of one process: fetching the topic into Arrow
columns, and writing such columns as Parquet.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.client.sync import Admin
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns
from odradek.spark.arrow.producer import BatchProducer
from odradek.spark.arrow.ranges import RangeReader
from odradek.testing import Cluster

_ROWS = 50_000
_PARTITIONS = 4
_HOURS = 3
_FIRST_MS = 1_763_190_000_000
_HOUR_MS = 3_600_000


class Run(NamedTuple):
    """One command: the seconds it reports, the wall time, and its peak memory."""

    own_s: float
    wall_s: float
    memory_bytes: int


def fill(brokers: Cluster, topic: str, records: int) -> None:
    settings = ProducerSettings(bootstrap_servers=brokers.bootstrap, max_request_size=4 << 20)
    random = np.random.default_rng(7)
    with BatchProducer(settings) as producer:
        encoder = ArrowEncoder(topic, producer.partition_count)
        for first in range(0, records, _ROWS):
            count = min(_ROWS, records - first)
            columns = record_columns(_batch(random, first, count, records), 0)
            for encoded in encoder.encode(columns):
                producer.send(*encoded)
        producer.flush()


def _batch(random: np.random.Generator, first: int, count: int, records: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + count)
    times_ms = _FIRST_MS + numbers * (_HOURS * _HOUR_MS) // records
    headers = pa.ListArray.from_arrays(
        np.arange(count + 1, dtype=np.int32),
        pa.StructArray.from_arrays(
            [pa.array(["trace"] * count), _fixed(random, count, 8)], names=["key", "value"]
        ),
    )
    columns = {
        "key": _fixed(random, count, 8),
        "value": _fixed(random, count, 100),
        "partition": pa.array(numbers % _PARTITIONS),
        "timestamp": pa.array(times_ms * 1000, pa.timestamp("us", tz="UTC")),
        "headers": headers,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _fixed(random: np.random.Generator, count: int, width: int) -> pa.Array:
    ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * width)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, ends, pa.py_buffer(random.bytes(count * width))]
    )


class Limits(NamedTuple):
    """Records a second that one process can fetch, and that it can write."""

    fetched: float
    written: float


def limits(brokers: Cluster, topic: str, records: int, where: str) -> Limits:
    """Measures the limits on one partition; the better of two rounds counts."""
    place = TopicPartition(topic, 0)
    fetched = written = 0.0
    with RangeReader(_reading(brokers)) as reader:
        for _ in range(2):
            began_s = time.monotonic()
            batches = list(reader.read(place, 0, records, with_headers=True))
            read_s = time.monotonic() - began_s
            table = pa.Table.from_batches(batches)
            pq.write_table(table, f"{where}/limit.parquet", compression="zstd")
            write_s = time.monotonic() - began_s - read_s
            fetched = max(fetched, table.num_rows / read_s)
            written = max(written, table.num_rows / write_s)
    return Limits(fetched, written)


def _reading(brokers: Cluster) -> ConsumerSettings:
    return ConsumerSettings(
        bootstrap_servers=brokers.bootstrap,
        isolation_level="read_committed",
        max_partition_fetch_bytes=8 << 20,
    )


def run(*arguments: str) -> tuple[dict[str, Any], Run]:
    """Runs a command, and reads the memory of its processes twice a second."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "odradek.cli", *arguments, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    most = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.5):
            most = max(most, _memory_bytes(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        said, _ = process.communicate(timeout=900)
    finally:
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"odradek {arguments[0]} ended with {process.returncode}")
    answer = json.loads(said.splitlines()[-1])
    return answer, Run(answer["seconds"], time.monotonic() - began_s, most)


def _memory_bytes(process_id: int) -> int:
    """Returns the memory of a process and its descendants. Pages that forked workers share are
    counted once."""
    try:
        first = psutil.Process(process_id)
        every = [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for one in every:
        try:
            total += one.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


class Fingerprint:
    """A hash of records in their order, whatever their batches are."""

    def __init__(self) -> None:
        self._sums: dict[str, Any] = {}
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._add("time", np.asarray(batch.column("timestamp").cast(pa.int64())).tobytes())
        headers = batch.column("headers")
        self._add("headers", np.asarray(headers.value_lengths().fill_null(0)).tobytes())
        entries = headers.flatten()
        columns = {"key": batch.column("key"), "value": batch.column("value")}
        columns |= {"name": entries.field(0).cast(pa.binary()), "content": entries.field(1)}
        for name, column in columns.items():
            ends = np.frombuffer(column.buffers()[1], np.int32)
            ends = ends[column.offset : column.offset + len(column) + 1]
            self._add(name, np.asarray(column.is_valid()).tobytes())
            self._add(f"{name} lengths", np.diff(ends).tobytes())
            data = column.buffers()[2]
            if data is not None:
                self._add(f"{name} data", memoryview(data)[int(ends[0]) : int(ends[-1])])

    def _add(self, name: str, data: "bytes | memoryview") -> None:
        self._sums.setdefault(name, hashlib.blake2b()).update(data)

    def digest(self) -> tuple[int, dict[str, str]]:
        return self.rows, {name: one.hexdigest() for name, one in sorted(self._sums.items())}


def fingerprint(brokers: Cluster, topic: str, partition: int) -> tuple[int, dict[str, str]]:
    place = TopicPartition(topic, partition)
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        listed = admin.list_offsets({place: -1}, read_committed=True)[place]
        assert not isinstance(listed, KafkaError)
        end = listed.offset
    found = Fingerprint()
    with RangeReader(_reading(brokers)) as reader:
        for batch in reader.read(place, 0, end, with_headers=True):
            found.add(batch)
    return found.digest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as where,
        Cluster(settings={"log.retention.ms": "-1"}, data=f"{where}/broker") as brokers,
    ):
        topic = brokers.create_topic(partitions=_PARTITIONS)
        fill(brokers, topic, options.records)
        best = limits(brokers, topic, min(500_000, options.records // _PARTITIONS), where)
        at = ("--bootstrap-server", brokers.bootstrap)
        archived, there = run("archive", "--topic", topic, "--to", f"{where}/archive", *at)
        given = ("--from", f"{where}/archive", "--topic", topic, "--to-topic", "copy")
        restored, back = run("restore", *given, *at)
        assert archived["records"] == restored["records"] == options.records
        for partition in range(_PARTITIONS):
            assert fingerprint(brokers, topic, partition) == fingerprint(brokers, "copy", partition)
    figures: dict[str, Run | Limits] = {"archive": there, "restore": back}
    if options.json:
        figures["limits"] = best
        print(json.dumps({name: one._asdict() for name, one in figures.items()}))
        return
    print(f"one process at best: fetches {best.fetched:,.0f}/s, writes {best.written:,.0f}/s")
    print(f"{options.records:,} records, equal after both ways; files {archived}")
    for name, one in (("archive", there), ("restore", back)):
        print(
            f"{name}: {options.records / one.own_s:,.0f} records/s,"
            f" {options.records / one.wall_s:,.0f} with Spark's start,"
            f" at most {one.memory_bytes / 1e6:,.0f} MB"
        )


if __name__ == "__main__":
    main()
