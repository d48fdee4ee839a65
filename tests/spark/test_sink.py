"""DataFrames into topics: at least once in a batch, exactly once in a stream."""

import json
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree

import pytest
from pyspark.sql import DataFrame, SparkSession

from odradek.client.sync import Admin
from odradek.spark import into_topic
from odradek.spark.spark_session import CHECKPOINT_MANAGER_SETTING, LOCAL_CHECKPOINT_MANAGER
from odradek.testing import Cluster
from tests.spark.conftest import Read
from tests.spark.failing_sink import FailingDataSource
from tests.spark.topics import fill, values_in

_LOSS = "failOnDataLoss"

pytestmark = pytest.mark.xdist_group("spark")


def test_a_batch_writes_all_columns(spark: SparkSession, brokers: Cluster, read: Read) -> None:
    one, other = brokers.create_topic(partitions=3), brokers.create_topic(partitions=3)
    frame = spark.sql(
        f"select 'k' key, 'v1' value, '{one}' topic, 2 partition,"
        " timestamp_millis(1234) timestamp,"
        " array(named_struct('key', 'h', 'value', cast('x' as binary))) headers"
        f" union all select null, 'v2', '{other}', 0, null, null"
    )
    frame.write.format("odradek").option("kafka.bootstrap.servers", brokers.bootstrap).mode(
        "append"
    ).save()
    (first,) = read(one, includeHeaders="true").collect()
    assert (first.key, first.value, first.partition) == (b"k", b"v1", 2)
    assert first.timestamp.timestamp() == 1.234
    assert [(header.key, header.value) for header in first.headers] == [("h", b"x")]
    (second,) = read(other, includeHeaders="true").collect()
    assert (second.key, second.value, second.partition, second.headers) == (None, b"v2", 0, None)


def test_mistakes_are_told_before_anything_is_written(
    spark: SparkSession, brokers: Cluster
) -> None:
    writer = spark.sql("select 1 value").write.format("odradek")
    writer = writer.option("kafka.bootstrap.servers", brokers.bootstrap).mode("append")
    with pytest.raises(Exception, match="must be string or binary"):
        writer.option("topic", "t").save()


def copying(
    spark: SparkSession,
    brokers: Cluster,
    source: str,
    sink: str,
    checkpoint: Path,
    *,
    reads: Mapping[str, str] | None = None,
    max_tasks: int = 3,
    **options: str,
) -> None:
    """One run of a query that copies a topic, in batches of 100 offsets and three tasks."""
    stream: DataFrame = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", brokers.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100")
        .option("minPartitions", "3")
        .options(**reads or {})
        .load()
    )
    query = (
        stream.coalesce(max_tasks)
        .select("key", "value")
        .writeStream.format(options.pop("format", "odradek"))
        .options(**options)
        .option("kafka.bootstrap.servers", brokers.bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_that_is_killed_at_its_worst_moments_writes_each_row_once(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    """Tasks end before and after their commit, and are tried again."""
    spark.dataSource.register(FailingDataSource)
    source, sink = brokers.create_topic(partitions=2), brokers.create_topic(partitions=2)
    wanted = [b"%04d" % index for index in range(300)]
    fill(brokers, source, wanted)
    copying(
        spark,
        brokers,
        source,
        sink,
        tmp_path / "checkpoint",
        format="odradek-failing",
        failpoints=str(tmp_path / "hit"),
    )
    assert sorted(values_in(brokers, sink, 2)) == wanted
    hit = {path.name.split("-")[0] for path in (tmp_path / "hit").iterdir()}
    assert hit == {"initialised", "written", "committed"}


def test_a_batch_that_is_replayed_is_not_written_again(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    """A driver that dies after all tasks, before its commit log, runs the batch again."""
    source, sink = brokers.create_topic(partitions=2), brokers.create_topic(partitions=2)
    wanted = [b"%04d" % index for index in range(80)]
    fill(brokers, source, wanted)
    copying(spark, brokers, source, sink, tmp_path / "checkpoint")
    _forget_last_commit(tmp_path / "checkpoint")
    copying(spark, brokers, source, sink, tmp_path / "checkpoint")
    assert sorted(values_in(brokers, sink, 2)) == wanted


def test_a_half_written_batch_that_is_split_in_another_way_is_refused_as_a_whole(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    fill(brokers, source, [b"%04d" % index for index in range(90)])
    checkpoint = tmp_path / "checkpoint"
    copying(spark, brokers, source, sink, checkpoint)
    _forget_last_commit(checkpoint)
    query = json.loads((checkpoint / "metadata").read_text())["id"]
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        # As if the first task had not been written.
        admin.delete_groups([f"odradek-sink-{query}-{sink}-0"])
    with pytest.raises(Exception, match="split into tasks in another way"):
        copying(spark, brokers, source, sink, checkpoint, max_tasks=1)
    assert len(values_in(brokers, sink, 1)) == 90
    copying(spark, brokers, source, sink, checkpoint)
    assert len(values_in(brokers, sink, 1)) == 120


def _forget_last_commit(checkpoint: Path) -> None:
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_replay_that_differs_is_refused_not_skipped(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    fill(brokers, source, [b"%04d" % index for index in range(50)])
    copying(spark, brokers, source, sink, tmp_path / "checkpoint")
    _forget_last_commit(tmp_path / "checkpoint")
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_topic(source)
        admin.create_topic(source)
    fill(brokers, source, [b"other %04d" % index for index in range(50)])
    with pytest.raises(Exception, match="was deleted and created again"):
        copying(spark, brokers, source, sink, tmp_path / "checkpoint")
    with pytest.raises(Exception, match="its replay has"):
        copying(spark, brokers, source, sink, tmp_path / "checkpoint", reads={_LOSS: "false"})
    assert len(values_in(brokers, sink, 1)) == 50


def test_a_checkpoint_from_a_backup_stops_the_query_and_skips_nothing(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    fill(brokers, source, [b"0"])
    copying(spark, brokers, source, sink, checkpoint)
    copytree(checkpoint, backup)
    for value in (b"1", b"2"):
        fill(brokers, source, [value])
        copying(spark, brokers, source, sink, checkpoint)
    fill(brokers, source, [b"3"])
    with pytest.raises(Exception, match="the checkpoint is older than the topic"):
        copying(spark, brokers, source, sink, backup)
    assert values_in(brokers, sink, 1) == [b"0", b"1", b"2"]
    # Into another topic it may go on: nothing of it is there.
    other = brokers.create_topic()
    copying(spark, brokers, source, other, backup)
    assert sorted(values_in(brokers, other, 1)) == [b"1", b"2", b"3"]


def test_one_batch_goes_into_two_topics_but_into_none_twice(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    source, one, other = (brokers.create_topic() for _ in range(3))
    fill(brokers, source, [b"v"])
    servers = {"kafka.bootstrap.servers": brokers.bootstrap}

    def run(checkpoint: str, *topics: str) -> None:
        writes = [into_topic(topic=topic, **servers) for topic in topics]

        def write(rows: DataFrame, batch_id: int) -> None:
            for each in writes:
                each(rows, batch_id)

        stream = spark.readStream.format("odradek").options(**servers, subscribe=source)
        query = (
            stream.option("startingOffsets", "earliest")
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run("both", one, other)
    assert (values_in(brokers, one, 1), values_in(brokers, other, 1)) == ([b"v"], [b"v"])
    with pytest.raises(Exception, match="another write of the same foreachBatch"):
        run("twice", one, one)


def test_adaptive_execution_of_streams_is_refused(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    fill(brokers, source, [b"v"])
    spark.conf.set("spark.sql.adaptive.streaming.stateless.enabled", "true")
    try:
        with pytest.raises(Exception, match="adaptive execution may split"):
            copying(spark, brokers, source, sink, tmp_path / "refused")
        allowed = tmp_path / "allowed"
        copying(spark, brokers, source, sink, allowed, deliveryGuarantee="at-least-once")
    finally:
        spark.conf.set("spark.sql.adaptive.streaming.stateless.enabled", "false")
    assert values_in(brokers, sink, 1) == [b"v"]


def test_a_local_session_writes_checkpoints_by_renaming_alone(
    spark: SparkSession,
) -> None:
    """Spark's own choice starts about seventeen processes for each micro-batch."""
    assert spark.conf.get(CHECKPOINT_MANAGER_SETTING) == LOCAL_CHECKPOINT_MANAGER
