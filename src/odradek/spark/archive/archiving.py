"""Archives topics as Parquet files: appends new records, merges small files, checks the archive.

    archive = Archive(session, "s3a://bucket/kafka")
    with archive.writer() as writer:
        writer.append(options, on_progress=print)
        writer.merge_small_files()

docs/archive.md explains why each record is in exactly one file, whichever process is killed at
whichever moment. In short: the log entry that names new files also holds the next offsets, and it
is one file that is created by one atomic call. Before it none of its files is visible. After it all
of them are, at the latest when the next run begins.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek.protocol.types import TopicPartition
from odradek.spark.archive import local_files, parquet
from odradek.spark.archive.entries import DataFile, State
from odradek.spark.archive.filesystem import Directory
from odradek.spark.archive.log import Log, load_to_read
from odradek.spark.archive.plans import (
    Chunk,
    Merge,
    batches_of,
    merges,
    next_chunk,
    refuse_other_topics,
)
from odradek.spark.brokers import Brokers
from odradek.spark.offsets import to_json
from odradek.spark.options import EARLIEST, OffsetSpec, SourceOptions
from odradek.wording import counted

DEFAULT_CHUNK_RECORDS: Final = 2_000_000
DEFAULT_FILE_BYTES: Final = 128 << 20
_MERGED_AT_ONCE_BYTES: Final = 1 << 30
# How many merges one Spark job does at most: each writes to a directory of its own.
_MERGES_AT_ONCE: Final = 200

OnProgress = Callable[[int, int], None]


class ArchiveBroken(Exception):
    """A check has found that the files do not hold what the log says."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What to archive, as options of the data source (`subscribe`, `kafka.*`), and how."""

    source: Mapping[str, str]
    chunk_records: int = DEFAULT_CHUNK_RECORDS
    allow_data_loss: bool = False
    codec: str = "zstd"

    def options(self) -> SourceOptions:
        """Options that read only committed records: a record of an open transaction may yet be
        aborted."""
        defaults = {"kafka.isolation.level": "read_committed", "includeHeaders": "true"}
        return SourceOptions.read(defaults | dict(self.source), is_streaming=False)


class Appended(NamedTuple):
    records: int
    files: int


class Archive:
    """A directory that holds an archive, or in which one will be created."""

    def __init__(self, session: SparkSession, directory: str) -> None:
        self.session = session
        self.directory = Directory(session, directory)

    def state(self) -> State:
        return load_to_read(self.directory)

    @contextmanager
    def writer(self) -> "Iterator[ArchiveWriter]":
        """Returns a writer, the only one that may change the archive from now on. An older writer
        fails at its next entry."""
        log = Log(self.directory)
        try:
            yield ArchiveWriter(self, log)
        finally:
            log.close()

    def read(self, topic: str | None = None) -> DataFrame:
        """Returns the records as a DataFrame. Only files that the log names are read."""
        state = self.state()
        return self.read_files(
            [file for file in state.files.values() if topic is None or file.topic == topic]
        )

    def read_files(self, files: list[DataFile]) -> DataFrame:
        if not files:
            return self.session.createDataFrame([], parquet.SCHEMA)
        paths = [self.directory.full_path(file.path) for file in files]
        return parquet.read(self.session, self.directory.root, paths)

    def check(self) -> State:
        """Reads every file and raises `ArchiveBroken` unless each record is there exactly once."""
        state = self.state()
        if not state.files:
            return state
        contents = {
            (row.name, row.partition): (row.rows, row.first, row.last)
            for row in self.read_files(list(state.files.values()))
            .groupBy(f.col("_metadata.file_name").alias("name"), "partition")
            .agg(
                f.count(f.lit(1)).alias("rows"),
                f.min("offset").alias("first"),
                f.max("offset").alias("last"),
            )
            .collect()
        }
        for file in state.files.values():
            entry = (file.rows, file.first_offset, file.last_offset)
            if contents.get((file.name, file.partition)) != entry:
                raise ArchiveBroken(
                    f"{file.path} should hold {counted(entry[0], 'record')}, offsets {entry[1]} to"
                    f" {entry[2]}, but holds {contents.get((file.name, file.partition), 'none')}"
                )
        twice = (
            self.read_files(list(state.files.values()))
            .groupBy("topic", "partition", "offset")
            .count()
            .filter("count > 1")
            .take(1)
        )
        if twice:
            first = twice[0]
            raise ArchiveBroken(
                f"offset {first.offset} of {first.topic} [{first.partition}] is archived twice"
            )
        return state


class ArchiveWriter:
    def __init__(self, archive: Archive, log: Log) -> None:
        self._archive = archive
        self._session = archive.session
        self._log = log
        self._directory = archive.directory

    @property
    def state(self) -> State:
        return self._log.state

    def append(self, reading: Reading, on_progress: OnProgress = lambda *_: None) -> Appended:
        """Archives the records that are in the topics now and were not archived before.

        `on_progress` is called with the number of offsets done and the total.
        """
        options = reading.options()
        brokers = Brokers(options)
        partitions, ids = brokers.subscription()
        refuse_other_topics(self.state.topic_ids, ids)
        ends = brokers.latest(partitions)
        records = files = done = 0
        total: int | None = None
        while True:
            earliest = brokers.resolve(OffsetSpec(EARLIEST), partitions, is_start=True)
            if total is None:
                begins = {
                    partition: self.state.offsets.get(partition, earliest[partition])
                    for partition in partitions
                }
                total = sum(max(0, ends[partition] - begins[partition]) for partition in partitions)
            on_progress(done, total)
            chunk = next_chunk(
                self.state.offsets,
                earliest,
                ends,
                reading.chunk_records,
                allow_data_loss=reading.allow_data_loss,
                topic_ids=ids,
            )
            if not chunk.offsets:
                return Appended(records, files)
            added = self._read_chunk(reading, chunk)
            # The records must belong to the topics whose ids the entry will name.
            refuse_other_topics(ids, brokers.subscription().ids)
            entry = self._log.append(added, chunk.offsets, chunk.gaps, ids)
            records += sum(file.rows for file, _ in entry.added)
            files += len(entry.added)
            done += chunk.size

    def _read_chunk(self, reading: Reading, chunk: Chunk) -> list[tuple[DataFile, str]]:
        """Reads a chunk into staged files. Nothing becomes visible yet."""
        staging = self._log.staging()
        local = self._directory.local_path(staging)
        if local is None:
            return self._append_by_spark(reading, chunk, staging) if chunk.ranges else []
        files = local_files.append(
            self._session, reading.options(), chunk.ranges, local, reading.codec
        )
        return self._staged_paths(files, staging)

    def _staged_paths(self, files: list[DataFile], staging: str) -> list[tuple[DataFile, str]]:
        """Returns the staged paths of the files that tasks have written. Raises if the driver does
        not see one of them, because an entry must only name files that exist."""
        self._directory.sync_directories([staging])
        sizes_bytes = {entry.name: entry.size_bytes for entry in self._directory.list(staging)}
        for file in files:
            if sizes_bytes.get(file.name) != file.size_bytes:
                raise ArchiveBroken(
                    f"a task has written {staging}/{file.name}, but it is not in"
                    f" {self._directory.root}: the directory must be one that all hosts of the"
                    " Spark cluster share; nothing was archived"
                )
        return [(file, f"{staging}/{file.name}") for file in files]

    def _append_by_spark(
        self, reading: Reading, chunk: Chunk, staging: str
    ) -> list[tuple[DataFile, str]]:
        staging_path = self._directory.full_path(staging)
        with parquet.settings(self._session):
            records = parquet.with_hours(self._records(reading, chunk))
            parquet.write(records, staging_path, codec=reading.codec)
        # A range may hold nothing but transaction markers: then there is no file.
        if not any(entry.is_directory for entry in self._directory.list(staging)):
            return []
        files = parquet.staged_files(self._session, staging_path)
        return [(file, f"{staging}/{path}") for file, path in files]

    def _records(self, reading: Reading, chunk: Chunk) -> DataFrame:
        source = {
            name: value
            for name, value in reading.source.items()
            if name.lower() not in {"subscribe", "subscribepattern", "assign"}
        }
        starts = {offset_range.topic_partition: offset_range.start for offset_range in chunk.ranges}
        ends = {offset_range.topic_partition: offset_range.end for offset_range in chunk.ranges}
        cores = self._session.sparkContext.defaultParallelism
        options = {
            "kafka.isolation.level": "read_committed",
            **source,
            "assign": json.dumps(_partitions(list(starts))),
            "startingOffsets": json.dumps(to_json(starts)),
            "endingOffsets": json.dumps(to_json(ends)),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "minPartitions": str(cores),
        }
        return self._session.read.format("odradek").options(**options).load()

    # Small files

    def merge_small_files(
        self,
        target_bytes: int = DEFAULT_FILE_BYTES,
        *,
        codec: str = "zstd",
        on_progress: OnProgress = lambda *_: None,
    ) -> int:
        """Merges small neighbouring files. Returns by how much the number of files has fallen."""
        plan = merges(self.state.files.values(), target_bytes)
        before, done = len(self.state.files), 0
        total = sum(merge.rows for merge in plan)
        for group in batches_of(plan, _MERGED_AT_ONCE_BYTES):
            for at in range(0, len(group), _MERGES_AT_ONCE):
                batch = group[at : at + _MERGES_AT_ONCE]
                on_progress(done, total)
                self._merge(batch, codec)
                done += sum(merge.rows for merge in batch)
        return before - len(self.state.files)

    def _merge(self, merges: list[Merge], codec: str) -> None:
        staging = self._log.staging()
        local = self._directory.local_path(staging)
        if local is None:
            added = self._merge_by_spark(merges, codec, staging)
        else:
            root = self._directory.local_path("") or "/"
            merged_files = local_files.merge(self._session, root, merges, local, codec)
            added = self._staged_paths(merged_files, staging)
        files = [file for merge in merges for file in merge.files]
        _compare(files, [file for file, _ in added])
        self._log.compact(added, [file.path for file in files])

    def _merge_by_spark(
        self, merges: list[Merge], codec: str, staging: str
    ) -> list[tuple[DataFile, str]]:
        staging_path = self._directory.full_path(staging)
        files = [file for merge in merges for file in merge.files]
        lanes = {file.name: lane for lane, merge in enumerate(merges) for file in merge.files}
        with parquet.settings(self._session):
            records = self._archive.read_files(files)
            laned = records.withColumn("lane", parquet.lane_by_name(lanes))
            together = laned.repartition(min(len(merges), _MERGES_AT_ONCE), "lane")
            parquet.write(together, staging_path, codec=codec, lane=f.col("lane"))
        staged_files = parquet.staged_files(self._session, staging_path)
        return [(file, f"{staging}/{path}") for file, path in staged_files]


def _compare(before: list[DataFile], after: list[DataFile]) -> None:
    """Raises unless the merged files hold as many records as the files they replace."""
    counts: dict[tuple[str, int], int] = {}
    for files, sign in ((before, 1), (after, -1)):
        for file in files:
            key = (file.directory, file.partition)
            counts[key] = counts.get(key, 0) + sign * file.rows
    if any(counts.values()):
        raise ArchiveBroken(
            "merged files do not hold as many records as the files they were made of:"
            " nothing was replaced; odradek archive --check says more"
        )


def _partitions(partitions: list[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic
