"""Classes of a Protobuf schema: one for each message and each enum, also of imported files.

A field without presence has the default of its type, and so do repeated fields and maps. A field
with presence (optional, in a oneof, or a message) is None if it is not set.
"""

from collections.abc import Iterator
from typing import Final

from odradek.schemas.classes.model import (
    ANY,
    NONE,
    Attribute,
    Default,
    EnumClass,
    Hint,
    Module,
    RecordClass,
    dated,
    dict_of,
    imported,
    list_of,
    union_of,
)
from odradek.schemas.classes.naming import ClassNames, attribute_names, capitals, member_names
from odradek.schemas.proto_file import ProtobufSchema
from odradek.schemas.proto_model import SCALARS, Enum, Field, Message, OneOf, ProtoFile, Value

_FLOATS: Final = frozenset({"double", "float"})
_STRINGS: Final = {"string": (Hint("str"), '""'), "bytes": (Hint("bytes"), 'b""')}
_WRAPPERS: Final = {
    "Double": "float",
    "Float": "float",
    "Int64": "int",
    "UInt64": "int",
    "Int32": "int",
    "UInt32": "int",
    "Bool": "bool",
    "String": "str",
    "Bytes": "bytes",
}
# Messages that have a type of Python.
_WELL_KNOWN: Final = {
    "google.protobuf.Timestamp": dated("dt.datetime"),
    "google.protobuf.Duration": dated("dt.timedelta"),
    "google.protobuf.Struct": dict_of(ANY),
    "google.protobuf.Value": ANY,
    "google.protobuf.ListValue": list_of(ANY),
    "confluent.type.Decimal": imported("decimal", "Decimal"),
    **{f"google.protobuf.{name}Value": Hint(hint) for name, hint in _WRAPPERS.items()},
}


def protobuf_module(schema: ProtobufSchema) -> Module:
    return _Builder(schema).build()


class _Builder:
    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._module = Module()
        self._names = ClassNames()
        self._classes: dict[str, str] = {}

    def build(self) -> Module:
        files = [self._schema.file, *self._used_imports()]
        found = [
            (file, full, element)
            for file in files
            for full, element in _declared(file)
            if full not in _WELL_KNOWN
            and not (isinstance(element, Message) and element.is_map_entry)
        ]
        for file, full, _ in found:
            inside = full.removeprefix(f"{file.package}.") if file.package else full
            self._classes[full] = self._names.new(
                "".join(map(_first_up, inside.split("."))), capitals(full)
            )
        for _, full, element in found:
            if isinstance(element, Enum):
                self._module.enums.append(self._enum(full, element))
            else:
                self._module.records.append(self._record(full, element))
        return self._module

    def _used_imports(self) -> list[ProtoFile]:
        """Imported files with a type that has no type of Python."""
        return [
            file
            for name, file in self._schema.imports.items()
            if not name.startswith(("google/protobuf/descriptor", "confluent/"))
            and any(full not in _WELL_KNOWN for full, _ in _declared(file))
            and not name.startswith("google/protobuf/")
        ]

    def _enum(self, full: str, enum: Enum) -> EnumClass:
        names = member_names([value.name for value in enum.values])
        members = zip(names, (value.tag for value in enum.values), strict=True)
        return EnumClass(self._classes[full], tuple(members))

    def _record(self, full: str, message: Message) -> RecordClass:
        scope = tuple(full.split("."))
        fields = list(message.all_fields())
        names = attribute_names([field.name for field, _ in fields], self._classes.values())
        attributes = [
            self._attribute(scope, name, field, oneof)
            for name, (field, oneof) in zip(names, fields, strict=True)
        ]
        return RecordClass(self._classes[full], tuple(attributes))

    def _attribute(
        self, scope: tuple[str, ...], name: str, field: Field, oneof: OneOf | None
    ) -> Attribute:
        source = field.name if name != field.name else ""
        doc = f"One of {oneof.name}." if oneof is not None else ""
        kinds = field.map_types
        if kinds is not None:
            key = {"string": "str", "bool": "bool"}.get(kinds[0], "int")
            hint = dict_of(self._hint(kinds[1], scope), key)
            return Attribute(name, hint, Default(Hint("dict"), is_made=True), doc, source)
        hint = self._hint(field.type, scope)
        if field.label == "repeated":
            made = Default(Hint("list"), is_made=True)
            return Attribute(name, list_of(hint), made, doc, source)
        default = self._default(field, scope)
        is_present = oneof is not None or field.label == "optional" or default is None
        if field.label == "required":
            return Attribute(name, hint, None, doc, source)
        if is_present and field.default is None:
            return Attribute(name, union_of([hint, NONE]), Default(NONE), doc, source)
        return Attribute(name, hint, default, doc, source)

    def _hint(self, kind: str, scope: tuple[str, ...]) -> Hint:
        if kind in _STRINGS:
            return _STRINGS[kind][0]
        if kind in SCALARS:
            return Hint("bool" if kind == "bool" else "float" if kind in _FLOATS else "int")
        full = self._schema.types.resolve(kind, scope)
        if full in _WELL_KNOWN:
            return _WELL_KNOWN[full]
        return Hint(self._classes[full]) if full in self._classes else ANY

    def _default(self, field: Field, scope: tuple[str, ...]) -> Default | None:
        """Returns the default of a field: that which it states, or that of its type. Messages have
        none."""
        if field.type in _STRINGS:
            stated = "" if field.default is None else str(field.default.content)
            is_bytes = field.type == "bytes"
            text = repr(stated.encode("latin-1", "replace")) if is_bytes else _quoted(stated)
            return Default(Hint(text if stated else _STRINGS[field.type][1]))
        if field.type in SCALARS:
            return Default(Hint(_number(field.type, field.default)))
        full = self._schema.types.resolve(field.type, scope)
        element = None if full is None else self._schema.types.types[full].element
        if not isinstance(element, Enum) or full not in self._classes:
            return None
        names = [value.name for value in element.values]
        stated = names[0] if field.default is None else str(field.default.content)
        if stated not in names:
            return None
        member = member_names(names)[names.index(stated)]
        return Default(Hint(f"{self._classes[full]}.{member}"))


def _declared(file: ProtoFile) -> Iterator[tuple[str, Message | Enum]]:
    """Yields all messages and enums of a file by their full names, outer ones first."""
    scope = (file.package,) if file.package else ()
    waiting: list[tuple[tuple[str, ...], Message | Enum]] = []
    waiting += [((*scope, message.name), message) for message in file.messages]
    waiting += [((*scope, enum.name), enum) for enum in file.enums]
    while waiting:
        path, element = waiting.pop(0)
        yield ".".join(path), element
        if isinstance(element, Message):
            messages = [*element.messages, *(group.message for group in element.groups)]
            inside: list[tuple[tuple[str, ...], Message | Enum]] = []
            inside += [((*path, message.name), message) for message in messages]
            inside += [((*path, enum.name), enum) for enum in element.enums]
            waiting = inside + waiting


def _first_up(word: str) -> str:
    return word[:1].upper() + word[1:]


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"' if text.isprintable() else repr(text)


def _number(kind: str, stated: Value | None) -> str:
    text = None if stated is None else str(stated.content)
    if kind == "bool":
        return "True" if text == "true" else "False"
    if kind in _FLOATS:
        if text is None:
            return "0.0"
        number = float(text.rstrip("fF") if text[-1:] in "fF" and "inf" not in text else text)
        return repr(number) if number - number == 0 else f'float("{number}")'
    if text is None:
        return "0"
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    return f"{sign}{int(digits, 8 if is_octal else 0)}"
