"""Files of an archive as tasks write and read them, without Spark and without brokers."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.local_files import SCHEMA, HourFile, Hours, read_batches
from odradek.spark.archive.local_intervals import LocalFile, in_order
from odradek.spark.archive.plans import Interval

_PLACE = TopicPartition("t", 3)
_HOUR_MS = 3_600_000


def _batch(offsets: list[int], times_ms: list[int], value: bytes = b"v") -> pa.RecordBatch:
    count = len(offsets)
    columns = [
        pa.array([_PLACE.partition] * count, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([one * 1000 for one in times_ms], SCHEMA.field("timestamp").type),
        pa.array([0] * count, pa.int32()),
        pa.array([None if one % 2 else b"k" for one in offsets], pa.binary()),
        pa.array([value] * count, pa.binary()),
        pa.array(
            [[("h", None), ("h", b"%d" % one)] if one % 3 else None for one in offsets],
            SCHEMA.field("headers").type,
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _offsets(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4_raw", "uncompressed"])
def test_records_are_filed_by_hour_as_they_are(tmp_path: Path, codec: str) -> None:
    hours = Hours(_PLACE, str(tmp_path / "staging"), codec)
    first = _batch(list(range(6)), [0, _HOUR_MS, 1, _HOUR_MS - 1, 26 * _HOUR_MS, -1])
    second = _batch([6, 8], [5, 2 * _HOUR_MS - 1])
    hours.add(first)
    hours.add(second)
    files = {(one.date, one.hour): one for one in hours.close()}
    expected = {
        ("1970-01-01", "00"): [0, 2, 3, 6],
        ("1970-01-01", "01"): [1, 8],
        ("1970-01-02", "02"): [4],
        ("1969-12-31", "23"): [5],
    }
    assert files.keys() == expected.keys()
    whole = pa.Table.from_batches([first, second])
    for place, offsets in expected.items():
        file = files[place]
        path = tmp_path / "staging" / file.name
        wanted = whole.filter(pa.compute.is_in(whole["offset"], pa.array(offsets)))
        assert pa.Table.from_batches(read_batches(str(path))).equals(wanted)
        assert (file.rows, file.first_offset, file.last_offset) == (
            len(offsets),
            offsets[0],
            offsets[-1],
        )
        assert file.size_bytes == path.stat().st_size
        said = pq.ParquetFile(path).metadata.row_group(0).column(0).compression.lower()
        # Arrow calls the frame that all understand by the name of the one that few do.
        assert said == {"lz4_raw": "lz4"}.get(codec, codec)
    early = files["1970-01-01", "00"]
    assert (early.topic, early.partition) == _PLACE
    assert (early.first_ms, early.last_ms) == (0, _HOUR_MS - 1)


def test_no_more_files_are_open_than_a_task_can_hold(tmp_path: Path) -> None:
    hours = Hours(_PLACE, str(tmp_path), "zstd")
    times_ms = [hour * _HOUR_MS for hour in range(70)]
    hours.add(_batch(list(range(70)), times_ms))
    # The first hour's file was closed for others: what comes now goes into a second one.
    hours.add(_batch([70], [1]))
    files = hours.close()
    assert len(files) == 71
    assert sorted(one.first_offset for one in files) == list(range(71))
    first, second = [one for one in files if one.hour == "00" and one.date == "1970-01-01"]
    assert (first.last_offset, second.first_offset) == (0, 70)


def test_a_file_has_a_row_group_for_each_32_megabytes(tmp_path: Path) -> None:
    hours = Hours(_PLACE, str(tmp_path), "zstd")
    for first in range(0, 90, 10):
        hours.add(_batch(list(range(first, first + 10)), [0] * 10, bytes(1 << 20)))
    (file,) = hours.close()
    assert pq.ParquetFile(tmp_path / file.name).num_row_groups == 3


@pytest.mark.parametrize("offsets", [[2, 1], [1, 1], [0]])
def test_records_out_of_order_are_refused(tmp_path: Path, offsets: list[int]) -> None:
    file = HourFile(_PLACE, ("1970-01-01", "00"), str(tmp_path), "zstd")
    file.add(_batch([0], [0]))
    with pytest.raises(ValueError, match="out of order, or twice"):
        file.add(_batch(offsets, [0] * len(offsets)))


def _written(where: Path, offsets: list[int], rows_at_once: int = 7) -> LocalFile:
    file = HourFile(_PLACE, ("1970-01-01", "00"), str(where), "zstd")
    for first in range(0, len(offsets), rows_at_once):
        some = offsets[first : first + rows_at_once]
        file.add(_batch(some, [0] * len(some)))
        file.flush()
    made = file.close()
    return LocalFile(made.first_offset, str(where / made.name))


def test_an_interval_is_read_by_offset_however_its_hours_interleave(tmp_path: Path) -> None:
    files = [
        _written(tmp_path, [*range(50), *range(60, 80)]),
        _written(tmp_path, list(range(80, 200, 2))),
        _written(tmp_path, list(range(81, 200, 2)), rows_at_once=3),
        _written(tmp_path, list(range(50, 60))),
        _written(tmp_path, [1000]),
    ]
    whole = [*range(200), 1000]
    assert _offsets(in_order(files, Interval(3, 0, 1001))) == whole
    for start, end in [(0, 1), (45, 85), (49, 50), (79, 82), (150, 151), (300, 900), (199, 1001)]:
        wanted = [offset for offset in whole if start <= offset < end]
        assert _offsets(in_order(files, Interval(3, start, end))) == wanted
    assert all(batch.num_rows for batch in in_order(files, Interval(3, 0, 1001)))


def test_a_file_of_another_partition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds records of other partitions than 4"):
        list(in_order([_written(tmp_path, [1, 2])], Interval(4, 0, 10)))
