"""The records and configurations on which transforms are compared with Apache's."""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.connect import plugins

_PREFIX: Final = plugins.TRANSFORMS_PACKAGE
PREDICATES: Final = plugins.PREDICATES_PACKAGE

Config = Mapping[str, str]


_Headers = tuple[tuple[str, str], ...]


class Given(NamedTuple):
    """A record, as JSON texts. Without an offset it is the record of a source."""

    name: str
    value: str | None
    key: str | None = None
    schemas: bool = True
    topic: str = "orders-eu.v1"
    partition: int | None = 3
    timestamp: int | None = 1_709_208_000_123
    offset: int | None = 42
    headers: _Headers = ()


# Records


def _field(field: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": kind, "optional": False, **more}


def _logical(field: str, short: str, kind: str, **more: Any) -> dict[str, Any]:
    full = f"org.apache.kafka.connect.data.{short}"
    return _field(field, kind, name=full, version=1, **more)


def _struct(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": False, **more}


def _envelope(schema: Any, payload: Any) -> str:
    return json.dumps({"schema": schema, "payload": payload}, ensure_ascii=False)


_ORDER: Final = _struct(
    _field("id", "int32"),
    _field("tiny", "int8", optional=True),
    _field("small", "int16", optional=True, default=7),
    _field("big", "int64", optional=True),
    _field("f32", "float", optional=True),
    _field("f64", "double", optional=True, default=2.5),
    _field("ok", "boolean", optional=True),
    _field("text", "string", optional=True, default="none"),
    _field("raw", "bytes", optional=True),
    _logical("price", "Decimal", "bytes", optional=True, parameters={"scale": "2"}),
    _logical("day", "Date", "int32", optional=True),
    _logical("at", "Time", "int32", optional=True),
    _logical("moment", "Timestamp", "int64", optional=True),
    {**_struct(_field("city", "string", optional=True), _field("zip", "int32", default=1)),
     "field": "home", "optional": True, "name": "Home"},
    {"field": "tags", "type": "array", "items": {"type": "string", "optional": False},
     "optional": True},
    name="Order", version=2, doc="An order.",
)  # fmt: skip
_FULL: Final = {
    "id": 5, "tiny": -128, "small": 300, "big": 1709208000123, "f32": 1.5, "f64": -1e10,
    "ok": True, "text": "12", "raw": "AP8=", "price": "BNI=", "day": 19782, "at": 86399999,
    "moment": 1709208000123, "home": {"city": "Brno", "zip": 60200}, "tags": ["a", "b"],
}  # fmt: skip
_EMPTY: Final = {**dict.fromkeys(_FULL), "id": -1}
_TEXTS: Final = ("2024-02-29 12:00:00", "true", "-7", "3.99", "", "99999999999", "é", "1e3")
_NUMBERS: Final = (
    ("int64", -(1 << 63)), ("int64", 1 << 40), ("int8", -1), ("double", 1e300), ("double", 0.1),
    ("double", -3.99), ("float", 3.25), ("int32", 0), ("boolean", True), ("double", 1e-5),
    ("int64", 128), ("int32", 70000), ("double", 1.0e10), ("float", 16777216.0),
)  # fmt: skip


def records() -> list[Given]:
    key = _envelope(
        _struct(_field("k", "int64"), _field("n", "string", optional=True)), {"k": 1, "n": None}
    )
    headers = (
        ("a", _envelope({"type": "string", "optional": False}, "x")),
        ("b", _envelope({"type": "int32", "optional": True}, 5)),
        ("a", _envelope(None, None)),
    )
    return [*_with_schemas(key, headers), *_primitives(), *_without_schemas(headers)]


def _with_schemas(key: str, headers: _Headers) -> list[Given]:
    return [
        Given("full", _envelope(_ORDER, _FULL), key, headers=headers),
        Given(
            "empty", _envelope(_ORDER, _EMPTY), _envelope({"type": "int32", "optional": True}, 3)
        ),
        Given("of a source", _envelope(_ORDER, _FULL), offset=None, partition=None),
        Given("without a time", _envelope(_ORDER, _FULL), timestamp=None, offset=None),
        Given("null struct", _envelope({**_ORDER, "optional": True}, None), key),
        Given("tombstone", None, key),
        Given("nothing", None, None, topic="a"),
        Given(
            "array",
            _envelope(
                {"type": "array", "items": {"type": "int32", "optional": False}, "optional": False},
                [1, 2],
            ),
        ),
        Given(
            "map",
            _envelope(
                {
                    "type": "map",
                    "keys": {"type": "string", "optional": False},
                    "values": {"type": "int32", "optional": True},
                    "optional": False,
                },
                {"id": 1},
            ),
        ),
        Given(
            "nested", _envelope(_NESTED, {"a": {"b": {"c": 1, "d": None}, "e": [1]}, "f": "x"}), key
        ),
        Given("nested nulls", _envelope(_NESTED, {"a": None, "f": None}), key),
        Given("decimal", _envelope(_primitive_of(_ORDER, "price"), "BNI=")),
        Given("moment", _envelope(_primitive_of(_ORDER, "moment"), 1709208000123), timestamp=-1),
        Given("early moment", _envelope(_primitive_of(_ORDER, "moment"), -1)),
        Given("day", _envelope(_primitive_of(_ORDER, "day"), -3)),
        Given("time", _envelope(_primitive_of(_ORDER, "at"), 1)),
        Given("null text", _envelope({"type": "string", "optional": True, "default": "d"}, None)),
    ]


def _primitives() -> list[Given]:
    texts = [
        Given(
            f"text {text!r}",
            _envelope({"type": "string", "optional": False}, text),
            _envelope({"type": "string", "optional": False}, text),
        )
        for text in _TEXTS
    ]
    numbers = [
        Given(
            f"{kind} {number}",
            _envelope({"type": kind, "optional": False}, number),
            _envelope({"type": kind, "optional": False}, number),
        )
        for kind, number in _NUMBERS
    ]
    return [*texts, *numbers]


def _without_schemas(headers: _Headers) -> list[Given]:
    plain: list[Any] = [
        {"id": 5, "small": None, "big": 1709208000123, "f64": 1.5, "ok": False, "text": "12",
         "home": {"city": "Brno", "deep": {"zip": 1}}, "tags": [1, "a"], "moment": 1709208000123},
        {}, "text", 5, 2.5, True, [1, {"a": 2}], {"a": {"b": {"c": None}}, "f": "2024-02-29"},
        {"id": "x", "moment": "2024-02-29 12:00:00", "text": 7},
    ]  # fmt: skip
    found = [
        Given(
            f"plain {number}",
            json.dumps(value),
            json.dumps({"k": number}),
            schemas=False,
            headers=headers,
        )
        for number, value in enumerate(plain)
    ]
    found += [Given("plain nothing", None, None, schemas=False, timestamp=None)]
    return found


_NESTED: Final = _struct(
    {**_struct(
        {**_struct(_field("c", "int32"), _field("d", "string", optional=True, default="dd")),
         "field": "b", "name": "B"},
        {"field": "e", "type": "array", "items": {"type": "int32", "optional": False},
         "optional": True},
     ), "field": "a", "optional": True},
    _field("f", "string", optional=True, default="ff"),
    name="N",
)  # fmt: skip


def _primitive_of(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = next(part for part in schema["fields"] if part["field"] == name)
    return {**{key: value for key, value in found.items() if key != "field"}, "optional": False}


# Configurations

_FIELDS: Final = (
    "id", "tiny", "small", "big", "f32", "f64", "ok", "text", "raw", "price", "day", "at",
    "moment", "home", "tags", "nowhere",
)  # fmt: skip
_TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
_NULLS: Final[tuple[Config, ...]] = ({}, {"replace.null.with.default": "false"})


def configurations() -> Iterator[tuple[str, Config]]:
    """Yields classes and their configurations; those of sides for both sides."""
    for name, config in _of_sides():
        for side in ("Value", "Key"):
            yield f"{_PREFIX}{name}${side}", config
    for name, config in _of_records():
        yield f"{_PREFIX}{name}", config
    for name, config in _of_predicates():
        yield f"{PREDICATES}{name}", config


def _of_sides() -> Iterator[tuple[str, Config]]:
    for field, kind, more in itertools.product(_FIELDS, _TYPES, _NULLS):
        yield "Cast", {"spec": f"{field}:{kind}", **more}
    for kind in (*_TYPES, "", "int128", "id:int32,string", "a:int8,a:int16", "id:", ":int8"):
        yield "Cast", {"spec": kind}
    yield "Cast", {"spec": "id:string,f64:int32,text:int64,k:string"}
    for field, more in itertools.product((*_FIELDS, "k", "n", "a", "f"), _NULLS):
        yield "ExtractField", {"field": field, **more}
        yield "HoistField", {"field": field}
    for path in ("home.city", "home.zip", "a.b.c", "a.b.d", "`a`.b", "a.`b.c`", "a.b", "a..b", "k"):
        yield "ExtractField", {"field": path, "field.syntax.version": "V2"}
        yield "ExtractField", {"field": path}
    for delimiter in (".", "_", "", "::"):
        yield "Flatten", {"delimiter": delimiter}
    yield "Flatten", {}
    for fields, operation, more in itertools.product(
        ("id", "text,f64", "home", "nowhere", "small"), ("move", "copy", "other"), _NULLS
    ):
        headers = ",".join(f"h{number}" for number, _ in enumerate(fields.split(",")))
        yield "HeaderFrom", {"fields": fields, "headers": headers, "operation": operation, **more}
    yield "HeaderFrom", {"fields": "a,b", "headers": "x", "operation": "copy"}
    for mark, more in itertools.product(("", "!", "?"), _NULLS):
        everything = {
            f"{part}.field": f"the_{part}{mark}"
            for part in ("topic", "partition", "offset", "timestamp", "static")
        }
        for part, field in everything.items():
            config = {part: field, **more}
            yield "InsertField", {**config, **({"static.value": "s"} if "static" in part else {})}
        yield "InsertField", {**everything, "static.value": "s", **more}
    yield "InsertField", {"static.field": "x"}
    yield "InsertField", {"static.field": "id", "static.value": "y"}
    yield "InsertField", {}
    for field, replacement in itertools.product(
        _FIELDS, ("", None, "***", "7", "7.5", "99999999999", "-1")
    ):
        yield (
            "MaskField",
            {"fields": field, **({} if replacement is None else {"replacement": replacement})},
        )
    yield "MaskField", {"fields": "id,text,nowhere", "replace.null.with.default": "false"}
    for config in (
        {"exclude": "id"}, {"include": "id,text"}, {"renames": "id:number,text:id"},
        {"include": "id", "exclude": "id"}, {"exclude": "nowhere"}, {"include": "nowhere"},
        {"include": "id,text", "renames": "text:t"}, {"renames": "id"}, {"renames": "a:b:c"},
        {}, {"exclude": "f64,small", "replace.null.with.default": "false"}, {"renames": "id:text"},
    ):  # fmt: skip
        yield "ReplaceField", config
    for config in (
        {"schema.name": "N"}, {"schema.version": "9"}, {"schema.name": "N", "schema.version": "1"},
        {}, {"schema.version": "x"}, {"schema.name": "N", "replace.null.with.default": "false"},
    ):  # fmt: skip
        yield "SetSchemaMetadata", config
    yield from _times()


def _times() -> Iterator[tuple[str, Config]]:
    targets = ("string", "unix", "Date", "Time", "Timestamp", "text")
    formats = ("yyyy-MM-dd HH:mm:ss", "EEE, d MMM yy h:mm a z", "yyyyMMdd'T'HHmmssSSSX", "", "b")
    fields = ("", "moment", "day", "at", "big", "text", "id", "nowhere")
    for field, target, form in itertools.product(fields, targets, formats):
        yield "TimestampConverter", {"field": field, "target.type": target, "format": form}
    for field, target, unit in itertools.product(
        ("moment", "big", "id", ""), ("unix", "Timestamp"),
        ("seconds", "microseconds", "nanoseconds", "hours"),
    ):  # fmt: skip
        yield "TimestampConverter", {"field": field, "target.type": target, "unix.precision": unit}


def _of_records() -> Iterator[tuple[str, Config]]:
    for headers in ("a", "b", "a,b", "none", ""):
        yield "DropHeaders", {"headers": headers}
    yield "Filter", {}
    # In Apache, [] and maps of mixed values have parts without a type: nothing can read them.
    literals = (
        "x", "1", "300", "70000", "1.5", "true", "null", "[1,2]", '{"a":1}', '"q"', "", " ",
        "2024-02-29", "2024-02-29T12:00:00.000Z", "12:00:00.000Z", "-1", "1e5",
        "99999999999999999999", "[1, 2.5]", '["a"]', "TRUE", "a,b", "[1", "0x1F", "3.4e38",
        "1.0", "NaN", "+5", "007",
        "[true, false]", "1e-5", "1e30", '["2024-02-29"]',
    )  # fmt: skip
    for literal in literals:
        yield "InsertHeader", {"header": "h", "value.literal": literal}
    for regex, replacement in itertools.product(
        ("orders-(.*)", "(.*)-(?<where>.*)\\.v1", "nothing", ".*", "(a)|(b)", "[", "\\p{Alpha}.*"),
        ("new-$1", "${where}", "plain", "$2", "\\$1", "$", "$1$1"),
    ):
        yield "RegexRouter", {"regex": regex, "replacement": replacement}
    for topic, form in itertools.product(
        (
            None,
            "${topic}-${timestamp}",
            "x-${timestamp}",
            "plain",
            "$topic",
            "${timestamp}${topic}",
        ),
        (None, "yyyyMMdd", "yyyy-MM-dd'T'HH", "D E u", "QQ", "''", "'"),
    ):
        config = {"topic.format": topic, "timestamp.format": form}
        yield "TimestampRouter", {name: text for name, text in config.items() if text is not None}
    for fields, more in itertools.product(
        ("id", "id,text", "small,f64", "nowhere", "home"), _NULLS
    ):
        yield "ValueToKey", {"fields": fields, **more}
    yield "ValueToKey", {"fields": ""}


def _of_predicates() -> Iterator[tuple[str, Config]]:
    for name in ("a", "b", "none", ""):
        yield "HasHeaderKey", {"name": name}
    yield "RecordIsTombstone", {}
    for pattern in ("orders.*", "orders", ".*v1", "a", "[", "", "\\p{Lower}+-eu\\.v\\d"):
        yield "TopicNameMatches", {"pattern": pattern}
