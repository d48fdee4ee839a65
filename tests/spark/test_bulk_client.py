"""Ranges and whole batches against a real broker, without Spark."""

import pyarrow as pa
import pytest

from odradek.client.settings import ConsumerSettings, ProducerSettings
from odradek.client.sync import Admin
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark.arrow.encoding import ArrowEncoder, record_columns
from odradek.spark.arrow.producer import BatchProducer
from odradek.spark.arrow.ranges import DataLost, RangeReader
from odradek.testing import Cluster
from tests.spark.topics import fill, values_in

pytestmark = pytest.mark.xdist_group("spark")


def send(producer: BatchProducer, topic: str, values: list[bytes]) -> None:
    columns = record_columns(pa.record_batch([pa.array(values)], names=["value"]), 1000)
    for encoded in ArrowEncoder(topic, producer.partition_count).encode(columns):
        producer.send(*encoded)


def values_from(brokers: Cluster, topic: str, start: int, end: int, **settings: str) -> list[bytes]:
    with RangeReader(ConsumerSettings(bootstrap_servers=brokers.bootstrap, **settings)) as reader:  # type: ignore[arg-type]
        batches = reader.read(TopicPartition(topic, 0), start, end)
        return [value for batch in batches for value in batch["value"].to_pylist()]


def test_a_range_is_read_whole_and_no_more(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    wanted = [b"%d" % index for index in range(1000)]
    fill(brokers, topic, wanted)
    # Fetches so small that one range takes many of them.
    small = {"max_partition_fetch_bytes": 500}
    assert values_from(brokers, topic, 10, 990, **small) == wanted[10:990]  # type: ignore[arg-type]
    assert values_from(brokers, topic, 5, 5) == []


def test_aborted_transactions_are_hidden_from_those_who_ask_for_it(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    settings = ProducerSettings(bootstrap_servers=brokers.bootstrap, transactional_id=f"id-{topic}")
    with BatchProducer(settings) as producer:
        producer.init_transactions()
        for values, is_kept in (([b"a"], True), ([b"b", b"c"], False), ([b"d"], True)):
            producer.begin_transaction()
            send(producer, topic, values)
            producer.flush()
            if is_kept:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    committed = values_from(brokers, topic, 0, 7, isolation_level="read_committed")
    assert committed == [b"a", b"d"]
    assert values_from(brokers, topic, 0, 7) == [b"a", b"b", b"c", b"d"]


def test_a_batch_that_is_too_large_for_the_topic_goes_in_pieces(brokers: Cluster) -> None:
    topic = brokers.create_topic(config={"max.message.bytes": "2000"})
    wanted = [b"%0100d" % index for index in range(200)]
    with BatchProducer(ProducerSettings(bootstrap_servers=brokers.bootstrap)) as producer:
        send(producer, topic, wanted)
        producer.flush()
    assert values_in(brokers, topic, 1) == wanted


def test_a_record_that_is_refused_is_told(brokers: Cluster) -> None:
    topic = brokers.create_topic(config={"max.message.bytes": "2000"})
    with BatchProducer(ProducerSettings(bootstrap_servers=brokers.bootstrap)) as producer:
        send(producer, topic, [b"x" * 5000])
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.flush()


def test_what_retention_took_is_missed(brokers: Cluster) -> None:
    topic = brokers.create_topic()
    fill(brokers, topic, [b"%d" % index for index in range(10)])
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    with pytest.raises(DataLost, match="the log now begins at 4"):
        values_from(brokers, topic, 0, 10)


def test_many_batches_that_are_too_large_for_the_topic_all_arrive(brokers: Cluster) -> None:
    """Several are on their way at once when the first one is refused; order is kept."""
    topic = brokers.create_topic(config={"max.message.bytes": "5000"})
    wanted = [b"%06d" % index + b"x" * 200 for index in range(400)]
    settings = ProducerSettings(bootstrap_servers=brokers.bootstrap, delivery_timeout_ms=60_000)
    columns = record_columns(pa.record_batch([pa.array(wanted)], names=["value"]), 1000)
    with BatchProducer(settings) as producer:
        encoder = ArrowEncoder(topic, producer.partition_count, batch_bytes=9_000)
        for encoded in encoder.encode(columns):
            producer.send(*encoded)
        producer.flush()
    assert values_in(brokers, topic, 1) == wanted
