"""Protobuf: messages as dicts, and as objects of generated classes.

A dict has every field. An enum is its name, a `google.protobuf.Timestamp` a `datetime`. A field
with presence is None if it is not set; a field without presence has its default.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from odradek.schemas.errors import BadPayload
from odradek.schemas.protobuf_descriptors import indexes_of, is_map, is_repeated

TIMESTAMP: Final = "google.protobuf.Timestamp"
UNSIGNED: Final = {FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64}


class ProtobufCodec:
    """Encodes and decodes payloads of one message, without their frame."""

    def __init__(self, descriptor: Descriptor, message_class: Any = None) -> None:
        """`message_class` is the class of decoded messages, if there is a generated one."""
        self.descriptor = descriptor
        self.message_class = message_class or message_factory.GetMessageClass(descriptor)

    @property
    def name(self) -> str:
        return str(self.descriptor.full_name)

    @property
    def indexes(self) -> tuple[int, ...]:
        """The path of indexes to the message in its file."""
        return indexes_of(self.descriptor)

    def decode(self, payload: bytes) -> dict[str, Any]:
        row: dict[str, Any] = self._record(self.parse(payload))
        return row

    def parse(self, payload: bytes) -> Any:
        """Returns the message."""
        message = self.message_class()
        try:
            message.ParseFromString(payload)
        except (DecodeError, RecursionError) as error:
            raise BadPayload(f"a value is no {self.name}: {error}") from None
        return message

    def encode(self, value: Any) -> bytes:
        """Encodes a dict, or a message, which may be of another version of the schema."""
        if isinstance(value, Message):
            return serialized(value)
        message = self.message_class()
        try:
            _fill(message, value)
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BadPayload(f"{value!r:.200} is no {self.name}: {error}") from None
        return serialized(message)

    # Messages to dicts. A column has other types for what Arrow does not have.

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> Any:
        return dict(pairs)

    def _unsigned(self, number: int) -> Any:
        return number

    def _record(self, message: Any) -> Any:
        descriptor = message.DESCRIPTOR
        if descriptor.full_name == TIMESTAMP:
            return message.ToDatetime(tzinfo=UTC)
        row: dict[str, Any] = {}
        for field in descriptor.fields:
            value = getattr(message, field.name)
            if is_map(field):
                key, item = field.message_type.fields
                row[field.name] = self._pairs(
                    (self._value(key, map_key), self._value(item, value[map_key]))
                    for map_key in value
                )
            elif is_repeated(field):
                row[field.name] = [self._value(field, element) for element in value]
            elif field.has_presence and not message.HasField(field.name):
                row[field.name] = None
            else:
                row[field.name] = self._value(field, value)
        return row

    def _value(self, field: FieldDescriptor, value: Any) -> Any:
        if field.message_type is not None:
            return self._record(value)
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return str(value) if known is None else known.name
        return self._unsigned(value) if field.type in UNSIGNED else value


def serialized(message: Any) -> bytes:
    try:
        return bytes(message.SerializeToString())
    except EncodeError as error:
        raise BadPayload(str(error)) from None


# Dicts to messages


def _fill(message: Any, row: Any) -> None:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == TIMESTAMP:
        message.FromDatetime(row)
        return
    unknown = set(row) - set(descriptor.fields_by_name)
    if unknown:
        raise ValueError(f"there is no field {sorted(unknown)[0]}")
    for name, value in row.items():
        if value is None:
            continue
        field = descriptor.fields_by_name[name]
        if is_map(field):
            _fill_map(getattr(message, name), field, value)
        elif is_repeated(field):
            many = getattr(message, name)
            for element in value:
                if field.message_type is not None:
                    _fill(many.add(), element)
                else:
                    many.append(_scalar(field, element))
        elif field.message_type is not None:
            inner = getattr(message, name)
            inner.SetInParent()
            _fill(inner, value)
        else:
            setattr(message, name, _scalar(field, value))


def _fill_map(entries: Any, field: FieldDescriptor, value: Any) -> None:
    key, item = field.message_type.fields
    for map_key, content in value.items() if isinstance(value, Mapping) else value:
        if item.message_type is not None:
            _fill(entries[_scalar(key, map_key)], content)
        else:
            entries[_scalar(key, map_key)] = _scalar(item, content)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is not None:
            return known.number
        if value.lstrip("-").isdigit():
            return int(value)
        raise ValueError(f"{field.enum_type.name} has no {value}")
    return int(value) if field.type in UNSIGNED else value
