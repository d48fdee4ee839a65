"""`odradek dump-log` beside Apache Kafka's own, on the same files: the same bytes.

The files come from a real Apache Kafka (every codec, both kinds of timestamps, transactions)
and, for what a client cannot make a broker write, from our own batches.
"""

import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from odradek.protocol.compression import Codec
from odradek.protocol.records import BatchBuilder, read_header, set_log_append_time

FLAGS: list[tuple[str, ...]] = [
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--index-sanity-check",),
    ("--verify-index-only",),
    ("--max-bytes", "700"),
]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(bootstrap: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": codec in ("none", "lz4"),
            "linger.ms": 5,
        }
    )
    for number in range(60):
        producer.produce(
            topic,
            key=None if number % 3 == 0 else f"key {number}",
            value=None if number % 7 == 0 else f"grüße {number} " * 5,
            headers=[("one", b"x"), ("two", None)] if number % 2 else None,
        )
        if number % 10 == 0:
            producer.flush()
    producer.flush()


def commit_and_abort(bootstrap: str, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "dump-log", "log_level": 0}
    )
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, f"in transaction {number}")
        producer.flush()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()


@pytest.fixture(scope="module")
def kafka_files(kafka_home: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every segment's files of a broker that has ended cleanly, so that none is growing."""
    directory = tmp_path_factory.mktemp("dump-log")
    with kafka_home.broker(directory, {"log.index.interval.bytes": "200"}) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(f"codec-{codec}", 1, 1) for codec in CODECS]
        topics.append(NewTopic("transactions", 1, 1))
        settings = {"message.timestamp.type": "LogAppendTime"}
        topics.append(NewTopic("append-time", 1, 1, config=settings))
        for created in admin.create_topics(topics).values():
            created.result()
        for codec in CODECS:
            produce(bootstrap, f"codec-{codec}", codec)
        produce(bootstrap, "append-time", "none")
        commit_and_abort(bootstrap, "transactions")
    files = sorted(path for path in broker.data_directory.glob("*-0/0*") if path.is_file())
    chosen = [path for path in files if not path.parent.name.startswith("__")]
    suffixes = {path.suffix for path in chosen}
    assert suffixes >= {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}
    return chosen


@pytest.fixture
def made_files(tmp_path: Path) -> list[Path]:
    """What no client makes a broker write: emptied batches, gaps, odd bytes, wrong indexes."""
    chance = random.Random(7)
    batches = []
    for offset, codec in ((0, Codec.NONE), (10, Codec.SNAPPY), (25, Codec.LZ4)):
        builder = BatchBuilder(codec)
        for number in range(10):
            noise = bytes(chance.choices(b"\xc2\xe0\xed\xa0\x80\xbf\xf4\xff\x9fA", k=number))
            builder.append(noise.replace(b"\n", b""), noise or None, [("ü", noise)], 5000 - number)
        batches.append(builder.build(offset, 9, 1, (1 << 31) - 3, leader_epoch=offset))
    emptied = bytearray(BatchBuilder().build(40, 9, 1, 7))
    struct.pack_into(">i", emptied, 23, 4)
    dropped_at = bytearray(set_log_append_time(batches[0], 123_456))
    struct.pack_into(">q", dropped_at, 0, 50)
    dropped_at[22] |= 0x40
    wrong_checksum = bytearray(batches[0])
    struct.pack_into(">q", wrong_checksum, 0, 60)
    wrong_checksum[17] ^= 0x80
    batches += [bytes(emptied), bytes(dropped_at), bytes(wrong_checksum)]
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"".join(batches) + batches[0][:40])

    second = len(batches[0])
    third = second + len(batches[1])
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">6i", 19, second, 33, third, 0, 0))
    time_index = log.with_suffix(".timeindex")
    time_index.write_bytes(struct.pack(">qiqiqi", 5000, 9, 4999, 19, 6000, 33))
    empty = tmp_path / "00000000000000000070.index"
    for suffix in (".log", ".index", ".timeindex"):
        empty.with_suffix(suffix).write_bytes(b"")
    return [log, index, time_index, empty, empty.with_suffix(".timeindex")]


def outputs(command: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return done.stdout.split(b"\n"), done.stderr.split(b"\n")


def compare(kafka_home: ApacheKafka, files: list[Path], flags: tuple[str, ...]) -> int:
    """Runs both tools; the number of lines that were the same."""
    arguments = ["--files", ",".join(map(str, files)), *flags]
    java = kafka_home.tool_command("dump-log", *arguments)
    java.insert(1, "-Dstdout.encoding=UTF-8")
    theirs, their_errors = outputs(java)
    ours, our_errors = outputs([sys.executable, "-m", "odradek.cli", "dump-log", *arguments])
    assert our_errors == their_errors
    assert ours == theirs
    return len(ours)


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_files_of_apache_kafka_are_dumped_alike(
    kafka_home: ApacheKafka, kafka_files: list[Path], flags: tuple[str, ...]
) -> None:
    assert compare(kafka_home, kafka_files, flags) > len(kafka_files)


def test_kafka_reads_every_codec_of_ours(kafka_home: ApacheKafka, tmp_path: Path) -> None:
    """Batches of many blocks, for codecs that have blocks, and at more than one level."""
    log = tmp_path / "00000000000000000000.log"
    batches, offset = [], 0
    for codec, level in [*((codec, None) for codec in Codec), (Codec.LZ4, 12), (Codec.ZSTD, 9)]:
        builder = BatchBuilder(codec, level)
        for number in range(3000):
            builder.append(None, b"%d: some text that repeats; " % number * 5, (), number)
        batches.append(builder.build(offset))
        offset += 3000
    log.write_bytes(b"".join(batches))
    assert compare(kafka_home, [log], ("--print-data-log",)) > offset


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_unusual_files_are_dumped_alike(
    kafka_home: ApacheKafka, made_files: list[Path], flags: tuple[str, ...]
) -> None:
    assert read_header(made_files[0].read_bytes()).record_count == 10
    assert compare(kafka_home, made_files, flags) > len(made_files)
