"""What the console consumer prints of a record."""

import json
import re
from dataclasses import dataclass, field

import pytest

from odradek.cli.records.record_formatter import JsonFormatter, RecordFormatter
from odradek.tools.failures import UsageError


@dataclass
class Consumed:
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    topic: str = "t"
    partition: int = 2
    offset: int = 7
    timestamp_ms: int = 1000
    timestamp_type: int = 0
    leader_epoch: int = 3


ALL = {
    f"print.{part}": "true"
    for part in ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
}


def test_the_value_alone_by_default() -> None:
    assert RecordFormatter({}).format(Consumed()) == b"v\n"


def test_all_columns_in_kafkas_order() -> None:
    record = Consumed(headers=[("h", b"1"), ("g", None)])
    assert RecordFormatter(ALL).format(record) == (
        b"CreateTime:1000\tPartition:2\tOffset:7\tEpoch:3\th:1,g:null\tk\tv\n"
    )


def test_what_is_missing_is_said() -> None:
    record = Consumed(key=None, value=None, timestamp_ms=-1, leader_epoch=-1)
    assert RecordFormatter(ALL | {"null.literal": "-"}).format(record) == (
        b"NO_TIMESTAMP\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\tNO_HEADERS\t-\t-\n"
    )


def test_separators_of_ones_own() -> None:
    properties = {"print.key": "true", "key.separator": " => ", "line.separator": ";"}
    assert RecordFormatter(properties).format(Consumed()) == b"k => v;"


def test_log_append_time_is_named() -> None:
    formatter = RecordFormatter({"print.timestamp": "true", "print.value": "false"})
    assert formatter.format(Consumed(timestamp_type=1)) == b"LogAppendTime:1000\n"


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\xff" * 7 + b"\xfe", b"-2\n"),
        ("IntegerDeserializer", b"\0\0\1\0", b"256\n"),
        ("DoubleDeserializer", b"\x3f\xf8\0\0\0\0\0\0", b"1.5\n"),
        ("BooleanDeserializer", b"\1", b"true\n"),
        ("ByteArrayDeserializer", b"\xff", b"\xff\n"),
    ],
)  # fmt: skip
def test_deserializers(name: str, data: bytes, shown: bytes) -> None:
    formatter = RecordFormatter({"value.deserializer": name})
    assert formatter.format(Consumed(value=data)) == shown


def test_a_value_of_the_wrong_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="LongDeserializer cannot read 1 bytes"):
        RecordFormatter({"value.deserializer": "LongDeserializer"}).format(Consumed())


def test_an_unknown_deserializer_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no deserializer com\.example\.Mine"):
        RecordFormatter({"key.deserializer": "com.example.Mine"})


@pytest.mark.parametrize("name", ["long", "org.apache.kafka.common.serialization.LongDeserialiser"])
def test_a_misspelt_deserializer_names_the_nearest(name: str) -> None:
    with pytest.raises(UsageError, match=rf"no deserializer {name}; did you mean LongDeserializer"):
        RecordFormatter({"value.deserializer": name})


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("print.ofset", "did you mean print.offset?"),
        ("headers.deserializer", "did you mean "),
        ("zzz", "there are print.timestamp, "),
    ],
)
def test_a_property_without_effect_is_refused(name: str, answer: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"no formatter property {name}; {answer}")):
        RecordFormatter({name: "true"})


def test_json_is_one_line_with_bytes_in_base64() -> None:
    record = Consumed(key=b"\xff", value="ä\n".encode(), headers=[("h", None)])
    line = JsonFormatter().format(record)
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 1000,
        "timestampType": "CreateTime",
        "keyBase64": "/w==",
        "value": "ä\n",
        "headers": [{"name": "h", "value": None}],
    }
