"""What a record may be: sizes, batches, timestamps, codecs, and how they lie in the log file."""

import struct
import time
from pathlib import Path

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Producer

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import (
    AiokafkaClient,
    Client,
    ConfluentClient,
    KafkaPythonClient,
    read_messages,
    send,
)
from tests.conformance.rows import CODECS, Row, numbered_rows
from tests.conformance.topics import create_topic, partition_directory

# Kafka's default for max.message.bytes, and what a batch of one record adds to its value.
MAXIMAL_BATCH_BYTES = 1_048_588
ONE_RECORD_OVERHEAD_BYTES = 72

HEADER_FIELDS = (
    *("base_offset", "length", "epoch", "magic", "crc", "attributes", "last_delta"),
    *("base_time", "max_time", "producer_id", "producer_epoch", "base_sequence", "count"),
)

PYTHON_CLIENTS: tuple[Client, ...] = (ConfluentClient(), KafkaPythonClient(), AiokafkaClient())


def batch_headers(log_file: Path) -> list[dict[str, int]]:
    """The fields of every batch header in a segment, read here and nowhere else in these tests."""
    data = log_file.read_bytes()
    headers, position = [], 0
    while position < len(data):
        fields = dict(
            zip(HEADER_FIELDS, struct.unpack_from(">qiibIhiqqqhii", data, position), strict=True)
        )
        headers.append(fields)
        position += 12 + fields["length"]
    return headers


def headers_of(broker: BrokerProcess, topic: str) -> list[dict[str, int]]:
    return batch_headers(partition_directory(broker, topic) / "00000000000000000000.log")


@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=lambda client: client.name)
def test_one_byte_records_come_back(any_broker: BrokerProcess, client: Client) -> None:
    topic = create_topic(any_broker)
    rows = [Row(None, b"x"), Row(b"k", b"y")]
    client.produce(any_broker.bootstrap, topic, "none", rows)
    assert client.consume(any_broker.bootstrap, topic, 2) == rows


def test_a_record_may_have_neither_key_nor_value(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    ConfluentClient().produce(any_broker.bootstrap, topic, "none", [Row(None, None)])
    assert ConfluentClient().consume(any_broker.bootstrap, topic, 1) == [Row(None, None)]


def test_a_batch_of_exactly_the_maximal_size_is_taken_and_one_byte_more_is_refused(
    any_broker: BrokerProcess,
) -> None:
    topic = create_topic(any_broker)
    settings = {"message.max.bytes": 2_000_000}
    fits = b"m" * (MAXIMAL_BATCH_BYTES - ONE_RECORD_OVERHEAD_BYTES)
    assert send(any_broker.bootstrap, topic, fits, settings) is None
    assert headers_of(any_broker, topic)[0]["length"] + 12 == MAXIMAL_BATCH_BYTES
    error = send(any_broker.bootstrap, topic, fits + b"m", settings)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    (message,) = read_messages(any_broker.bootstrap, topic, 1)
    assert message.value() == fits


def test_a_topic_may_allow_more_than_the_default(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker, config={"max.message.bytes": "3000000"})
    value = b"m" * 2_900_000
    settings = {"message.max.bytes": 4_000_000}
    assert send(any_broker.bootstrap, topic, value, settings) is None
    for client in PYTHON_CLIENTS:
        (row,) = client.consume(any_broker.bootstrap, topic, 1)
        assert row.value == value, client.name


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_ten_thousand_records_stays_one_batch(
    any_broker: BrokerProcess, codec: str
) -> None:
    topic = create_topic(any_broker, partitions=2)
    rows = numbered_rows(10_000)
    producer = Producer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "compression.type": codec,
            "linger.ms": 60_000,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
        }
    )
    # While it looks for the leader, records wait elsewhere and may come into a batch in parts.
    producer.produce(topic, b"a first one", partition=1)
    assert producer.flush(15) == 0
    for row in rows:
        producer.produce(topic, row.value, row.key, partition=0, timestamp=row.timestamp_ms)
    assert producer.flush(15) == 0
    (header,) = headers_of(any_broker, topic)
    assert (header["count"], header["last_delta"]) == (10_000, 9_999)
    assert header["attributes"] & 7 == CODECS.index(codec)
    for client in PYTHON_CLIENTS:
        assert client.consume(any_broker.bootstrap, topic, 10_000) == rows, client.name


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(any_broker: BrokerProcess, acks: str) -> None:
    topic = create_topic(any_broker)
    assert send(any_broker.bootstrap, topic, b"v", {"acks": acks}) is None
    (message,) = read_messages(any_broker.bootstrap, topic, 1)
    assert message.value() == b"v"


def test_an_idempotent_producer_numbers_its_batches(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    producer = Producer(
        {"bootstrap.servers": any_broker.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(10) == 0
    headers = headers_of(any_broker, topic)
    assert [header["base_sequence"] for header in headers] == [0, 1, 2, 3, 4]
    assert len({(header["producer_id"], header["producer_epoch"]) for header in headers}) == 1
    assert headers[0]["producer_id"] >= 0


def test_two_idempotent_producers_get_different_ids(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    for value in (b"first", b"second"):
        assert send(any_broker.bootstrap, topic, value, {"enable.idempotence": True}) is None
    first, second = headers_of(any_broker, topic)
    assert first["producer_id"] != second["producer_id"]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_log_append_time_is_the_brokers_clock(any_broker: BrokerProcess, codec: str) -> None:
    topic = create_topic(any_broker, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    long_ago = [row._replace(timestamp_ms=row.timestamp_ms - 999) for row in numbered_rows(3)]
    ConfluentClient().produce(any_broker.bootstrap, topic, codec, long_ago)
    after_ms = int(time.time() * 1000)
    messages = read_messages(any_broker.bootstrap, topic, 3)
    for message in messages:
        kind, timestamp_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= timestamp_ms <= after_ms
    assert [message.value() for message in messages] == [row.value for row in long_ago]
    assert all(header["attributes"] & 8 for header in headers_of(any_broker, topic))


def test_a_timestamp_too_far_in_the_future_is_refused(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    tomorrow_ms = int(time.time() * 1000) + 86_400_000
    error = send(any_broker.bootstrap, topic, b"v", {}, timestamp_ms=tomorrow_ms)
    assert error is not None
    assert error.code() == KafkaError.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("topic_codec", "producer_codec", "stored"),
    [
        ("producer", "lz4", "lz4"),
        ("gzip", "none", "gzip"),
        ("zstd", "snappy", "zstd"),
        ("lz4", "lz4", "lz4"),
        ("uncompressed", "gzip", "none"),
        ("snappy", "zstd", "snappy"),
    ],
)
def test_the_topic_decides_the_codec(
    any_broker: BrokerProcess, topic_codec: str, producer_codec: str, stored: str
) -> None:
    topic = create_topic(any_broker, config={"compression.type": topic_codec})
    rows = numbered_rows(50, value_bytes=200)
    ConfluentClient().produce(any_broker.bootstrap, topic, producer_codec, rows)
    codecs = {CODECS[header["attributes"] & 7] for header in headers_of(any_broker, topic)}
    assert codecs == {stored}
    assert KafkaPythonClient().consume(any_broker.bootstrap, topic, 50) == rows
