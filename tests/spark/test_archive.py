"""Topics to Parquet and back, with a real Spark and real brokers."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.sync import Admin, Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.spark.archive import (
    Archive,
    ArchiveBroken,
    ArchiveWriter,
    DataLoss,
    Reading,
    RestoreFailed,
    Restoring,
    TakenOver,
    local_files,
    restore,
)
from odradek.spark.archive.entries import DataFile
from odradek.spark.archive.log import Log
from odradek.testing import Cluster

pytestmark = pytest.mark.xdist_group("spark")

_HOUR_MS = 3_600_000


class Killed(Exception):
    """The run ends here, as if its process did."""


def _fill(brokers: Cluster, topic: str, count: int, first_ms: int = 10 * _HOUR_MS) -> None:
    """Keys, values and headers of every kind, of nulls too; times go back and forth by hours."""
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for index in range(count):
            producer.send(
                topic,
                None if index % 7 == 0 else b"value %d" % index,
                key=None if index % 5 == 0 else b"key %d" % index,
                partition=index % 2,
                headers=[("n", b"%d" % index), ("none", None)] if index % 3 == 0 else [],
                timestamp_ms=first_ms + index + (index // 3 % 4) * _HOUR_MS,
            )
        producer.flush()


def _records(brokers: Cluster, topic: str, partitions: int = 2) -> list[list[tuple[object, ...]]]:
    """What a read_committed consumer sees of each partition, in order."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    found: list[list[tuple[object, ...]]] = [[] for _ in places]
    with Consumer(
        bootstrap_servers=brokers.bootstrap, isolation_level="read_committed"
    ) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for place, records in consumer.poll(1000).items():
                found[place.partition] += [_content(one) for one in records]
    return found


def _content(one: ConsumerRecord) -> tuple[object, ...]:
    return one.key, one.value, list(one.headers), one.timestamp_ms


def _source(brokers: Cluster, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": topic}


def _archived(
    spark: SparkSession, brokers: Cluster, where: Path, count: int
) -> tuple[str, Archive]:
    """Returns a topic of two partitions with so many records, and an archive that has them."""
    topic = brokers.create_topic(partitions=2)
    _fill(brokers, topic, count)
    archive = Archive(spark, str(where))
    with archive.writer() as writer:
        writer.append(Reading(_source(brokers, topic)))
    return topic, archive


def _data_files(where: Path) -> list[Path]:
    return sorted(where.glob("topic=*/*/*/*.parquet"))


def test_a_topic_goes_to_parquet_and_back_as_it_was(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    topic = brokers.create_topic(partitions=2)
    _fill(brokers, topic, 400)
    archive = Archive(spark, str(tmp_path))
    with archive.writer() as writer:
        # In three entries, so that each hour has several files.
        reading = Reading(_source(brokers, topic), chunk_records=150)
        assert writer.append(reading).records == 400
        assert writer.append(reading).records == 0
        files = _data_files(tmp_path)
        assert {one.parent.name for one in files} == {f"hour={hour}" for hour in range(10, 14)}
        assert files[0].name.startswith(f"records-{topic}-")
        assert writer.merge_small_files() > 0
    assert len(_data_files(tmp_path)) == 8 < len(files)
    for path in _data_files(tmp_path):
        offsets = pq.ParquetFile(path).read(["offset"]).column(0).to_pylist()
        assert offsets == sorted(offsets)
    assert archive.check().offsets == {
        TopicPartition(topic, 0): 200,
        TopicPartition(topic, 1): 200,
    }
    # Whoever reads the directory without the log sees the same.
    assert spark.read.parquet(str(tmp_path)).count() == archive.read(topic).count() == 400
    assert not list((tmp_path / "_odradek/staging").iterdir())

    wanted = Restoring(topic, _source(brokers, topic), f"{topic}-again", transaction_records=60)
    restored = restore(archive, wanted)
    assert (restored.records, restored.was_begun) == (400, False)
    assert _records(brokers, f"{topic}-again") == _records(brokers, topic)
    # The same restore is done; what is archived since is added.
    assert restore(archive, wanted)[:2] == (0, True)
    _fill(brokers, topic, 20)
    with archive.writer() as writer:
        writer.append(Reading(_source(brokers, topic)))
    assert restore(archive, wanted).records == 20
    assert _records(brokers, f"{topic}-again") == _records(brokers, topic)


def test_a_run_that_ended_anywhere_is_finished_by_the_next(
    spark: SparkSession, brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = brokers.create_topic(partitions=2)
    _fill(brokers, topic, 40)
    archive = Archive(spark, str(tmp_path))
    reading = Reading(_source(brokers, topic), chunk_records=20)

    def die(*_: object, **__: object) -> None:
        raise Killed

    # Files are staged, the entry is not made: nobody sees them, and the next run writes them.
    first = ArchiveWriter(archive, Log(archive.directory))
    with monkeypatch.context() as patch:
        patch.setattr(Log, "append", die)
        with pytest.raises(Killed):
            first.append(reading)
    assert list(tmp_path.rglob("staging/**/*.parquet"))
    assert not _data_files(tmp_path)
    # The entry is made, its files are not in place: the next run puts them there.
    with archive.writer() as second:
        assert not list(tmp_path.rglob("staging/**/*.parquet"))
        with monkeypatch.context() as patch:
            patch.setattr("odradek.spark.archive.log.finish", die)
            with pytest.raises(Killed):
                second.append(reading)
    assert not _data_files(tmp_path)
    with archive.writer() as third:
        assert third.append(reading).records == 20
    assert archive.check().offsets[TopicPartition(topic, 0)] == 20
    assert spark.read.parquet(str(tmp_path)).count() == 40
    # The same with a merge: no record is there twice, nor missing, after whoever comes next.
    with archive.writer() as fourth, monkeypatch.context() as patch:
        patch.setattr("odradek.spark.archive.log.finish", die)
        with pytest.raises(Killed):
            fourth.merge_small_files()
    archive.check()
    assert spark.read.parquet(str(tmp_path)).count() == 40


def test_files_that_are_on_another_machine_are_not_archived(
    spark: SparkSession, brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = brokers.create_topic(partitions=2)
    _fill(brokers, topic, 20)
    reading = Reading(_source(brokers, topic))
    append, elsewhere = local_files.append, str(tmp_path / "elsewhere")

    def on_another(*given: Any) -> list[DataFile]:
        session, options, ranges, _, codec = given
        return append(session, options, ranges, elsewhere, codec)

    with Archive(spark, str(tmp_path / "archive")).writer() as writer:
        with monkeypatch.context() as patch:
            patch.setattr(local_files, "append", on_another)
            with pytest.raises(ArchiveBroken, match="all hosts of the Spark cluster share"):
                writer.append(reading)
        assert writer.append(reading).records == 20


def test_a_run_that_was_taken_over_ends(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    topic = brokers.create_topic()
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        producer.send(topic, b"1").result()
    archive = Archive(spark, str(tmp_path))
    reading = Reading(_source(brokers, topic))
    with archive.writer() as first, archive.writer() as second:
        with pytest.raises(TakenOver, match="another run"):
            first.append(reading)
        assert second.append(reading).records == 1
    assert archive.check().files


def test_what_is_lost_is_an_error_or_a_gap_on_record(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    topic, archive = _archived(spark, brokers, tmp_path, 20)
    reading = Reading(_source(brokers, topic))
    _fill(brokers, topic, 20)
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    with archive.writer() as writer:
        with pytest.raises(DataLoss, match=r"offsets 10 to 14 .*--allow-data-loss"):
            writer.append(reading)
        allowed = Reading(_source(brokers, topic), allow_data_loss=True)
        assert writer.append(allowed).records == 15
        (gap,) = writer.state.gaps
    assert (gap.partition, gap.first_offset, gap.end_offset) == (0, 10, 15)


def test_a_topic_that_was_made_anew_is_not_archived_over_the_old(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    """Even if it is longer by now than what is archived."""
    topic, archive = _archived(spark, brokers, tmp_path, 10)
    with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=2)
    _fill(brokers, topic, 30)
    with archive.writer() as writer:
        for allow in (False, True):
            with pytest.raises(DataLoss, match="another topic with the same name"):
                writer.append(Reading(_source(brokers, topic), allow_data_loss=allow))
    assert archive.read(topic).count() == 10


def test_the_name_of_a_restore_is_not_taken_for_another_restore(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    first, second = brokers.create_topic(partitions=2), brokers.create_topic(partitions=2)
    target = brokers.create_topic(partitions=2)
    _fill(brokers, first, 10)
    _fill(brokers, second, 6)
    archive = Archive(spark, str(tmp_path))
    with archive.writer() as writer:
        writer.append(Reading(_source(brokers, f"{first},{second}")))
    sink = {"kafka.bootstrap.servers": brokers.bootstrap}
    named = Restoring(first, sink, to_topic=target, name="once")
    assert restore(archive, named).records == 10
    assert restore(archive, named).records == 0
    with pytest.raises(RestoreFailed, match=f"was used to restore topic {first} of archive"):
        restore(archive, Restoring(second, sink, to_topic=target, name="once"))
    with pytest.raises(RestoreFailed, match="use another --restore-id"):
        restore(archive, Restoring(first, sink, to_topic=target, name="once", since_ms=1))
    assert sum(map(len, _records(brokers, target))) == 10


def test_a_restore_that_was_killed_goes_on(
    spark: SparkSession, brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, archive = _archived(spark, brokers, tmp_path, 100)
    copy = brokers.create_topic(partitions=2)
    wanted = Restoring(topic, _source(brokers, topic), copy, transaction_records=20)

    def stop(done: int, _: int) -> None:
        if done >= 60:
            raise Killed

    with pytest.raises(Killed):
        restore(archive, wanted, stop)
    before = sum(map(len, _records(brokers, copy)))
    assert 0 < before < 100
    resumed = restore(archive, wanted)
    assert (resumed.records, resumed.was_begun) == (100 - before, True)
    assert _records(brokers, copy) == _records(brokers, topic)


def test_a_restore_says_what_it_cannot_do(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    topic, archive = _archived(spark, brokers, tmp_path, 10)
    narrow = brokers.create_topic(partitions=1)
    with pytest.raises(RestoreFailed, match="has 1 partition, but the archive has 2"):
        restore(archive, Restoring(topic, _source(brokers, topic), narrow))
    with pytest.raises(
        RestoreFailed, match=f"topic other is not archived there; there are {topic}"
    ):
        restore(archive, Restoring("other", _source(brokers, topic)))
    part = Restoring(
        topic,
        _source(brokers, topic),
        f"{topic}-part",
        since_ms=10 * _HOUR_MS,
        until_ms=11 * _HOUR_MS,
    )
    assert 0 < restore(archive, part).records < 10
    assert all(
        10 * _HOUR_MS <= one[3] < 11 * _HOUR_MS  # type: ignore[operator]
        for records in _records(brokers, f"{topic}-part")
        for one in records
    )


def test_any_filesystem_that_spark_knows_will_do(
    spark: SparkSession, brokers: Cluster, tmp_path: Path
) -> None:
    # Hadoop's own indirection: another scheme, another class, no hard links.
    link = "fs.viewfs.mounttable.tests.link./data"
    spark.sparkContext._jsc.hadoopConfiguration().set(link, tmp_path.as_uri())
    topic = brokers.create_topic(partitions=2)
    _fill(brokers, topic, 30)
    archive = Archive(spark, "viewfs://tests/data/archive")
    with archive.writer() as older, archive.writer() as writer:
        with pytest.raises(TakenOver):
            older.append(Reading(_source(brokers, topic)))
        assert writer.append(Reading(_source(brokers, topic), chunk_records=20)).records == 30
        assert writer.merge_small_files() > 0
    archive.check()
    assert restore(archive, Restoring(topic, _source(brokers, topic), f"{topic}-v")).records == 30
    assert _records(brokers, f"{topic}-v") == _records(brokers, topic)
    # The same directory by its local path: tasks read and merge what Spark has written.
    local = Archive(spark, str(tmp_path / "archive"))
    _fill(brokers, topic, 16)
    with local.writer() as writer:
        assert writer.append(Reading(_source(brokers, topic))).records == 16
        assert writer.merge_small_files() > 0
    local.check()
    assert restore(local, Restoring(topic, _source(brokers, topic), f"{topic}-l")).records == 46
    assert _records(brokers, f"{topic}-l") == _records(brokers, topic)
