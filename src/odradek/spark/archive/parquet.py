"""Parquet files of an archive: their columns, and how Spark writes and reads them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek.spark.archive.entries import DataFile

# The size of a row group. A writer holds one in memory; a reader of some offsets skips the others.
_ROW_GROUP_BYTES: Final = 32 << 20
# Files are divided by these columns besides `topic`. Hours are in UTC, whatever the session's time
# zone is.
_DATE: Final = "cast(date_from_unix_date(int(floor(unix_millis(timestamp) / 86400000))) as string)"
_HOUR: Final = "lpad(cast(pmod(floor(unix_millis(timestamp) / 3600000), 24) as string), 2, '0')"
_COLUMNS: Final = (
    "partition int, offset bigint, timestamp timestamp, timestampType int, key binary,"
    " value binary, headers array<struct<key: string, value: binary>>"
)
SCHEMA: Final = f"{_COLUMNS}, topic string, date string, hour string"
_STAGED_SCHEMA: Final = f"{SCHEMA}, lane int"

WHILE_WRITING: Final = {
    # Timestamps are written as milliseconds, which other readers than Spark understand too.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "static",
}


@contextmanager
def settings(session: SparkSession, changes: Mapping[str, str] = WHILE_WRITING) -> Iterator[None]:
    """Changes settings of the session for the duration of a `with` block."""
    before = {name: session.conf.get(name, None) for name in changes}
    for name, value in changes.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def with_hours(records: DataFrame) -> DataFrame:
    """Adds the columns date and hour, by which files are divided."""
    return records.withColumns({"date": f.expr(_DATE), "hour": f.expr(_HOUR)})


def write(records: DataFrame, directory: str, *, codec: str, lane: Column | None = None) -> None:
    """Writes rows that have date and hour. Rows with different values of `lane` never share a file.

    The default of `lane` is the partition. Sorting makes the rows of a file come in order of their
    offsets, and lets each task write one file at a time.
    """
    names = ["topic", "date", "hour"]
    # The columns are never null, and Spark must know it. Otherwise it would sort by them once more
    # and lose our order.
    columns = {name: f.coalesce(f.col(name), f.lit("")) for name in names}
    laned = records.withColumns({**columns, "lane": f.col("partition") if lane is None else lane})
    places = [*names, "lane"]
    (
        laned.sortWithinPartitions(*places, "offset")
        .write.mode("errorifexists")
        .partitionBy(*places)
        .option("compression", codec)
        .option("parquet.block.size", str(_ROW_GROUP_BYTES))
        # A task that is retried leaves no files of its first attempt.
        .option("mapreduce.fileoutputcommitter.algorithm.version", "1")
        .parquet(directory)
    )


def staged_files(session: SparkSession, directory: str) -> list[tuple[DataFile, str]]:
    """Returns the files that `write` has put below a directory, each with its relative path."""
    rows = (
        session.read.schema(_STAGED_SCHEMA)
        .parquet(directory)
        .groupBy("topic", "date", "hour", "lane", f.col("_metadata.file_name").alias("name"))
        .agg(
            f.min("partition").alias("partition"),
            f.max("partition").alias("last_partition"),
            f.min("offset").alias("first_offset"),
            f.max("offset").alias("last_offset"),
            f.count(f.lit(1)).alias("rows"),
            f.max("_metadata.file_size").alias("size_bytes"),
            f.min(f.unix_millis("timestamp")).alias("first_ms"),
            f.max(f.unix_millis("timestamp")).alias("last_ms"),
        )
        .collect()
    )
    files = []
    for row in rows:
        assert row.partition == row.last_partition, "a file holds one partition"
        file = DataFile(
            topic=row.topic,
            partition=row.partition,
            date=row.date,
            hour=row.hour,
            first_offset=row.first_offset,
            last_offset=row.last_offset,
            rows=row.rows,
            size_bytes=row.size_bytes,
            first_ms=row.first_ms,
            last_ms=row.last_ms,
            name=row.name,
        )
        files.append((file, f"{file.directory}/lane={row.lane}/{row.name}"))
    return sorted(files, key=lambda file: (file[0].topic, file[0].partition, file[0].first_offset))


def read(session: SparkSession, root: str, paths: list[str]) -> DataFrame:
    """Reads some files of an archive, with topic, date and hour taken from their paths."""
    reader = session.read.schema(SCHEMA).option("basePath", root)
    return reader.parquet(*paths)


def lane_by_name(lanes: Mapping[str, int]) -> Column:
    """Returns a column with the lane of the file that a row was read from."""
    pairs = [f.lit(part) for name, lane in sorted(lanes.items()) for part in (name, lane)]
    return f.element_at(f.create_map(*pairs), f.col("_metadata.file_name"))
