"""What a new Protobuf schema must fulfil besides the grammar: what protoc refuses in names and
numbers, with one line that says where.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.proto_model import (
    MAX_TAG,
    SCALARS,
    Enum,
    Field,
    Message,
    ProtoFile,
    Range,
)
from odradek.schemas.proto_types import TypeTable

_IMPLEMENTATION: Final = Range(19_000, 19_999)
_MAX_ENUM: Final = 2**31 - 1
_KEYS: Final = SCALARS - {"double", "float", "bytes"}


def check_file(file: ProtoFile, table: TypeTable) -> None:
    _Checks(file, table).file()


class _Checks:
    def __init__(self, file: ProtoFile, table: TypeTable) -> None:
        self._file = file
        self._table = table

    def file(self) -> None:
        file = self._file
        scope = tuple(file.package.split(".")) if file.package else ()
        names = [message.name for message in file.messages]
        names += [enum.name for enum in file.enums] + [service.name for service in file.services]
        _once(names, "the schema declares")
        self._types(file.messages, file.enums, scope)
        for extend in file.extends:
            for field in extend.fields:
                self._type(field, field.type, scope, extend.name)
        for service in file.services:
            _once([rpc.name for rpc in service.rpcs], f"the service {service.name} has")
            for rpc in service.rpcs:
                for name in (rpc.request, rpc.response):
                    if self._table.resolve(name, scope) is None:
                        raise InvalidSchema(
                            f"the rpc {service.name}.{rpc.name} uses the type {name}, which is not"
                            f" defined{self._hint()}"
                        )

    def _types(
        self, messages: Iterable[Message], enums: Iterable[Enum], scope: tuple[str, ...]
    ) -> None:
        for message in messages:
            self._message(message, (*scope, message.name))
        for enum in enums:
            self._enum(enum)

    def _message(self, message: Message, scope: tuple[str, ...]) -> None:
        name = ".".join(scope)
        groups = [*message.groups, *(group for oneof in message.oneofs for group in oneof.groups)]
        fields = [field for field, _ in message.all_fields()]
        _once(
            [field.name for field in fields] + [one.name for one in message.oneofs], f"{name} has"
        )
        tags = Counter([field.tag for field in fields] + [group.tag for group in groups])
        for tag, count in tags.items():
            if count > 1:
                raise InvalidSchema(f"{name} has the number {tag} for several fields")
        nested = [one.name for one in message.messages]
        _once(nested + [enum.name for enum in message.enums], f"{name} declares")
        reserved = _Reserved(one for several in message.reserved for one in several)
        for group in groups:
            _check_number(group.message.name, group.tag, name, reserved)
        for field in fields:
            _check_number(field.name, field.tag, name, reserved)
            self._field(field, scope, name)
        for oneof in message.oneofs:
            if not oneof.fields and not oneof.groups:
                raise InvalidSchema(f"the oneof {name}.{oneof.name} has no field")
        self._types(message.messages, message.enums, scope)
        self._types([group.message for group in groups], (), scope)
        for extend in message.extends:
            for field in extend.fields:
                self._type(field, field.type, scope, extend.name)

    def _field(self, field: Field, scope: tuple[str, ...], message: str) -> None:
        where = f"{message}.{field.name}"
        if self._file.is_proto3 and field.label == "required":
            raise InvalidSchema(f"{where} is required, which proto3 does not have")
        if self._file.is_proto3 and field.default is not None:
            raise InvalidSchema(f"{where} has a default, which proto3 does not have")
        kinds = field.map_types
        if kinds is None:
            self._type(field, field.type, scope, message)
            return
        key, value = kinds
        if key not in _KEYS:
            raise InvalidSchema(
                f"the keys of {where} are {key}: use a whole number, bool or string"
            )
        if field.label:
            raise InvalidSchema(f"{where} is a map, which cannot be {field.label}")
        self._type(field, value, scope, message)

    def _type(self, field: Field, kind: str, scope: tuple[str, ...], message: str) -> None:
        if kind not in SCALARS and self._table.resolve(kind, scope) is None:
            raise InvalidSchema(
                f"{message}.{field.name} has the type {kind}, which is not defined{self._hint()}"
            )

    def _hint(self) -> str:
        file = self._file
        imports = [*file.imports, *file.public_imports, *file.weak_imports]
        return f" here nor in {', '.join(imports)[:200]}" if imports else ""

    def _enum(self, enum: Enum) -> None:
        if not enum.values:
            raise InvalidSchema(f"the enum {enum.name} has no value")
        if self._file.is_proto3 and enum.values[0].tag != 0:
            raise InvalidSchema(f"the first value of the enum {enum.name} must be 0 in proto3")
        _once([value.name for value in enum.values], f"the enum {enum.name} has")
        may_alias = any(
            option.name == "allow_alias" and option.value.content == "true"
            for option in enum.options
        )
        seen: set[int] = set()
        for value in enum.values:
            if not -_MAX_ENUM - 1 <= value.tag <= _MAX_ENUM:
                raise InvalidSchema(f"{enum.name}.{value.name} = {value.tag} is out of range")
            if value.tag in seen and not may_alias:
                raise InvalidSchema(
                    f"the enum {enum.name} has the number {value.tag} twice: the option allow_alias"
                    " allows that"
                )
            seen.add(value.tag)


class _Reserved:
    """The reserved names and numbers of a message."""

    def __init__(self, values: Iterable[Range | str]) -> None:
        self._names: set[str] = set()
        self._ranges: list[Range] = []
        for value in values:
            if isinstance(value, str):
                self._names.add(value)
            else:
                self._ranges.append(value)
        # The highest end of all ranges up to each one, so that one look-up is enough.
        self._ranges.sort()
        self._ends = list(accumulate((one.last for one in self._ranges), max))

    def has(self, name: str, tag: int) -> bool:
        before = bisect_right(self._ranges, tag, key=lambda one: one.first)
        return name in self._names or (before > 0 and tag <= self._ends[before - 1])


def _check_number(name: str, tag: int, message: str, reserved: _Reserved) -> None:
    if not 1 <= tag <= MAX_TAG or _IMPLEMENTATION.first <= tag <= _IMPLEMENTATION.last:
        raise InvalidSchema(
            f"{message}.{name} has the number {tag}: use one from 1 to {MAX_TAG}, but not from"
            f" {_IMPLEMENTATION.first} to {_IMPLEMENTATION.last}"
        )
    if reserved.has(name, tag):
        raise InvalidSchema(f"{message}.{name} = {tag} is reserved in {message}")


def _once(names: list[str], sentence: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidSchema(f"{sentence} {name!r} {count} times")
