"""Topics as DataFrames, with a real Spark and a real broker."""

import re
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.datasource import ReadAllAvailable

from odradek import spark as odradek_spark
from odradek.client.sync import Admin, Producer
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark import total_lag
from odradek.spark.data_loss import DataMissing
from odradek.spark.failures import cause
from odradek.spark.option_names import BadOption
from odradek.spark.options import SourceOptions
from odradek.spark.source import BatchReader, StreamReader
from odradek.spark.spark_settings import check_spelling
from odradek.testing import Cluster
from tests.spark.conftest import Read
from tests.spark.topics import fill

pytestmark = pytest.mark.xdist_group("spark")


def test_a_topic_is_a_data_frame_with_sparks_own_columns(brokers: Cluster, read: Read) -> None:
    topic = brokers.create_topic(partitions=2)
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        headers = [("trace", b"1"), ("empty", None)]
        producer.send(topic, b"v0", key=b"k0", partition=1, headers=headers, timestamp_ms=1_500)
        producer.send(topic, None, partition=1, timestamp_ms=2_500)
        producer.flush()
    frame = read(topic, includeHeaders="true")
    assert dict(frame.dtypes) == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
    }
    first, second = frame.orderBy("offset").collect()
    assert (first.key, first.value, first.topic, first.partition) == (b"k0", b"v0", topic, 1)
    assert [(one.key, one.value) for one in first.headers] == [("trace", b"1"), ("empty", None)]
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(1.5, UTC)
    assert (second.key, second.value, second.headers, second.offset) == (None, None, None, 1)


def test_ranges_by_offset_by_time_and_by_task(brokers: Cluster, read: Read) -> None:
    topic = brokers.create_topic()
    fill(brokers, topic, [b"%d" % index for index in range(100)])
    by_offset = read(
        topic,
        startingOffsets=f'{{"{topic}": {{"0": 10}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 40}}}}',
        minPartitions="3",
    )
    assert by_offset.rdd.getNumPartitions() == 3
    assert [one.offset for one in by_offset.collect()] == list(range(10, 40))
    by_time = read(topic, startingTimestamp="1090", endingTimestamp="1095")
    assert [one.offset for one in by_time.collect()] == list(range(90, 95))
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy=latest"):
        read(topic, startingTimestamp="9999").count()


def test_filters_keep_records_from_being_fetched(brokers: Cluster, read: Read) -> None:
    topic = brokers.create_topic(partitions=2)
    fill(brokers, topic, [b"%d" % index for index in range(50)], partition=0)
    fill(brokers, topic, [b"%d" % index for index in range(50)], partition=1)
    frame = read(topic, pushFilters="true").filter("partition = 1 and offset >= 45")
    assert frame.rdd.getNumPartitions() == 1
    assert [one.offset for one in frame.collect()] == [45, 46, 47, 48, 49]
    recent = read(topic, pushFilters="true").filter("timestamp >= timestamp_millis(1048)")
    assert recent.count() == 4


def test_lost_records_stop_a_query_unless_it_may_go_on(brokers: Cluster, read: Read) -> None:
    topic = brokers.create_topic()
    fill(brokers, topic, [b"%d" % index for index in range(20)])
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 5})
    options = {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}'}
    with pytest.raises(Exception, match="which begins at 5"):
        read(topic, **options).count()
    assert read(topic, failOnDataLoss="false", **options).count() == 15


def test_a_stream_admits_what_it_is_told_and_shows_its_lag(
    spark: SparkSession, brokers: Cluster, tmp_path: object
) -> None:
    topic = brokers.create_topic(partitions=2)
    fill(brokers, topic, [b"%d" % index for index in range(100)])
    stream = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", brokers.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "40")
        .option("minPartitions", "4")
        .option("commitOffsetsToGroup", "watched")
        .load()
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("admitted")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("admitted").select("partition", "offset").distinct().count() == 100
    rows = [one["numInputRows"] for one in query.recentProgress]
    assert sum(rows) == 100
    assert max(rows) <= 40
    assert total_lag(query.recentProgress[0]) == 100 - rows[0]
    assert total_lag(query.lastProgress) == 0
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        committed = sum(
            0 if isinstance(one, KafkaError) else one.offset
            for one in admin.list_group_offsets("watched").values()
        )
    # Spark tells the source when the next batch begins: the group is one batch behind.
    assert committed == 100 - rows[-1]


@pytest.mark.parametrize(
    ("trigger", "records"), [("availableNow", 3), ("processingTime", 3), ("availableNow", 40)]
)
def test_a_topic_that_was_made_anew_stops_a_stream_whatever_its_trigger(
    spark: SparkSession, brokers: Cluster, tmp_path: Path, trigger: str, records: int
) -> None:
    """Whether it is shorter than what was read or longer."""
    topic = brokers.create_topic()
    fill(brokers, topic, [b"old %d" % index for index in range(20)])
    seen: list[bytes] = []

    def run(**options: str) -> None:
        stream = spark.readStream.format("odradek").options(**options)
        stream = stream.option("kafka.bootstrap.servers", brokers.bootstrap)
        stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
        writer = stream.load().writeStream.option("checkpointLocation", str(tmp_path / "check"))
        writer = writer.foreachBatch(
            lambda rows, _: seen.extend(bytes(row.value) for row in rows.collect())
        )
        if trigger == "availableNow":
            writer.trigger(availableNow=True).start().awaitTermination()
            return
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    run()
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic)
    new = [b"new %d" % index for index in range(records)]
    fill(brokers, topic, new)
    with pytest.raises(Exception, match="deleted and created again"):
        run()
    assert len(seen) == 20
    run(failOnDataLoss="false")
    assert seen[20:] == new


def test_a_stream_without_topic_ids_in_its_checkpoint_notices_a_shorter_topic(
    brokers: Cluster,
) -> None:
    topic = brokers.create_topic()
    fill(brokers, topic, [b"v"])
    given = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic}
    reader = StreamReader(SourceOptions.read(given, is_streaming=True))
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataMissing, match="ends at 1 after 7 was read"):
        reader.latestOffset({topic: {"0": 7}}, ReadAllAvailable())


def test_a_mistake_arrives_as_one_line_and_at_once(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    topic = brokers.create_topic()
    servers = {"kafka.bootstrap.servers": brokers.bootstrap}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        nobody = f"127.0.0.1:{listening.getsockname()[1]}"

    def told(**options: str) -> str:
        reader = spark.read.format("odradek").options(**{**servers, "subscribe": topic, **options})
        begun_s = time.monotonic()
        with pytest.raises(PySparkException) as failed:
            reader.load().count()
        assert time.monotonic() - begun_s < 50, "the client waits for a minute"
        assert "Traceback" not in str(failed.value)
        return cause(failed.value)

    assert told(startngOffsets="earliest") == (
        "there is no option startngOffsets; did you mean startingOffsets?"
    )
    with pytest.raises(PySparkException) as failed:
        spark.read.format("kafka").options(**servers, subscribe=topic).load()
    assert "write format('odradek') instead of format('kafka')" in cause(failed.value)
    assert told(subscribe=f"{topic}s") == f"topic {topic}s does not exist; did you mean {topic}?"
    refused = told(**{"kafka.bootstrap.servers": nobody})
    assert refused.startswith(f"cannot connect to {nobody}: connection refused; start a broker")
    beyond = f'{{"{topic}": {{"0": 100}}}}'
    assert f"offset 100 of {topic} [0], which ends at 0" in told(startingOffsets=beyond)
    assert f"offset 100 of {topic} [0], which ends at 0" in told(endingOffsets=beyond)
    assert told(assign=f'{{"{topic}": [7]}}', subscribe="") == (
        f"assign: {topic} has no partition 7; it has 1"
    )
    rows = spark.createDataFrame([("v",)], "value string").write.format("odradek")
    writer = rows.options(**{"kafka.bootstrap.servers": nobody, "topic": topic}).mode("append")
    begun_s = time.monotonic()
    with pytest.raises(PySparkException) as failed:
        writer.save()
    assert time.monotonic() - begun_s < 50, "the client waits for a minute"
    assert cause(failed.value) == refused
    # An allowed loss is none: the query reads what there is.
    allowed = {**servers, "subscribe": topic, "failOnDataLoss": "false", "endingOffsets": beyond}
    assert spark.read.format("odradek").options(**allowed).load().count() == 0

    stream = spark.readStream.format("odradek").options(**servers, subscribe=topic).load()

    def stopped(stream: DataFrame, mode: str = "append", checkpoint: str = "checkpoint") -> str:
        query = (
            stream.select("value")
            .writeStream.format("odradek")
            .options(**servers, topic=topic, checkpointLocation=str(tmp_path / checkpoint))
            .outputMode(mode)
            .start()
        )
        with pytest.raises(PySparkException) as failed:
            query.awaitTermination(120)
        return cause(failed.value)

    assert "foreachBatch(odradek.spark.into_topic(" in stopped(stream, "update", "updates")
    (tmp_path / "taken").touch()
    with pytest.raises(Py4JError) as taken:
        stopped(stream, checkpoint="taken/below")
    assert cause(taken.value).startswith(
        f"the checkpoint cannot be in {tmp_path}/taken, which is a"
    )
    # Only a stream refuses this one, so `load()` does not.
    ending = {**servers, "subscribe": topic, "endingOffsets": "latest"}
    wrong = spark.readStream.format("odradek").options(**ending).load()
    assert stopped(wrong) == "endingOffsets is for batch queries: a stream has no end"


@pytest.mark.parametrize("side", ["starting", "ending"])
def test_named_offsets_outside_of_the_log_are_noticed_by_batches_and_streams(
    brokers: Cluster, side: str
) -> None:
    """Without Spark: what planning asks is the same for every trigger."""
    topic = brokers.create_topic()
    fill(brokers, topic, [b"v"])
    given = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic}
    given[f"{side}Offsets"] = f'{{"{topic}": {{"0": 7}}}}'
    said = f"{side}Offsets names offset 7 of {re.escape(topic)} \\[0\\], which ends at 1"
    with pytest.raises(DataMissing, match=said):
        BatchReader(SourceOptions.read(given, is_streaming=False)).partitions()
    if side == "starting":
        with pytest.raises(DataMissing, match=said):
            StreamReader(SourceOptions.read(given, is_streaming=True)).initialOffset()
        given["failOnDataLoss"] = "false"
        reader = StreamReader(SourceOptions.read(given, is_streaming=True))
        assert reader.initialOffset()[topic] == {"0": 1}


def test_a_misspelt_setting_of_spark_is_refused(spark: SparkSession) -> None:
    settings = ["spark.sql.shuffle.partitions", "spark.hadoop.fs.x", "spark.mine", "spark.master"]
    check_spelling(spark, settings)
    with pytest.raises(BadOption, match=r"did you mean spark.sql.shuffle.partitions\?"):
        check_spelling(spark, ["spark.sql.shuffle.partitons"])
    with pytest.raises(BadOption, match=r"did you mean spark.driver.memory\?"):
        check_spelling(spark, ["spark.driver.memry"])
    with pytest.raises(BadOption, match=r"did you mean spark.sql.x\?"):
        odradek_spark.session(config={"sql.x": "1"})


def test_pyspark_prints_nothing_before_the_program_knows(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PySparkException, match="nosuch"):
        spark.sql("select nosuch").collect()
    # It would warn that pandas is not installed, and warnings are errors here.
    same = functions.udf("string")(lambda value: value)
    assert spark.range(1).select(same(functions.lit("v")).alias("v")).collect() == [("v",)]
    assert capfd.readouterr() == ("", "")
