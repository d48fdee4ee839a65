"""The normal form of a Protobuf schema, by the rules of Confluent's registry.

Types have their full names, with a dot at the beginning. Imports, fields, values of enums, reserved
numbers and options are sorted. Messages keep their order, because clients name a message by its
position. Maps that a compiled schema has as messages are maps again.
"""

from collections.abc import Iterable
from dataclasses import replace

from odradek.schemas.proto_model import (
    SCALARS,
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Service,
    Value,
)
from odradek.schemas.proto_types import TypeTable

_LAST = 2**32


def normalize(file: ProtoFile, table: TypeTable) -> ProtoFile:
    return _Normalizer(table).file(file)


class _Normalizer:
    def __init__(self, table: TypeTable) -> None:
        self._table = table

    def file(self, file: ProtoFile) -> ProtoFile:
        scope = tuple(file.package.split(".")) if file.package else ()
        return ProtoFile(
            "proto3" if file.is_proto3 else "",
            file.package,
            tuple(sorted(set(file.imports))),
            tuple(sorted(set(file.public_imports))),
            tuple(sorted(set(file.weak_imports))),
            tuple(
                self._message(message, (*scope, message.name), file) for message in file.messages
            ),
            tuple(self._enum(enum, scope, file) for enum in file.enums),
            self._extends(file.extends, scope),
            tuple(self._service(service, scope) for service in file.services),
            self._options(file.options, scope),
        )

    def _message(self, message: Message, scope: tuple[str, ...], file: ProtoFile) -> Message:
        oneofs = [
            OneOf(
                oneof.name,
                self._fields(oneof.fields, scope),
                self._groups(oneof.groups, scope, file),
                self._options(oneof.options, scope),
            )
            for oneof in message.oneofs
            if oneof.fields or oneof.groups
        ]
        extensions = [
            Extensions((each,), self._options(extension.options, scope))
            for extension in message.extensions
            for each in extension.ranges
        ]
        return Message(
            message.name,
            self._fields(message.fields, scope),
            tuple(sorted(oneofs, key=_first_tag)),
            self._groups(message.groups, scope, file),
            tuple(
                self._message(one, (*scope, one.name), file)
                for one in message.messages
                if not one.is_map_entry
            ),
            tuple(self._enum(enum, scope, file) for enum in message.enums),
            self._extends(message.extends, scope),
            tuple(sorted(extensions, key=lambda one: one.ranges)),
            _reserved(message.reserved),
            self._options(message.options, scope),
        )

    def _groups(
        self, groups: Iterable[Group], scope: tuple[str, ...], file: ProtoFile
    ) -> tuple[Group, ...]:
        made = [
            replace(group, message=self._message(group.message, (*scope, group.message.name), file))
            for group in groups
        ]
        return tuple(sorted(made, key=lambda one: one.tag))

    def _fields(self, fields: Iterable[Field], scope: tuple[str, ...]) -> tuple[Field, ...]:
        made = [self._field(field, scope) for field in fields]
        return tuple(sorted(made, key=lambda one: one.tag))

    def _field(self, field: Field, scope: tuple[str, ...]) -> Field:
        kinds = field.map_types
        if kinds is None and field.type not in SCALARS:
            full = self._table.resolve(field.type, scope)
            element = None if full is None else self._table.types[full].element
            if isinstance(element, Message) and element.is_map_entry:
                types = {one.name: one.type for one in element.fields}
                kinds = types.get("key", ""), types.get("value", "")
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", False, field.default))
        if field.json_name is not None:
            options.append(Option("json_name", False, Value("string", field.json_name)))
        if kinds is None:
            kind, label = self._full(field.type, scope), field.label
        else:
            kind, label = f"map<{kinds[0]}, {self._full(kinds[1], scope)}>", ""
        # The default and the JSON name are sorted among the other options.
        return Field(field.name, field.tag, kind, label, options=self._options(options, scope))

    def _full(self, name: str, scope: tuple[str, ...]) -> str:
        full = None if name in SCALARS else self._table.resolve(name, scope)
        return name if full is None else f".{full}"

    def _enum(self, enum: Enum, scope: tuple[str, ...], file: ProtoFile) -> Enum:
        inside = (*scope, enum.name)
        values = [
            replace(value, options=self._options(value.options, inside)) for value in enum.values
        ]
        # In proto3 the first value must be 0 even if there are negative ones.
        values.sort(key=lambda one: (file.is_proto3 and one.tag != 0, one.tag, one.name))
        options = self._options(enum.options, inside)
        return Enum(enum.name, tuple(values), options, _reserved(enum.reserved))

    def _extends(self, extends: Iterable[Extend], scope: tuple[str, ...]) -> tuple[Extend, ...]:
        merged: dict[str, list[Field]] = {}
        for extend in extends:
            merged.setdefault(self._full(extend.name, scope), []).extend(extend.fields)
        return tuple(Extend(name, self._fields(fields, scope)) for name, fields in merged.items())

    def _service(self, service: Service, scope: tuple[str, ...]) -> Service:
        return Service(
            service.name,
            tuple(
                replace(
                    rpc,
                    request=self._full(rpc.request, scope),
                    response=self._full(rpc.response, scope),
                    options=self._options(rpc.options, scope),
                )
                for rpc in service.rpcs
            ),
            self._options(service.options, scope),
        )

    def _options(self, options: Iterable[Option], scope: tuple[str, ...]) -> tuple[Option, ...]:
        """Sorted options. `(name).inner = 1` is written as a map, and maps of one option that is
        not repeated are one."""
        merged: dict[tuple[str, bool], list[Option]] = {}
        for option in options:
            name, value = option.name, option.value
            if option.is_extension:
                name = self._table.resolve_extension(name, scope) or name
                value = _as_map(value)
            made = Option(name, option.is_extension, _sorted_value(value))
            merged.setdefault((name, option.is_extension), []).append(made)
        result: list[Option] = []
        for (name, is_extension), same in sorted(merged.items()):
            known = self._table.extensions.get(name) if is_extension else None
            if known is not None and known.label != "repeated":
                result.append(Option(name, is_extension, _merged([one.value for one in same])))
            else:
                result += same
        return tuple(result)


def _first_tag(oneof: OneOf) -> int:
    tags = [field.tag for field in oneof.fields]
    return min(tags + [group.tag for group in oneof.groups])


def _reserved(reserved: Iterable[tuple[Range | str, ...]]) -> tuple[tuple[Range | str, ...], ...]:
    each = [one for several in reserved for one in several]
    each.sort(key=lambda one: (_LAST, 0, one) if isinstance(one, str) else (*one, ""))
    return tuple((one,) for one in each)


def _as_map(value: Value) -> Value:
    if value.kind != "option":
        return value
    inner: Option = value.content
    key = f"[{inner.name}]" if inner.is_extension else inner.name
    return Value("map", ((key, _as_map(inner.value)),))


def _sorted_value(value: Value) -> Value:
    if value.kind == "map":
        pairs = sorted((key, _sorted_value(inner)) for key, inner in value.content)
        kept = [(key, inner) for key, inner in pairs if inner != Value("list", ())]
        return Value("map", tuple(kept))
    if value.kind == "list":
        elements = tuple(_sorted_value(element) for element in value.content)
        return elements[0] if len(elements) == 1 else Value("list", elements)
    return value


def _merged(values: list[Value]) -> Value:
    """Several values of an option that is a message are one, others replace each other."""
    result = values[0]
    for value in values[1:]:
        if result.kind == value.kind == "map":
            pairs = dict(result.content)
            for key, inner in value.content:
                pairs[key] = _merged([pairs[key], inner]) if key in pairs else inner
            result = _sorted_value(Value("map", tuple(pairs.items())))
        else:
            result = value
    return result
