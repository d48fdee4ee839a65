"""A bridge to `kio`, an independent implementation of the protocol.

kio has one dataclass per struct and version, with the fields in wire order, so our fields
of that version and kio's pair off by position; names and kinds must agree. Where kio turns
numbers into times or error codes, only numbers that survive that are generated.
"""

import dataclasses
import datetime
import io
import types
import typing
import uuid
from typing import Any

import kio.index
import kio.serial
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.constants import EntityType

from odradek.protocol.apis import FIRST_OWN_KEY, AnyApi, all_apis
from odradek.protocol.layout import Field, StructType
from odradek.protocol.schema import Message, Request, Struct
from odradek.protocol.types import NO_TOPIC_ID

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
}
# Surrogates are no UTF-8; the odd long string takes its length past one byte of varint.
STRINGS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["a" * 126, "b" * 127, "c" * 128, "é" * 100]),
)
BYTES = st.one_of(st.binary(max_size=8), st.sampled_from([bytes(126), bytes(127), bytes(300)]))
VALUES: dict[str, st.SearchStrategy[object]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "string": STRINGS,
    "bytes": BYTES,
    "records": BYTES,
    "uuid": st.one_of(st.just(bytes(NO_TOPIC_ID)), st.binary(min_size=16, max_size=16)),
    "error_code": st.sampled_from([code.value for code in KioErrorCode]),
    "timedelta_i32": INTEGERS["int32"],
    "timedelta_i64": st.integers(-(2**40), 2**40),
    "datetime_i64": st.one_of(st.just(-1), st.integers(0, 2**37).map(lambda s: s * 1000)),
    **INTEGERS,
}
# What kio calls a kind that has a meaning beyond its size.
PLAIN_KINDS = {
    "bool": "boolean",
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}


class Pair(typing.NamedTuple):
    """One of our fields and kio's counterpart."""

    ours: Field
    kios: "dataclasses.Field[Any]"
    kio_kind: str  # "" for structs
    is_array: bool
    is_optional: bool
    struct: Any  # kio's class, if it is a struct

    def check(self, version: int) -> None:
        assert self.kios.name in (self.ours.name, self.ours.name.removesuffix("_ms"))
        assert (version in self.ours.tagged) == ("tag" in self.kios.metadata)
        if version in self.ours.tagged:
            assert self.ours.tag == self.kios.metadata["tag"]
        kind = PLAIN_KINDS.get(self.kio_kind, self.kio_kind) or "struct"
        if self.is_array:
            assert self.ours.kind == "array"
            element = self.ours.element
            assert (element if isinstance(element, str) else "struct") == kind
        else:
            assert self.ours.kind == kind
        # To kio a zero uuid and the time -1 are null too.
        if self.kio_kind not in ("uuid", "datetime_i64"):
            assert (version in self.ours.nullable) == self.is_optional


def pairs(layout: StructType, kio_class: Any, version: int) -> list[Pair]:
    fields = [field for field in layout.fields if version in field.versions]
    theirs = dataclasses.fields(kio_class)
    assert len(fields) == len(theirs), (layout.__name__, version)
    made = [_pair(ours, kios) for ours, kios in zip(fields, theirs, strict=True)]
    for pair in made:
        pair.check(version)
    return made


def _pair(ours: Field, kios: "dataclasses.Field[Any]") -> Pair:
    held: Any = kios.type
    is_optional = is_array = False
    if typing.get_origin(held) in (types.UnionType, typing.Union):
        is_optional = True
        (held,) = (kind for kind in typing.get_args(held) if kind is not types.NoneType)
    if typing.get_origin(held) is tuple:
        is_array = True
        held = typing.get_args(held)[0]
        if typing.get_origin(held) in (types.UnionType, typing.Union):
            (held,) = (kind for kind in typing.get_args(held) if kind is not types.NoneType)
    struct = held if dataclasses.is_dataclass(held) else None
    kio_kind = "" if struct else kios.metadata["kafka_type"]
    return Pair(ours, kios, kio_kind, is_array, is_optional, struct)


# From values of ours to values of kio's


def to_kio(message: Struct, kio_class: Any, version: int) -> Any:
    values = {}
    for pair in pairs(type(message), kio_class, version):
        value = getattr(message, pair.ours.name)
        values[pair.kios.name] = kio_value(value, pair, version)
    return kio_class(**values)


def kio_value(value: Any, pair: Pair, version: int) -> Any:
    if pair.is_array:
        return None if value is None else tuple(_one(each, pair, version) for each in value)
    return _one(value, pair, version)


def _one(value: Any, pair: Pair, version: int) -> Any:
    if pair.struct is not None:
        if value is None and not pair.is_optional:  # tagged and absent
            assert isinstance(pair.ours.element, StructType)
            value = pair.ours.element()
        return None if value is None else to_kio(value, pair.struct, version)
    if pair.kio_kind == "uuid":
        return None if value == NO_TOPIC_ID else uuid.UUID(bytes=value)
    if pair.kio_kind == "error_code":
        return KioErrorCode(value)
    if pair.kio_kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if pair.kio_kind == "datetime_i64":
        return None if value == -1 else EPOCH + datetime.timedelta(milliseconds=value)
    return value


# Generating values of ours


def messages(layout: StructType, kio_class: Any, version: int) -> st.SearchStrategy[Any]:
    """Messages in which every field of this version varies, and no other."""
    fields = {pair.ours.name: _values(pair, version) for pair in pairs(layout, kio_class, version)}
    return st.fixed_dictionaries(fields).map(lambda values: layout(**values))


def _values(pair: Pair, version: int) -> st.SearchStrategy[Any]:
    element = pair.ours.element
    one: st.SearchStrategy[Any]
    if isinstance(element, StructType):
        one = messages(element, pair.struct, version)
    else:
        one = VALUES[pair.kio_kind]
    if pair.kio_kind == "datetime_i64" and not pair.is_optional:
        one = st.integers(0, 2**37).map(lambda seconds: seconds * 1000)
    if pair.is_array:
        one = st.lists(one, max_size=2)
    if version in pair.ours.nullable:
        one = st.one_of(st.none(), one)
    elif version in pair.ours.tagged and isinstance(element, StructType) and not pair.is_array:
        # A struct full of defaults is not written, and so reads back as absent.
        absent = element()
        one = st.one_of(st.none(), one.map(lambda value: None if value == absent else value))
    return one


# Encoding by kio


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    kio.serial.entity_writer(type(entity))(out, entity)
    return out.getvalue()


def kio_decode(kio_class: Any, content: bytes) -> Any:
    entity, size = kio.serial.entity_reader(kio_class)(content, 0)
    assert size == len(content)
    return entity


def kio_class_of(message_class: type[Message], key: int, version: int) -> Any:
    """Kio's class for a message, or None if it knows no such version."""
    kind = EntityType.request if issubclass(message_class, Request) else EntityType.response
    name = all_apis()[key].module_name
    try:
        return kio.index.load_entity_schema(name, version, kind)
    except kio.index.UnknownEntity:
        return None


def every_version() -> list[tuple[AnyApi, int]]:
    return [
        (api, version)
        for api in all_apis().values()
        if api.key < FIRST_OWN_KEY
        for version in range(api.min_version, api.max_version + 1)
    ]
