"""What sources make and sinks get: a key and a value with their schemas, and where they belong."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from odradek.connect.data.schemas import Schema


class Header(NamedTuple):
    name: str
    schema: Schema | None
    value: Any


@dataclass(frozen=True, slots=True)
class Record:
    """What transforms see. A schema of None means that the value has none: then a dict is a map,
    and its fields are known by looking."""

    topic: str
    key: Any = None
    value: Any = None
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()

    def with_key(self, schema: Schema | None, key: Any) -> "Record":
        return replace(self, key_schema=schema, key=key)

    def with_value(self, schema: Schema | None, value: Any) -> "Record":
        return replace(self, value_schema=schema, value=value)


@dataclass(frozen=True, slots=True)
class SourceRecord(Record):
    """`source_partition` says from where in the source the record comes, `source_offset` how far
    the source was read with it: both are stored, and given back after a restart."""

    source_partition: Mapping[str, Any] = field(default_factory=dict)
    source_offset: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkRecord(Record):
    """`offset` is that of the record in its topic. `topic` and `partition` may have been changed by
    transforms; `original_topic`, `original_partition` and `offset` never are, and say what is
    committed. `raw_headers` are the headers as they were read."""

    offset: int = 0
    original_topic: str = ""
    original_partition: int = 0
    raw_headers: tuple[tuple[str, bytes | None], ...] = ()
