"""Protobuf messages as schemas and values of Connect: the other way of `protobuf_writing`.

A oneof is a struct of which one field is set. Fields are optional, as Confluent's converter has
them: a message may leave out any of them.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

from odradek.connect.converters.protobuf_names import (
    DATE,
    DECIMAL,
    ENUM,
    PRECISION,
    TAG,
    TIME,
    TIMESTAMP,
    TYPE,
    UNION,
    WRAPPER,
    WRAPPERS,
    ProtobufConverterSettings,
)
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError
from odradek.schemas.protobuf_descriptors import is_map, is_repeated

Convert = Callable[[Any], Any]
Params = dict[str, dict[str, str]]
"""The `confluent.field_meta` of fields, by the full name of the field."""

_F: Final = FieldDescriptor
_TYPES: Final = {
    _F.TYPE_INT32: (Type.INT32, None),
    _F.TYPE_SINT32: (Type.INT32, "sint32"),
    _F.TYPE_SFIXED32: (Type.INT32, "sfixed32"),
    _F.TYPE_UINT32: (Type.INT64, "uint32"),
    _F.TYPE_FIXED32: (Type.INT64, "fixed32"),
    _F.TYPE_INT64: (Type.INT64, None),
    _F.TYPE_UINT64: (Type.INT64, "uint64"),
    _F.TYPE_SINT64: (Type.INT64, "sint64"),
    _F.TYPE_FIXED64: (Type.INT64, "fixed64"),
    _F.TYPE_SFIXED64: (Type.INT64, "sfixed64"),
    _F.TYPE_FLOAT: (Type.FLOAT32, None),
    _F.TYPE_DOUBLE: (Type.FLOAT64, None),
    _F.TYPE_BOOL: (Type.BOOLEAN, None),
    _F.TYPE_STRING: (Type.STRING, None),
    _F.TYPE_BYTES: (Type.BYTES, None),
}
_NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}
_WRAPPED: Final = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def real_oneofs(descriptor: Descriptor) -> list[OneofDescriptor]:
    """Returns the oneofs that the text has; an optional field is in one too, by its own name."""
    return [oneof for oneof in descriptor.oneofs if not _is_synthetic(oneof)]


def _is_synthetic(oneof: OneofDescriptor) -> bool:
    fields = oneof.fields
    return len(fields) == 1 and oneof.name == f"_{fields[0].name}"


class ProtobufReader:
    """Makes the schema of a message, and the function that reads its messages."""

    def __init__(self, settings: ProtobufConverterSettings, params: Params) -> None:
        self._settings = settings
        self._params = params
        self._open: list[str] = []

    def reader(self, descriptor: Descriptor) -> tuple[Schema, Convert]:
        wrapped = _WRAPPED.get(descriptor.full_name)
        if wrapped is not None and self._settings.wrapper_for_raw_primitives:
            return Schema(wrapped), lambda message: message.value
        return self._message(descriptor)

    def _message(self, descriptor: Descriptor) -> tuple[Schema, Convert]:
        full = descriptor.full_name
        if full in self._open:
            raise DataError(
                f"Protobuf's message {full} contains itself: Connect has no recursive schemas"
            )
        self._open.append(full)
        fields: list[Field] = []
        steps: list[tuple[str, Callable[[Any], Any]]] = []
        for number, oneof in enumerate(real_oneofs(descriptor)):
            self._add_oneof(oneof, number, fields, steps)
        for field in descriptor.fields:
            oneof = field.containing_oneof
            if oneof is None or _is_synthetic(oneof):
                schema, convert = self._field(field)
                fields.append(Field(field.name, schema))
                steps.append((field.name, self._getter(field, convert)))
        self._open.pop()
        name = full if self._settings.enhanced_protobuf_schema_support else descriptor.name
        made = schemas.struct(*fields, name=name)
        return made, lambda message: {name: get(message) for name, get in steps}

    def _add_oneof(
        self,
        oneof: OneofDescriptor,
        number: int,
        fields: list[Field],
        steps: list[tuple[str, Convert]],
    ) -> None:
        members = []
        for field in oneof.fields:
            schema, convert = self._field(field, is_member=True)
            members.append((Field(field.name, schema), convert))
        if self._settings.flatten_unions:
            for part, convert in members:
                fields.append(part)
                steps.append((part.name, _set_only(part.name, convert)))
            return
        suffix = f"_{number}" if self._settings.generate_index_for_unions else ""
        enhanced = self._settings.enhanced_protobuf_schema_support
        union = schemas.struct(
            *(part for part, _ in members),
            name=f"{UNION}.{oneof.full_name if enhanced else oneof.name}",
            is_optional=True,
        )
        converts = {part.name: convert for part, convert in members}
        own = oneof.name

        def read(message: Message) -> Any:
            found = message.WhichOneof(own)
            return None if found is None else {found: converts[found](getattr(message, found))}

        fields.append(Field(f"{own}{suffix}", union))
        steps.append((f"{own}{suffix}", read))

    def _getter(self, field: FieldDescriptor, convert: Convert) -> Convert:
        name = field.name
        is_message = field.message_type is not None and not is_repeated(field)
        has_presence = field.has_presence and not is_repeated(field)
        if is_message and self._settings.generate_struct_for_nulls:
            has_presence = False
        if not is_message and field.containing_oneof is None:
            # Optional in proto2; in proto3 an optional field is in a oneof of its own.
            has_presence = has_presence and self._settings.optional_for_proto2
        if has_presence:
            return _set_only(name, convert)
        return lambda message: convert(getattr(message, name))

    def _field(self, field: FieldDescriptor, *, is_member: bool = False) -> tuple[Schema, Convert]:
        if is_map(field):
            schema, convert = self._map(field)
        else:
            schema, convert = self._single(field)
            if is_repeated(field):
                of_item = convert
                schema = schemas.array(schema.optional(), is_optional=True)

                def convert(found: Any) -> Any:
                    return [of_item(item) for item in found]

        settings = self._settings
        parameters = {**schema.parameters}
        is_optional = schema.is_optional
        if is_member:
            is_optional = True
            message = field.message_type
            is_wrapper = message is not None and message.full_name in _WRAPPED
            if settings.wrapper_for_nullables and is_wrapper:
                parameters[WRAPPER] = "true"
        elif settings.optional_for_nullables:
            is_optional = is_optional or (
                field.has_presence and field.message_type is None and not is_repeated(field)
            )
        elif not settings.wrapper_for_nullables:
            is_optional = True
        parameters[TAG] = str(field.number)
        return replace(schema, is_optional=is_optional, parameters=parameters), convert

    def _map(self, field: FieldDescriptor) -> tuple[Schema, Convert]:
        entry = field.message_type
        key, item = entry.fields
        key_schema, of_key = self._field(key)
        item_schema, of_item = self._field(item)
        full = entry.full_name if self._settings.enhanced_protobuf_schema_support else entry.name
        schema = Schema(
            Type.MAP, True, full.removesuffix("Entry"), key=key_schema, item=item_schema
        )
        # Looking a key up would add it, so the pairs are copied first.
        return schema, lambda found: {of_key(k): of_item(found[k]) for k in list(found)}

    def _single(self, field: FieldDescriptor) -> tuple[Schema, Convert]:
        if field.enum_type is not None:
            return self._enum(field)
        message = field.message_type
        if message is not None:
            return self._inner(field, message)
        kind, written = _TYPES[field.type]
        own = self._params.get(field.full_name, {})
        kind = _NARROW.get(own.get("connect.type", ""), kind)
        schema = Schema(kind, parameters={} if written is None else {TYPE: written})
        is_long = field.type in {_F.TYPE_UINT64, _F.TYPE_FIXED64}
        return schema, _signed if is_long else _as_it_is

    def _inner(self, field: FieldDescriptor, message: Descriptor) -> tuple[Schema, Convert]:
        match message.full_name:
            case full if full == DECIMAL:
                own = self._params.get(field.full_name, {})
                schema = schemas.decimal(_whole(own.get("scale")) or 0, is_optional=True)
                precision = _whole(own.get("precision"))
                if precision is not None:
                    parameters = {**schema.parameters, PRECISION: str(precision)}
                    schema = replace(schema, parameters=parameters)
                return schema, lambda found: values.bytes_to_decimal(found.value, found.scale)
            case full if full == DATE:
                return schemas.date(is_optional=True), _date
            case full if full == TIME:
                return schemas.time(is_optional=True), _time
            case full if full == TIMESTAMP:
                return schemas.timestamp(is_optional=True), _timestamp
            case full if full in _WRAPPED and self._settings.wrapper_for_nullables:
                signed = _signed if full == WRAPPERS["uint64"] else _as_it_is
                return Schema(_WRAPPED[full], True), lambda found: signed(found.value)
        schema, convert = self._message(message)
        return schema.optional(), convert

    def _enum(self, field: FieldDescriptor) -> tuple[Schema, Convert]:
        enum = field.enum_type
        enhanced = self._settings.enhanced_protobuf_schema_support
        parameters = {
            ENUM: enum.name,
            **{f"{ENUM}.{symbol.name}": str(symbol.number) for symbol in enum.values},
        }
        is_number = self._settings.int_for_enums
        schema = Schema(
            Type.INT32 if is_number else Type.STRING,
            is_optional=True,
            name=enum.full_name if enhanced else enum.name,
            parameters=parameters,
        )
        if is_number:
            return schema, _as_it_is
        names = {number: symbol.name for number, symbol in enum.values_by_number.items()}
        return schema, lambda number: names.get(number, f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}")


def _set_only(name: str, convert: Convert) -> Convert:
    return lambda message: convert(getattr(message, name)) if message.HasField(name) else None


def _as_it_is(value: Any) -> Any:
    return value


def _signed(value: int) -> int:
    """Connect has no unsigned numbers: those of 64 bits become negative, as in Java."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _date(found: Any) -> date:
    try:
        return date(found.year, found.month, found.day)
    except ValueError as error:
        raise DataError(f"a google.type.Date is not a date: {error}") from None


def _time(found: Any) -> time:
    try:
        return time(found.hours, found.minutes, found.seconds, found.nanos // 1_000_000 * 1000)
    except ValueError as error:
        raise DataError(f"a google.type.TimeOfDay is not a time: {error}") from None


def _timestamp(found: Any) -> datetime:
    try:
        milliseconds = found.nanos // 1_000_000
        return _EPOCH + timedelta(seconds=found.seconds, milliseconds=milliseconds)
    except OverflowError:
        raise DataError("a Timestamp is beyond the years 1 to 9999") from None
