"""Framed columns, with a real Spark and a registry on loopback."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from odradek.schemas import framing
from odradek.schemas.avro import AvroCodec
from odradek.schemas.errors import BadSchema
from odradek.schemas.registry_client import RegistryClient
from odradek.spark import schemas
from tests.unit.schemas.registries import Registry, registry

pytestmark = pytest.mark.xdist_group("spark")

_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "pages", "type": {"type": "array", "items": ["null", "string"]}},
    ],
}
_PROTO = """
syntax = "proto3";
message First { int32 n = 1; }
message Click { int64 id = 1; map<string, int32> tags = 2; }
"""
_JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["id"],
}


@pytest.fixture
def known() -> Iterator[Registry]:
    with registry() as started:
        yield started


def test_avro_is_written_and_read_by_the_newest_schema(
    spark: SparkSession, known: Registry
) -> None:
    rows = spark.range(3).select(
        f.struct(
            "id",
            f.timestamp_millis(f.lit(1500)).alias("at"),
            f.create_map(f.lit("x"), f.col("id").cast("int")).alias("tags"),
            f.array(f.lit("a"), f.lit(None)).alias("pages"),
        ).alias("click")
    )
    asked: dict[str, Any] = {"registry": known.url, "subject": "clicks-value"}
    framed = rows.select(schemas.encode_avro("click", json.dumps(_AVRO), **asked).alias("value"))
    assert framed.first().value[:5] == b"\0\0\0\0\1"
    newer = {
        **_AVRO,
        "fields": [*_AVRO["fields"], {"name": "new", "type": "string", "default": "?"}],
    }
    known.add("clicks-value", {"schema": json.dumps(newer)})
    decoded = framed.select(schemas.decode_avro("value", **asked).alias("click")).select("click.*")
    assert dict(decoded.dtypes) == {
        "id": "bigint",
        "at": "timestamp",
        "tags": "map<string,int>",
        "pages": "array<string>",
        "new": "string",
    }
    found = sorted(decoded.collect())
    assert [(one.id, one.tags, one.new) for one in found] == [(n, {"x": n}, "?") for n in range(3)]
    assert found[0].pages == ["a", None]
    assert found[0].at.astimezone(UTC) == datetime.fromtimestamp(1.5, UTC)


def test_a_local_schema_needs_no_registry(spark: SparkSession) -> None:
    text = '"string"'
    good = framing.frame(9, AvroCodec(text).encode("hello"))
    rows = spark.createDataFrame([(good,), (b"bad",), (None,)], "value binary")
    patient = schemas.decode_avro("value", text, mode="permissive")
    assert [one[0] for one in rows.select(patient).collect()] == ["hello", None, None]
    with pytest.raises(Exception, match="not framed by a serializer"):
        rows.select(schemas.decode_avro("value", text)).collect()
    with pytest.raises(BadSchema, match="give registry and subject, or schema_id"):
        schemas.encode_avro("value", text)


def test_json_is_decoded_by_spark_and_checked_on_request(
    spark: SparkSession, known: Registry
) -> None:
    asked: dict[str, Any] = {"registry": known.url, "subject": "clicks-value"}
    rows = spark.sql("select struct(1L as id, map('x', 1L) as tags) as click")
    text = json.dumps(_JSON)
    framed = rows.select(schemas.encode_json("click", text, validate=True, **asked).alias("value"))
    value = framed.first().value
    assert (value[:5], json.loads(value[5:])) == (b"\0\0\0\0\1", {"id": 1, "tags": {"x": 1}})
    decoded = framed.select(schemas.decode_json("value", **asked).alias("click"))
    assert decoded.first().click.asDict() == {"id": 1, "tags": {"x": 1}}
    wrong = spark.createDataFrame([(framing.frame(1, b'{"id": "x"}'),)], "value binary")
    with pytest.raises(Exception, match="does not fit its JSON schema"):
        wrong.select(schemas.decode_json("value", validate=True, **asked)).collect()
    bare = spark.createDataFrame([(b"{}",)], "value binary")
    with pytest.raises(Exception, match="it was not framed"):
        bare.select(schemas.decode_json("value", **asked)).collect()


def test_protobuf_messages_are_found_by_their_path(spark: SparkSession, known: Registry) -> None:
    asked: dict[str, Any] = {"registry": known.url, "subject": "clicks-value"}
    rows = spark.sql("select struct(7L as id, map('x', 1) as tags) as click")
    framed = rows.select(
        schemas.encode_protobuf("click", _PROTO, message="Click", **asked).alias("value")
    )
    assert framed.first().value[:7] == b"\0\0\0\0\1\2\2"
    decoded = framed.select(schemas.decode_protobuf("value", message="Click", **asked).alias("c"))
    assert decoded.first().c.asDict() == {"id": 7, "tags": {"x": 1}}
    local = schemas.decode_protobuf("value", _PROTO, message="Click")
    assert framed.select(local.alias("c")).first().c.id == 7
    with pytest.raises(Exception, match="a value is a Click, not a First"):
        framed.select(schemas.decode_protobuf("value", **asked)).collect()


def test_schemas_may_be_named_in_headers(spark: SparkSession, known: Registry) -> None:
    row = spark.sql("select struct(7L as id, map('x', 1) as tags) as click")
    tests = {
        "AVRO": ('{"type": "record", "name": "C", "fields": [{"name": "id", "type": "long"}]}', ()),
        "JSON": (json.dumps(_JSON), ()),
        "PROTOBUF": (_PROTO, (1,)),
    }
    encode = {
        "AVRO": schemas.encode_avro(f.struct("click.id"), tests["AVRO"][0], framed=False),
        "JSON": schemas.encode_json("click", tests["JSON"][0], framed=False),
        "PROTOBUF": schemas.encode_protobuf("click", _PROTO, message="Click", framed=False),
    }
    for kind, (text, path) in tests.items():
        subject = f"{kind}-value"
        schema_id = known.add(subject, {"schema": text, "schemaType": kind})
        guid = RegistryClient(known.url).latest(subject).guid
        assert guid is not None
        bare = bytes(row.select(encode[kind]).first()[0])
        in_message = framing.message_path(path) if path else b""
        header = framing.guid_header(UUID(guid).bytes, in_message)
        framed = framing.frame(schema_id, in_message + bare)
        rows = spark.createDataFrame(
            [
                (
                    1,
                    bare,
                    [("other", b""), ("__value_schema_id", None), ("__value_schema_id", header)],
                ),
                (2, framed, []),
                (3, framed, None),
                (4, None, [("__value_schema_id", header)]),
                (5, bare, [("__key_schema_id", header)]),
                (6, bare, [("__value_schema_id", b"?")]),
            ],
            "n int, value binary, headers array<struct<key: string, value: binary>>",
        )
        function = getattr(schemas, f"decode_{kind.lower()}")
        more = {"message": "Click"} if path else {}
        column = function(
            "value",
            registry=known.url,
            subject=subject,
            headers="headers",
            mode="permissive",
            **more,
        )
        found = rows.select("n", column.alias("click")).orderBy("n").collect()
        ids = [None if one.click is None else one.click.id for one in found]
        # Spark reads JSON and does not look at what a header names.
        assert ids[:5] == [7, 7, 7, None, None], kind
        assert ids[5] == (7 if kind == "JSON" else None)
    with pytest.raises(BadSchema, match="leave framed=False out"):
        schemas.decode_avro("value", '"int"', headers="headers", framed=False)
    with pytest.raises(BadSchema, match="neither key nor value"):
        schemas.decode_avro("value", '"int"', headers="headers", field="body")  # type: ignore[arg-type]
