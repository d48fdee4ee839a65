"""Offsets that are given by partition name every partition, as Spark's Kafka source wants it."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark import clients
from odradek.spark.brokers import Brokers
from odradek.spark.option_names import BadOption
from odradek.spark.options import SourceOptions
from odradek.testing import Cluster


def refusal(cluster: Cluster, topic: str, *, is_start: bool = True, **options: str) -> str:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    source = SourceOptions.read({**servers, **options}, is_streaming=False)
    brokers = Brokers(source)
    spec = source.starting if is_start else source.ending
    try:
        with pytest.raises(BadOption) as raised:
            brokers.resolve(spec, brokers.partitions(), is_start=is_start)
    finally:
        clients.close_admins()
    return str(raised.value)


def test_a_partition_that_is_left_out_is_named(odradek_cluster: Cluster) -> None:
    topic = odradek_cluster.create_topic(partitions=3)
    begin = f'{{"{topic}": {{"1": 0}}}}'
    assert refusal(odradek_cluster, topic, startingOffsets=begin) == (
        f"startingOffsets leaves out {topic} [0], {topic} [2]: name every partition that is read,"
        f' for instance {{"{topic}": {{"0": -2, "1": 0, "2": -2}}}} (-2 is earliest)'
    )
    assert refusal(odradek_cluster, topic, is_start=False, endingOffsets=begin).endswith(
        f'{{"{topic}": {{"0": -1, "1": 0, "2": -1}}}} (-1 is latest)'
    )
    timed = f'{{"{topic}": {{"1": 1700000000000}}}}'
    assert refusal(odradek_cluster, topic, startingOffsetsByTimestamp=timed).startswith(
        f"startingOffsetsByTimestamp leaves out {topic} [0], {topic} [2]: name every partition"
    )
    assert refusal(odradek_cluster, topic, startingOffsets=f'{{"{topic}": {{"7": 0}}}}') == (
        f"startingOffsets: {topic} [7] is named, and it is not read"
    )


def test_many_partitions_are_counted(odradek_cluster: Cluster) -> None:
    topic = odradek_cluster.create_topic(partitions=20)
    said = refusal(odradek_cluster, topic, startingOffsets=f'{{"{topic}": {{"0": 5}}}}')
    assert f"{topic} [8] and 11 more: name every" in said
    assert said.endswith("for instance for these, -2 (-2 is earliest)")


def test_all_of_them_are_taken(odradek_cluster: Cluster) -> None:
    topic = odradek_cluster.create_topic(partitions=2)
    options = {
        "kafka.bootstrap.servers": odradek_cluster.bootstrap,
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}": {{"0": 0, "1": -2}}}}',
    }
    brokers = Brokers(source := SourceOptions.read(options, is_streaming=False))
    found = brokers.resolve(source.starting, brokers.partitions(), is_start=True)
    clients.close_admins()
    assert found == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("clicks*", "for a pattern, set subscribePattern=clicks*"),
        ("clicks orders", "separate topics with commas: clicks,orders"),
    ],
)
def test_a_name_that_no_topic_can_have_is_answered(
    odradek_cluster: Cluster, name: str, advice: str
) -> None:
    assert refusal(odradek_cluster, name) == f"{name!r} cannot be the name of a topic; {advice}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("startingOffsets", "-5 cannot be negative; -2 is earliest, -1 is latest"),
        ("startingOffsetsByTimestamp", "-5 cannot be negative"),
    ],
)
def test_a_negative_offset_is_refused(name: str, said: str) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", name: '{"t": {"0": -5}}'}
    with pytest.raises(BadOption) as raised:
        SourceOptions.read(options, is_streaming=True)
    assert str(raised.value) == f"{name}: {said}"


def test_seconds_in_place_of_milliseconds_are_said(
    odradek_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    options = {
        "kafka.bootstrap.servers": odradek_cluster.bootstrap,
        "subscribe": odradek_cluster.create_topic(),
        "startingTimestamp": "1700000000",
        "startingOffsetsByTimestampStrategy": "latest",
    }
    brokers = Brokers(source := SourceOptions.read(options, is_streaming=True))
    brokers.resolve(source.starting, brokers.partitions(), is_start=True)
    clients.close_admins()
    assert "1700000000, which is in 1970 (are these seconds?)" in caplog.text
