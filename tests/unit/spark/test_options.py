"""The options are those of Spark's own Kafka source; mistakes are told in a line."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark.option_names import BadOption
from odradek.spark.options import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    SinkOptions,
    SourceOptions,
    check_options,
)
from odradek.spark.updates import into_topic

_SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
_BASE = {**_SERVERS, "subscribe": "a"}


def read(**given: str) -> SourceOptions:
    return SourceOptions.read({**_BASE, **given}, is_streaming=False)


def read_stream(**given: str) -> SourceOptions:
    return SourceOptions.read({**_BASE, **given}, is_streaming=True)


def test_defaults_of_a_batch_and_of_a_stream() -> None:
    batch, stream = read(), read_stream()
    assert (batch.starting, batch.ending) == (OffsetSpec(EARLIEST), OffsetSpec(LATEST))
    assert stream.starting == OffsetSpec(LATEST)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert not batch.push_filters


def test_topics_are_named_in_one_of_three_ways() -> None:
    assert read(subscribe="b, a").topics.names == ("a", "b")
    pattern = SourceOptions.read({**_SERVERS, "subscribePattern": "a.*"}, is_streaming=False)
    assert pattern.topics.pattern == "a.*"
    assigned = SourceOptions.read({**_SERVERS, "assign": '{"a": [1, 0]}'}, is_streaming=False)
    assert assigned.topics.partitions == (TopicPartition("a", 0), TopicPartition("a", 1))


def test_names_of_options_have_no_case() -> None:
    assert (
        read_stream(STARTINGOFFSETS="earliest", MaxOffsetsPerTrigger="9").max_offsets_per_trigger
        == 9
    )


def test_places_by_offset_and_by_time() -> None:
    by_offset = read(startingOffsets='{"a": {"0": 23, "1": -2}}').starting
    assert by_offset.offsets == ((TopicPartition("a", 0), 23), (TopicPartition("a", 1), EARLIEST))
    assert read(startingTimestamp="1700").starting.timestamp_ms == 1700
    by_time = read(endingOffsetsByTimestamp='{"a": {"0": 5}}').ending
    assert by_time.timestamps_ms == ((TopicPartition("a", 0), 5),)
    # The more particular one wins, as in Spark.
    both = read(startingTimestamp="1700", startingOffsets="earliest").starting
    assert both.timestamp_ms == 1700


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"assign": '{"a": [0]}'}, "exactly one of"),
        ({"subscribe": ""}, "exactly one of"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        (
            {"startingOffsets": "soon"},
            r'startingOffsets=soon: must be earliest, latest or \{"topic"',
        ),
        ({"startingOffsets": "{a: 5}"}, "startingOffsets is not JSON like"),
        ({"endingOffsets": "lastest"}, r"endingOffsets=lastest: .*; did you mean latest\?"),
        ({"startingOffsets": '{"a": 5}'}, "must look like"),
        ({"startingTimestamp": "noon"}, "not a whole number of milliseconds since 1970"),
        ({"minPartitions": "0"}, "must be above 0"),
        ({"failOnDataLoss": "perhaps"}, "must be true or false"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"startingOffsetsByTimestampStrategy": "eror"}, r"or latest; did you mean error\?"),
    ],
)
def test_mistakes_are_told(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        read(**given)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxOffsetsPerTrigger", "100"),
        ("minOffsetsPerTrigger", "100"),
        ("maxTriggerDelay", "1m"),
        ("commitOffsetsToGroup", "g"),
    ],
)
def test_an_option_of_streams_is_refused_in_a_batch(option: str, value: str) -> None:
    read_stream(**{option: value})
    with pytest.raises(BadOption, match=f"{option} is for streams: .*; leave it out, or write rea"):
        read(**{option: value})


def test_an_option_of_batches_is_refused_in_a_stream() -> None:
    assert read(pushFilters="true").push_filters
    with pytest.raises(BadOption, match="pushFilters is for batch queries"):
        read_stream(pushFilters="true")


def test_how_long_a_stream_waits() -> None:
    assert read_stream(maxTriggerDelay="2m").max_trigger_delay_ms == 120_000
    with pytest.raises(BadOption, match="must be like"):
        read_stream(maxTriggerDelay="soon")


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadOption, match="a stream has no end"):
        read_stream(endingOffsets="latest")


def test_kafka_options_reach_the_client() -> None:
    given = {"kafka.isolation.level": "read_committed", "kafka.group.id": "g"}
    options = read(**given)
    settings = options.consumer_settings()
    assert settings.isolation_level == "read_committed"
    assert settings.bootstrap_addresses == [("localhost", 9092)]
    assert options.read_committed
    assert options.admin_settings().bootstrap_addresses == [("localhost", 9092)]


def test_a_stream_writes_exactly_once_and_a_batch_does_not() -> None:
    stream = SinkOptions.read({**_SERVERS, "topic": "t"}, is_streaming=True)
    assert stream.exactly_once
    assert stream.producer_settings("id").transactional_id == "id"
    batch = SinkOptions.read({**_SERVERS, "kafka.compression.type": "zstd"}, is_streaming=False)
    assert not batch.exactly_once
    assert batch.producer_settings().compression_type == "zstd"
    # Within foreachBatch: whether it is, only the task can see.
    asked = {**_SERVERS, "deliveryGuarantee": "exactly-once"}
    assert SinkOptions.read(asked, is_streaming=False).exactly_once
    said = r"deliveryGuarantee=exactly_once: must be .*; did you mean exactly-once\?"
    with pytest.raises(BadOption, match=said):
        SinkOptions.read({**_SERVERS, "deliveryGuarantee": "exactly_once"}, is_streaming=False)
    with pytest.raises(BadOption, match="use transactionalIdPrefix"):
        SinkOptions.read({**_SERVERS, "kafka.transactional.id": "x"}, is_streaming=True)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_options_are_shown_as_they_are_written(name: str) -> None:
    with pytest.raises(BadOption, match=f"^{name} is for batch queries"):
        read_stream(**{name.lower(): "1"})


def test_the_options_of_into_topic_are_checked_before_a_stream_starts() -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092"}
    with pytest.raises(BadOption, match=r"no option topc; did you mean topic\?"):
        into_topic(topc="counts", **servers)
    with pytest.raises(BadOption, match=r"bootstrap\.servers is missing"):
        into_topic(topic="counts")
    assert callable(into_topic(topic="counts", **servers))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "earlyest"}, r"did you mean earliest\?"),
        ({"subscribePattern": "x"}, "set exactly one of subscribe"),
        ({"kafka.fetch.max.bytes": "many"}, "must be a whole number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe"),
    ],
)
def test_wrong_options_of_a_source_are_refused_where_it_is_loaded(
    options: dict[str, str], said: str
) -> None:
    source = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
    check_options({**source, "endingOffsets": "latest"})
    with pytest.raises(ValueError, match=said):
        check_options({**source, **options})


def test_a_setting_of_producers_is_warned_of_by_load_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A query that reads and writes may share its options; six processes said so, each of them."""
    options = {**_BASE, "kafka.linger.ms": "5", "kafka.fetch.min.bytes": "7"}
    check_options(options)
    assert caplog.text.count("linger.ms") == 1
    settings = SourceOptions.read(options, is_streaming=False).consumer_settings()
    assert settings.fetch_min_bytes == 7
    assert caplog.text.count("linger.ms") == 1
