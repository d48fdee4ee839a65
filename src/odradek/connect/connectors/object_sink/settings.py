"""What both object sinks have in common: a `Plan` of what is written where, and its parts."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

from odradek.config.kinds import long
from odradek.connect.connectors.object_sink.formats import (
    Bytes,
    Csv,
    JsonLines,
    ObjectFormat,
)
from odradek.connect.connectors.object_sink.layout import Layout
from odradek.connect.connectors.object_sink.stores import Store
from odradek.connect.connectors.object_sink.task import Rotation
from odradek.connect.data.schemas import Schema
from odradek.connect.records import SinkRecord
from odradek.connect.settings import PluginSettings

_MAX_BYTES: Final = 128 << 20
Shape = Callable[[SinkRecord], "tuple[Schema | None, Any] | None"]


class Plan(NamedTuple):
    layout: Layout
    format: ObjectFormat
    rotation: Rotation
    shape: Shape


class StoreSettings(PluginSettings):
    rotate_bytes = long(
        "odradek.rotate.bytes",
        64 << 20,
        "Objects are written when so many bytes of a partition are gathered, about.",
        at_least=1,
        at_most=_MAX_BYTES * 8,
    )

    def plan(self) -> Plan:
        """Raises `InvalidConfig`."""
        raise NotImplementedError

    def store(self) -> Store:
        """Raises `InvalidConfig`."""
        raise NotImplementedError


def make_format(name: str, codec: str, separator: bytes = b"\n") -> ObjectFormat:
    """Raises `InvalidConfig` if a part that it needs is not installed."""
    if name == "json":
        return JsonLines()
    if name == "csv":
        return Csv()
    if name == "bytearray":
        return Bytes(separator)
    if name == "avro":
        return cast("ObjectFormat", _loaded("avro", "Avro")(codec))
    return cast("ObjectFormat", _loaded("columnar", name.capitalize())(codec))


def s3_store(bucket: str, **options: str | None) -> Store:
    return cast("Store", _loaded("s3_store", "S3Store")(bucket, **options))


def _loaded(module: str, name: str) -> Any:
    """Loads what needs a library that is large, and that not all have installed."""
    return getattr(import_module(f"odradek.connect.connectors.object_sink.{module}"), name)
