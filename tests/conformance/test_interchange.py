"""Files and tools pass between Odradek and Apache Kafka: each reads what the other wrote."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess
from benchmarks.broker_process import odradek_broker as running_odradek
from odradek.world import OsDisk
from tests.conformance.clients import ConfluentClient, send
from tests.conformance.rows import AWKWARD_ROWS, CODECS, Row, numbered_rows
from tests.conformance.topics import create_topic, partition_directory
from tests.log_verification import verify_log

# Several segments, with entries in their indexes, and batches of every codec in turn.
SEGMENT_SETTINGS = {"segment.bytes": "1048576"}
ROWS_A_CODEC = 3_000


def rows_of(codec: str) -> list[Row]:
    return [
        row._replace(key=codec.encode() + b" " + (row.key or b""))
        for row in numbered_rows(ROWS_A_CODEC, value_bytes=300)
    ]


def all_rows() -> list[Row]:
    return [*AWKWARD_ROWS, *(row for codec in CODECS for row in rows_of(codec))]


def write_all(broker: BrokerProcess, topic: str) -> None:
    ConfluentClient().produce(broker.bootstrap, topic, "none", AWKWARD_ROWS)
    for codec in CODECS:
        ConfluentClient().produce(broker.bootstrap, topic, codec, rows_of(codec))


def read_all(broker: BrokerProcess, topic: str) -> list[Row]:
    expected = all_rows()
    return ConfluentClient().consume(broker.bootstrap, topic, len(expected))


def segment_files(directory: Path, suffix: str) -> list[str]:
    return sorted(str(path) for path in directory.glob(f"*{suffix}"))


def dump(kafka_home: ApacheKafka, files: Sequence[str], *flags: str) -> str:
    return kafka_home.run_tool("dump-log", "--files", ",".join(files), *flags)


@pytest.fixture(scope="module")
def odradek_topic(odradek_broker: BrokerProcess) -> str:
    topic = create_topic(odradek_broker, config=SEGMENT_SETTINGS)
    write_all(odradek_broker, topic)
    return topic


def test_apache_dump_log_reads_our_segments(
    odradek_broker: BrokerProcess, odradek_topic: str, kafka_home: ApacheKafka
) -> None:
    segments = segment_files(partition_directory(odradek_broker, odradek_topic), ".log")
    assert len(segments) >= 2
    output = dump(kafka_home, segments, "--print-data-log", "--deep-iteration")
    batches = [line for line in output.splitlines() if line.startswith("baseOffset:")]
    records = [line for line in output.splitlines() if line.startswith("| offset:")]
    assert all("isvalid: true" in line for line in batches)
    assert len(records) == len(all_rows())
    for codec in CODECS:
        assert any(f"compresscodec: {codec}" in line for line in batches), codec


def test_apache_dump_log_finds_our_indexes_sane(
    odradek_broker: BrokerProcess, odradek_topic: str, kafka_home: ApacheKafka
) -> None:
    directory = partition_directory(odradek_broker, odradek_topic)
    indexes = [*segment_files(directory, ".index"), *segment_files(directory, ".timeindex")]
    output = dump(kafka_home, indexes, "--index-sanity-check")
    assert output.count("passed sanity check") >= len(indexes) // 2
    output = dump(kafka_home, indexes, "--verify-index-only")
    assert "Found" not in output, output
    assert "corrupt" not in output.lower(), output


def test_apache_console_consumer_reads_from_us(
    odradek_broker: BrokerProcess, odradek_topic: str, kafka_home: ApacheKafka
) -> None:
    output = kafka_home.run_tool(
        "console-consumer",
        *("--bootstrap-server", odradek_broker.bootstrap, "--topic", odradek_topic),
        *("--partition", "0", "--offset", "earliest", "--timeout-ms", "20000"),
        *("--max-messages", str(len(all_rows()))),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.timestamp=true"),
    )
    lines = output.splitlines()
    assert len(lines) == len(all_rows())
    last = all_rows()[-1]
    assert lines[-1] == f"CreateTime:{last.timestamp_ms}\tzstd 2999\t{(last.value or b'').decode()}"


def test_apache_console_producer_and_offsets_write_to_us(
    odradek_broker: BrokerProcess, kafka_home: ApacheKafka
) -> None:
    topic = create_topic(odradek_broker)
    lines = [f"line {number}" for number in range(500)]
    where = ("--bootstrap-server", odradek_broker.bootstrap, "--topic", topic)
    kafka_home.run_tool("console-producer", *where, stdin="\n".join(lines).encode())
    rows = ConfluentClient().consume(odradek_broker.bootstrap, topic, 500)
    assert [(row.value or b"").decode() for row in rows] == lines
    assert kafka_home.run_tool("get-offsets", *where).strip() == f"{topic}:0:500"


def test_apache_topics_tool_administers_us(
    odradek_broker: BrokerProcess, kafka_home: ApacheKafka
) -> None:
    where = ("--bootstrap-server", odradek_broker.bootstrap)
    name = ("--topic", "made-by-the-tool")
    kafka_home.run_tool("topics", *where, *name, "--create", "--partitions", "3")
    described = kafka_home.run_tool("topics", *where, *name, "--describe")
    assert "PartitionCount: 3" in described
    kafka_home.run_tool("topics", *where, *name, "--delete")
    assert "made-by-the-tool" not in kafka_home.run_tool("topics", *where, "--list")


def test_we_take_over_a_directory_that_apache_wrote(
    apache_kafka: BrokerProcess, tmp_path: Path
) -> None:
    """The partition directory of a running broker is copied as it is."""
    topic = create_topic(apache_kafka, config=SEGMENT_SETTINGS)
    write_all(apache_kafka, topic)
    ours = tmp_path / "data" / f"{topic}-0"
    shutil.copytree(partition_directory(apache_kafka, topic), ours)
    with running_odradek(tmp_path) as broker:
        assert read_all(broker, topic) == all_rows()
        assert send(broker.bootstrap, topic, b"appended", {"enable.idempotence": True}) is None
    report = verify_log(OsDisk(), str(ours), deep=True)
    assert report.is_sound, report.problems
    assert report.next_offset == len(all_rows()) + 1


def test_apache_takes_over_a_directory_that_we_wrote(
    odradek_broker: BrokerProcess, odradek_topic: str, kafka_home: ApacheKafka, tmp_path: Path
) -> None:
    """Apache Kafka knows the topic by its id, so its own partition.metadata stays."""
    with kafka_home.broker(tmp_path) as broker:
        topic = create_topic(broker, config=SEGMENT_SETTINGS)
        theirs = partition_directory(broker, topic)
    for path in theirs.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in partition_directory(odradek_broker, odradek_topic).iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, theirs)
    for checkpoint in theirs.parent.glob("*-checkpoint"):
        checkpoint.unlink()
    with kafka_home.broker(tmp_path) as broker:
        assert read_all(broker, topic) == all_rows()
        assert send(broker.bootstrap, topic, b"appended", {}) is None
        assert "ERROR" not in broker.said()
