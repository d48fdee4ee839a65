"""The object sink: formats, names, rotation, and that no record is in two objects."""

import csv
import gzip
import io
import json
import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from odradek.connect import plugins
from odradek.connect.connectors.object_sink.task import ObjectSinkTask
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError, Unavailable
from odradek.connect.records import SinkRecord
from tests.needs import need
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, moto, running_s3

SCHEMA = schemas.struct(
    Field("id", schemas.INT64),
    Field("name", schemas.OPTIONAL_STRING),
    Field("price", schemas.decimal(2, is_optional=True)),
    Field("day", schemas.date(is_optional=True)),
    Field("at", schemas.timestamp(is_optional=True)),
    Field("tags", schemas.array(schemas.STRING, is_optional=True)),
    Field("more", schemas.map_of(schemas.STRING, schemas.INT32, is_optional=True)),
    name="Order",
)
MOMENT = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
FULL = {
    "id": 1,
    "name": 'ä,"b"',
    "price": Decimal("12.30"),
    "day": date(2026, 1, 31),
    "at": MOMENT,
    "tags": ["x", "y"],
    "more": {"k": 5},
}


def record(
    offset: int, value: Any = None, schema: Schema | None = SCHEMA, partition: int = 0
) -> SinkRecord:
    return SinkRecord(
        "t",
        f"k{offset % 3}",
        {"id": offset} if value is None else value,
        schemas.STRING,
        schema,
        partition=partition,
        timestamp_ms=1_769_902_200_000 + offset * 1_200_000,
        raw_headers=(("h", b"1"),),
        offset=offset,
        original_topic="t",
        original_partition=partition,
    )


def task(root: Path, **settings: str) -> ObjectSinkTask:
    given = {"store.url": f"file:{root}", "flush.size": "1", **dotted(settings)}
    plugin = plugins.find_connector("ObjectSink")
    made: ObjectSinkTask = plugin.load()(plugin.settings_class.read(given)).task()
    return made


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def written(root: Path, records: Sequence[SinkRecord], **settings: str) -> dict[str, bytes]:
    with closing(task(root, **settings)) as sink:
        assert not sink.write(records)
    return objects(root)


def objects(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


NULLS = {field.name: None for field in SCHEMA.fields} | {"id": 2}


def test_formats(tmp_path: Path) -> None:
    records = [record(0, FULL), record(1, NULLS)]

    def content(name: str) -> bytes:
        found = written(tmp_path / name, records, format_class=name)
        ((path, data),) = found.items()
        extension = {"bytearray": "bin"}.get(name, name)
        assert path == f"topics/t/partition=0/t+0+0000000000.{extension}"
        return data

    first, second = map(json.loads, content("json").splitlines())
    assert (first["name"], first["tags"], second["name"]) == ('ä,"b"', ["x", "y"], None)
    header, row, _ = csv.reader(io.StringIO(content("csv").decode()))
    assert header == [field.name for field in SCHEMA.fields]
    assert row[:3] == ["1", 'ä,"b"', "12.30"]
    assert row[5] == '["x","y"]'
    arrow = [{**FULL, "more": [("k", 5)]}, NULLS]
    assert pq.read_table(io.BytesIO(content("parquet"))).to_pylist() == arrow
    assert orc.read_table(io.BytesIO(content("orc"))).to_pylist() == arrow
    assert [*fastavro.reader(io.BytesIO(content("avro")))] == [FULL, NULLS]


def test_values_that_are_bytes_or_text(tmp_path: Path) -> None:
    records = [record(0, b"\x00", schemas.BYTES), record(1, "x", schemas.STRING)]
    found = written(tmp_path, records, format_class="bytearray")
    assert [*found.values()] == [b"\x00\nx\n"]


def test_records_that_do_not_fit_fail_alone(tmp_path: Path) -> None:
    with closing(task(tmp_path, format_class="parquet", flush_size="1")) as sink:
        bad = [record(0, {"a": 1}, None), record(1, "x", schemas.STRING), record(2, {"id": "x"})]
        failed = sink.write([*bad, record(3)])
        assert [one.record for one in failed] == bad
        assert "value.converter" in str(failed[0].error)
        assert "HoistField" in str(failed[1].error)
        assert "field id" in str(failed[2].error)
        null = SinkRecord("t", value=None, original_topic="t", offset=4)
        ((_, error),) = sink.write([null])
        assert "behavior.on.null.values" in str(error)
    assert [*objects(tmp_path)] == ["topics/t/partition=0/t+0+0000000003.parquet"]


def test_records_of_another_schema_have_their_own_object(tmp_path: Path) -> None:
    wider = SCHEMA.with_fields((*SCHEMA.fields, Field("new", schemas.OPTIONAL_STRING)))
    records = [record(0), record(1, {"id": 1, "new": "x"}, wider), record(2)]
    found = written(tmp_path, records, format_class="parquet")
    assert [pq.read_table(io.BytesIO(data)).num_rows for data in found.values()] == [2, 1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"partitioner_class": "FieldPartitioner", "partition_field_name": "id"},
         ["id=0/t+0+0000000000", "id=1/t+0+0000000001"]),
        ({"partitioner_class": "io.confluent.connect.storage.partitioner.HourlyPartitioner"},
         ["year=2026/month=01/day=31/hour=23/t+0+0000000000",
          "year=2026/month=01/day=31/hour=23/t+0+0000000001"]),
        ({"partitioner_class": "DailyPartitioner", "timezone": "Europe/Helsinki"},
         ["year=2026/month=02/day=01/t+0+0000000000"]),
        ({"partitioner_class": "TimeBasedPartitioner", "path_format": "'dt'=YYYY-MM-dd/HHmm",
          "partition_duration_ms": "1200000", "file_delim": "-"},
         ["dt=2026-01-31/2320/t-0-0000000000", "dt=2026-01-31/2340/t-0-0000000001"]),
    ],
)  # fmt: skip
def test_directories(tmp_path: Path, settings: dict[str, str], expected: list[str]) -> None:
    first, second = record(0), record(1)
    found = [*written(tmp_path, [first, second], flush_size="2", **settings)]
    names = [f"topics/t/{name}.json" for name in expected]
    assert set(found) <= set(names)
    assert found[0] == names[0]
    if "Hourly" not in settings["partitioner_class"]:
        assert found == names


def test_a_field_may_be_the_time_and_leads_nowhere_else(tmp_path: Path) -> None:
    value = {"id": 0, "name": "../../x", "at": MOMENT}
    settings = {"timestamp_extractor": "RecordField", "timestamp_field": "at"}
    found = written(
        tmp_path / "a", [record(0, value)], partitioner_class="DailyPartitioner", **settings
    )
    assert "day=31" in next(iter(found))
    fields = {"partitioner_class": "FieldPartitioner", "partition_field_name": "name"}
    assert [*written(tmp_path / "b", [record(0, value)], **fields)] == [
        "topics/t/name=..%2F..%2Fx/t+0+0000000000.json"
    ]


def test_objects_are_written_when_there_is_enough(tmp_path: Path) -> None:
    with closing(task(tmp_path, flush_size="3")) as sink:
        sink.write([record(0), record(1), record(10, partition=1)])
        assert objects(tmp_path) == {}
        assert sink.unsafe() == {("t", 0): 0, ("t", 1): 10}
        sink.write([record(2), record(3)])
        assert sink.unsafe() == {("t", 1): 10}
        sink.write([record(4)])
        assert sink.unsafe() == {("t", 0): 4, ("t", 1): 10}
        sink.lost([("t", 0), ("t", 1)])
        assert sink.unsafe() == {}
    assert [data.count(b"\n") for data in objects(tmp_path).values()] == [4]


@pytest.mark.parametrize(
    "settings",
    [
        {"rotate_interval_ms": "1"},
        {"rotate_schedule_interval_ms": "1"},
        {"odradek_rotate_bytes": "1"},
    ],
)
def test_objects_are_written_by_time_and_size(tmp_path: Path, settings: dict[str, str]) -> None:
    with closing(task(tmp_path, flush_size="1000", **settings)) as sink:
        sink.write([record(0)])
        while sink.unsafe():
            sink.write([])
    assert len(objects(tmp_path)) == 1


def test_memory_is_bounded_with_many_partitions(tmp_path: Path) -> None:
    with closing(task(tmp_path, flush_size="1000", odradek_rotate_bytes="100")) as sink:
        sink.write([record(0, partition=partition) for partition in range(4)])
        assert len(sink.unsafe()) == 2
    assert len(objects(tmp_path)) == 2


class Engine:
    """Commits what is safe, and is killed at any step."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.root = root
        self.rng = rng
        self.committed = {0: 0, 1: 0}

    def run(self, total: int) -> None:
        settings = {"flush_size": "7", "partitioner_class": "FieldPartitioner"}
        sink = task(self.root, **settings, partition_field_name="kind")
        positions = dict(self.committed)
        while any(position < total for position in positions.values()):
            batch = []
            for partition, position in positions.items():
                end = min(total, position + self.rng.randrange(9))
                batch += [kind_record(partition, offset) for offset in range(position, end)]
                positions[partition] = end
            sink.write(batch)
            if self.rng.random() < 0.3:
                return  # It is killed before the commit.
            unsafe = sink.unsafe()
            for partition, position in positions.items():
                self.committed[partition] = unsafe.get(("t", partition), position)
            if self.rng.random() < 0.1:
                return
        sink._rotation = sink._rotation._replace(records=1)
        sink.write([])
        self.committed = dict(positions)


def kind_record(partition: int, offset: int) -> SinkRecord:
    value = {"id": offset, "kind": f"{'ab'[offset * 7 % 3 % 2]}{partition}"}
    return record(offset, value, None, partition)


def test_no_record_is_in_two_objects_though_the_worker_is_killed(tmp_path: Path) -> None:
    for seed in range(6):
        engine = Engine(tmp_path / str(seed), random.Random(seed))
        while any(position < 60 for position in engine.committed.values()):
            engine.run(60)
        lines = b"".join(objects(engine.root).values()).splitlines()
        found = sorted((json.loads(line)["kind"][1], json.loads(line)["id"]) for line in lines)
        assert found == sorted((str(partition), n) for partition in (0, 1) for n in range(60))


def test_a_call_that_failed_may_be_made_again(tmp_path: Path) -> None:
    with closing(task(tmp_path, flush_size="2")) as sink:
        store, put = sink._store, sink._store.put

        def refuses(name: str, data: bytes) -> None:
            if "t+1" in name:
                raise Unavailable("busy")
            put(name, data)

        store.put = refuses  # type: ignore[method-assign]
        records = [record(n, partition=partition) for partition in (0, 1) for n in (0, 1)]
        with pytest.raises(Unavailable):
            sink.write(records)
        store.put = put  # type: ignore[method-assign]
        sink.write(records)
        assert sink.unsafe() == {}
    assert [data.count(b"\n") for data in objects(tmp_path).values()] == [2, 2]


def test_a_refused_record_is_told_by_the_call_that_is_made_again(tmp_path: Path) -> None:
    with closing(task(tmp_path, flush_size="2")) as sink:
        store = sink._store
        put = store.put

        def refuses(name: str, data: bytes) -> None:
            raise Unavailable("busy")

        store.put = refuses  # type: ignore[method-assign]
        tombstone = replace(record(0), value=None, value_schema=None)
        records = [tombstone, record(1), record(2)]
        with pytest.raises(Unavailable):
            sink.write(records)
        store.put = put  # type: ignore[method-assign]
        assert [failed.record for failed in sink.write(records)] == [tombstone]
        assert sink.write([record(3)]) == []


def test_settings_are_checked(tmp_path: Path) -> None:
    plugin = plugins.find_connector("ObjectSink")

    def problems(**settings: str) -> dict[str, list[str]]:
        given = {"store.url": f"file:{tmp_path}", "flush.size": "1", **dotted(settings)}
        found: dict[str, list[str]] = plugin.settings_class.validate(given)
        return found

    assert problems() == {}
    assert "format.class" in problems(format_class="xml")
    assert "partitioner.class" in problems(partitioner_class="MyPartitioner")
    assert (
        "path.format" in problems(partitioner_class="TimeBasedPartitioner")["partitioner.class"][0]
    )
    assert "s3.bucket.name" in problems(store_url="http://127.0.0.1:1")
    (tmp_path / "file").touch()
    nowhere = {"store.url": f"file:{tmp_path}/file/x", "flush.size": "1"}
    wrong = plugin.load()(plugin.settings_class.read(nowhere)).wrong_outside()
    assert "not a directory that the worker can write to" in wrong["store.url"][0]


# S3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3(need(moto)) as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    name = f"b{uuid.uuid4().hex[:8]}"
    s3.make_bucket(name)
    return name


KEYS = {"aws.access.key.id": ACCESS_KEY, "aws.secret.access.key": SECRET_KEY}


def connector(name: str, **settings: str) -> Any:
    plugin = plugins.find_connector(name)
    return plugin.load()(plugin.settings_class.read({**KEYS, **dotted(settings)}))


@pytest.mark.xdist_group("s3")
def test_confluents_sink_writes_to_a_bucket(s3: S3Server, bucket: str) -> None:
    settings = {"store_url": s3.url, "s3_bucket_name": bucket, "flush_size": "2"}
    made = connector("S3Sink", **settings, s3_region="us-east-1", s3_compression_type="gzip")
    assert made.wrong_outside() == {}
    with closing(made.task()) as sink:
        sink.write([record(0, FULL), record(1)])
    ((name, data),) = s3.objects(bucket).items()
    assert name == "topics/t/partition=0/t+0+0000000000.json.gz"
    assert len(gzip.decompress(data).splitlines()) == 2
    wrong = connector("S3Sink", **{**settings, "s3_bucket_name": "none"})
    (reason,) = wrong.wrong_outside()["store.url"]
    assert "bucket none" in reason
    with closing(wrong.task()) as sink, pytest.raises(DataError, match="bucket none"):
        sink.write([record(0), record(1)])
    silent = connector("S3Sink", **{**settings, "store_url": "http://127.0.0.1:1"})
    with closing(silent.task()) as sink, pytest.raises(Unavailable, match="bucket"):
        sink.write([record(0), record(1)])


@pytest.mark.xdist_group("s3")
@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({}, "t-0-0", "djA=\n"),
        ({"format_output_fields": "key,value,offset,timestamp",
          "format_output_fields_value_encoding": "none"},
         "t-0-0", "azA=,v0,0,1769902200000\n"),
        ({"format_output_type": "jsonl", "format_output_fields": "key,value,offset,timestamp",
          "file_name_template": "{{topic}}/{{timestamp:unit=yyyy}}-{{partition:padding=true}}-"
                                "{{start_offset:padding=true}}"},
         "t/2026-0000000000-00000000000000000000",
         '{"key":"k0","value":"v0","offset":0,"timestamp":"2026-01-31T23:30:00.000Z"}\n'),
        ({"format_output_type": "json", "format_output_envelope": "false"},
         "t-0-0", '[\n"v0"\n]'),
        ({"format_output_type": "jsonl", "file_name_template": "by/{{key}}"},
         "by/k0", '{"value":"v0"}\n'),
    ],
)  # fmt: skip
def test_aivens_sink_writes_to_a_bucket(
    s3: S3Server, bucket: str, settings: dict[str, str], name: str, expected: str
) -> None:
    common = {"aws_s3_bucket_name": bucket, "aws_s3_endpoint": s3.url, "aws_s3_prefix": "p/"}
    more = {"file_compression_type": "none", "file_max_records": "1", **settings}
    with closing(connector("AivenKafkaConnectS3Sink", **common, **more).task()) as sink:
        assert not sink.write([record(0, "v0", schemas.STRING)])
    assert s3.objects(bucket) == {f"p/{name}": expected.encode()}


@pytest.mark.xdist_group("s3")
def test_aivens_parquet_has_the_parts_as_columns(s3: S3Server, bucket: str) -> None:
    settings = {"format_output_type": "parquet", "format_output_fields": "key,offset,value"}
    common = {"aws_s3_bucket_name": bucket, "aws_s3_endpoint": s3.url, "file_max_records": "1"}
    with closing(connector("AivenKafkaConnectS3Sink", **common, **settings).task()) as sink:
        assert not sink.write([record(5)])
    ((name, data),) = s3.objects(bucket).items()
    assert name == "t-0-5"
    (row,) = pq.read_table(io.BytesIO(data)).to_pylist()
    assert (row["key"], row["offset"], row["value"]["id"]) == ("k2", 5, 5)
