"""What every transform and predicate does, and the side of a record that a transform works on."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeVar

from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError
from odradek.connect.records import Record
from odradek.connect.settings import PluginSettings

R = TypeVar("R", bound=Record)


class Transform(Protocol):
    settings_class: ClassVar[type[PluginSettings]]

    def apply(self, record: R) -> R | None:
        """Returns the record to go on with, or None to drop it. Raises `DataError`."""
        ...


class Predicate(Protocol):
    settings_class: ClassVar[type[PluginSettings]]

    def test(self, record: Record) -> bool: ...


class Side(Enum):
    """The part of a record that a transform works on. Configurations say it after the name of the
    class: `...ExtractField$Key`."""

    KEY = "Key"
    VALUE = "Value"

    def schema(self, record: Record) -> Schema | None:
        return record.key_schema if self is Side.KEY else record.value_schema

    def content(self, record: Record) -> Any:
        return record.key if self is Side.KEY else record.value

    def replaced(self, record: R, schema: Schema | None, value: Any) -> R:
        changed = record.with_key if self is Side.KEY else record.with_value
        return changed(schema, value)  # type: ignore[return-value]  # `replace` keeps the class


def as_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """Returns a value without a schema as a map."""
    if not isinstance(value, Mapping):
        raise DataError(
            f"{purpose} needs a map where there is no schema, and this is {type(value).__name__}"
        )
    return value


def as_struct(schema: Schema, value: Any, purpose: str) -> Mapping[str, Any]:
    if schema.type != "struct" or not isinstance(value, Mapping):
        raise DataError(f"{purpose} needs a struct, and this is {schema.type}")
    return value
