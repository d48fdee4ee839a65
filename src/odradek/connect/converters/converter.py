"""What every converter does."""

from typing import Any, NamedTuple, Protocol

from odradek.connect.data.schemas import Schema


class SchemaAndValue(NamedTuple):
    schema: Schema | None
    value: Any


class Converter(Protocol):
    """A converter of the keys or of the values of one connector. Methods raise `DataError`."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Returns the bytes for a record of the topic; None stays None where there is no schema to
        be written with it."""
        ...

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue: ...
