"""Whether messages of one Protobuf schema can be read with another, by Confluent's rules.

Fields are compared by their number, wherever they are in a message. Fields may be added, removed
and renamed. What is not compatible: a type of another wire format, fewer fields in a oneof, fields
that exclude each other only now, required fields that come or go, messages that are gone, and
another package. docs/schema-compatibility.md lists the rules.

Messages of imported files are compared where a field uses them, each pair once.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.schemas.parsed import Incompatibility
from odradek.schemas.proto_file import ProtobufSchema
from odradek.schemas.proto_model import SCALARS, Field, Message, OneOf
from odradek.schemas.proto_types import TypeInfo

_MAX_REPORTED: Final = 1_000
_ENUM: Final = "enum"
# Scalars of one group have the same wire format and values that can be converted.
_GROUPS: Final = {
    "int32": "number",
    "int64": "number",
    "uint32": "number",
    "uint64": "number",
    "bool": "number",
    _ENUM: "number",
    "sint32": "zigzag number",
    "sint64": "zigzag number",
    "string": "string or bytes",
    "bytes": "string or bytes",
    "fixed32": "32 bits",
    "sfixed32": "32 bits",
    "fixed64": "64 bits",
    "sfixed64": "64 bits",
    "float": "float",
    "double": "double",
}


class _Place(NamedTuple):
    """Where names are resolved in both schemas, and what messages call the place."""

    packages: tuple[str, str]
    path: tuple[str, ...]

    def inside(self, name: str) -> "_Place":
        return self._replace(path=(*self.path, name))

    def scope(self, side: int) -> tuple[str, ...]:
        package = self.packages[side]
        return (*package.split("."), *self.path) if package else self.path


class _Kind(NamedTuple):
    """What a field holds: a scalar, enum, message or map. `full_name` is of messages that are
    known."""

    kind: str
    name: str
    full_name: str | None = None
    info: TypeInfo | None = None


def compare(writer: ProtobufSchema, reader: ProtobufSchema) -> list[Incompatibility]:
    found = dict.fromkeys(_Comparison(writer, reader).files())
    return list(found)[:_MAX_REPORTED]


class _Comparison:
    """`sides` are the writer's and the reader's schema, in this order everywhere."""

    def __init__(self, writer: ProtobufSchema, reader: ProtobufSchema) -> None:
        self._sides = (writer, reader)
        self._known: dict[tuple[str, str], list[Incompatibility]] = {}

    def files(self) -> Iterator[Incompatibility]:
        old, new = (side.file for side in self._sides)
        if old.package != new.package:
            yield _found(
                "PACKAGE_CHANGED",
                (),
                f"The package is {new.package or 'none'} in the {{reader}} schema and"
                f" {old.package or 'none'} in the {{writer}} schema",
            )
        place = _Place((old.package, new.package), ())
        yield from self._messages(old.messages, new.messages, place)

    def _messages(
        self, old: tuple[Message, ...], new: tuple[Message, ...], place: _Place
    ) -> Iterator[Incompatibility]:
        readers = {message.name: message for message in new}
        for before in old:
            after = readers.get(before.name)
            inside = place.inside(before.name)
            if after is not None:
                yield from self._message(before, after, inside)
            elif not before.is_map_entry:
                yield _found(
                    "MESSAGE_REMOVED",
                    inside.path,
                    "The {reader} schema has no message at path 'PATH', which the {writer} schema"
                    " has",
                )

    def _message(self, old: Message, new: Message, place: _Place) -> Iterator[Incompatibility]:
        before = {field.tag: (field, oneof) for field, oneof in old.all_fields()}
        after = {field.tag: (field, oneof) for field, oneof in new.all_fields()}
        for oneof in new.oneofs:
            yield from _exclusions(oneof, before, place.path)
        deleted = _deleted_oneofs(old, new, set(after))
        for tag in sorted(before.keys() | after.keys()):
            if tag not in after:
                yield from _field_removed(*before[tag], deleted, place.path)
            elif tag not in before:
                yield from _field_added(*after[tag], place.path)
            else:
                old_field, (new_field, within) = before[tag][0], after[tag]
                path = (*place.path, *(() if within is None else (within.name,)), str(tag))
                labels = (old_field.label, new_field.label)
                yield from self._types((old_field.type, new_field.type), labels, place, path)
        yield from self._messages(old.messages, new.messages, place)

    def _types(
        self,
        types: tuple[str, str],
        labels: tuple[str, str],
        place: _Place,
        path: tuple[str, ...],
    ) -> Iterator[Incompatibility]:
        old_map, new_map = self._map(types[0], place, 0), self._map(types[1], place, 1)
        old, new = (self._kind(types[0], place, 0), self._kind(types[1], place, 1))
        if old_map is not None and new_map is not None:
            for inner in zip(old_map, new_map, strict=True):
                yield from self._types(inner, ("", ""), place, path)
        elif old_map is not new_map or (old.kind == "message") != (new.kind == "message"):
            shown = [
                "map" if each else kind.name for each, kind in ((old_map, old), (new_map, new))
            ]
            yield _found(
                "FIELD_KIND_CHANGED",
                path,
                f"The field at path 'PATH' is {shown[1]} in the {{reader}} schema and {shown[0]} in"
                " the {writer} schema",
            )
        elif old.kind == "message":
            yield from self._message_field(old, new, path)
        else:
            yield from _scalars(old, new, labels, path)

    def _map(self, name: str, place: _Place, side: int) -> tuple[str, str] | None:
        """Returns the types of key and value if a type is a map, in either notation."""
        written = Field("", 0, name).map_types
        if written is not None:
            return written
        found = self._kind(name, place, side)
        message = None if found.info is None else found.info.element
        if not isinstance(message, Message) or not message.is_map_entry:
            return None
        types = {field.name: field.type for field in message.fields}
        return types.get("key", ""), types.get("value", "")

    def _kind(self, name: str, place: _Place, side: int) -> _Kind:
        if name in SCALARS:
            return _Kind(name, name)
        table = self._sides[side].types
        full = table.resolve(name, place.scope(side))
        if full is None:
            return _Kind("message", name)
        info = table.types[full]
        return _Kind(_ENUM if info.is_enum else "message", name, full, info)

    def _message_field(
        self, old: _Kind, new: _Kind, path: tuple[str, ...]
    ) -> Iterator[Incompatibility]:
        if old.info is None or new.info is None:
            if old.name != new.name:
                yield _type_changed(old.name, new.name, path)
            return
        names = _local_name(old), _local_name(new)
        if names[0] != names[1]:
            yield _type_changed(*names, path)
            return
        references = old.info.reference, new.info.reference
        if None not in references and references[0][1:] == references[1][1:]:  # type: ignore[index]
            # Both are of the file itself, where they are compared anyway, or the same import.
            return
        found = self._imported(old, new, names[0])
        yield from found
        if found:
            yield _type_changed(str(old.full_name), str(new.full_name), path)

    def _imported(self, old: _Kind, new: _Kind, name: str) -> list[Incompatibility]:
        key = str(old.full_name), str(new.full_name)
        if key not in self._known:
            self._known[key] = []
            assert old.info is not None
            assert new.info is not None
            before, after = old.info.element, new.info.element
            assert isinstance(before, Message)
            assert isinstance(after, Message)
            place = _Place((old.info.package, new.info.package), tuple(name.split(".")))
            self._known[key] = list(self._message(before, after, place))[:_MAX_REPORTED]
        return self._known[key]


def _local_name(kind: _Kind) -> str:
    assert kind.info is not None
    return str(kind.full_name).removeprefix(f"{kind.info.package}.")


def _scalars(
    old: _Kind, new: _Kind, labels: tuple[str, str], path: tuple[str, ...]
) -> Iterator[Incompatibility]:
    groups = _GROUPS[old.kind], _GROUPS[new.kind]
    if groups[0] != groups[1]:
        yield _found(
            "FIELD_SCALAR_KIND_CHANGED",
            path,
            f"The field at path 'PATH' is {new.name} in the {{reader}} schema and {old.name} in the"
            " {writer} schema, which are not written in the same way",
        )
    elif all(labels) and labels[0] != labels[1] and groups[0] != "string or bytes":
        yield _found(
            "FIELD_NUMERIC_LABEL_CHANGED",
            path,
            f"The number at path 'PATH' is {labels[1]} in the {{reader}} schema and {labels[0]} in"
            " the {writer} schema",
        )


def _exclusions(
    oneof: OneOf, before: dict[int, tuple[Field, OneOf | None]], path: tuple[str, ...]
) -> Iterator[Incompatibility]:
    """Fields that could be set together must not come into one oneof. Fields that the writer does
    not have do no harm."""
    origins = set()
    moved_in = 0
    for field in oneof.fields:
        if field.tag in before:
            source = before[field.tag][1]
            origins.add(("field", str(field.tag)) if source is None else ("oneof", source.name))
            moved_in += source is None
    if len(origins) > 1:
        are_several = moved_in > 1
        yield _found(
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if are_several else "FIELD_MOVED_TO_EXISTING_ONEOF",
            (*path, oneof.name),
            "The oneof at path 'PATH' of the {reader} schema has"
            f" {'several fields' if are_several else 'a field'} that the {{writer}} schema has"
            " outside of it",
        )


def _deleted_oneofs(old: Message, new: Message, kept: set[int]) -> set[str]:
    """Returns the oneofs that are gone with all of their fields, which is compatible."""
    names = {oneof.name for oneof in new.oneofs}
    return {
        oneof.name
        for oneof in old.oneofs
        if oneof.name not in names and not any(field.tag in kept for field in oneof.fields)
    }


def _field_removed(
    field: Field, oneof: OneOf | None, deleted: set[str], path: tuple[str, ...]
) -> Iterator[Incompatibility]:
    if oneof is not None:
        if oneof.name not in deleted:
            yield _found(
                "ONEOF_FIELD_REMOVED",
                (*path, oneof.name, str(field.tag)),
                f"The {{reader}} schema lacks the field '{field.name}' at path 'PATH', which is in"
                " a oneof of the {writer} schema",
            )
    elif field.label == "required":
        yield _found(
            "REQUIRED_FIELD_REMOVED",
            (*path, str(field.tag)),
            f"The {{reader}} schema lacks the field '{field.name}' at path 'PATH', which the"
            " {writer} schema requires",
        )


def _field_added(
    field: Field, oneof: OneOf | None, path: tuple[str, ...]
) -> Iterator[Incompatibility]:
    if oneof is None and field.label == "required":
        yield _found(
            "REQUIRED_FIELD_ADDED",
            (*path, str(field.tag)),
            f"The {{reader}} schema requires the field '{field.name}' at path 'PATH', which the"
            " {writer} schema does not have",
        )


def _type_changed(old: str, new: str, path: tuple[str, ...]) -> Incompatibility:
    return _found(
        "FIELD_NAMED_TYPE_CHANGED",
        path,
        f"The field at path 'PATH' is of type {new} in the {{reader}} schema and of type {old} in"
        " the {writer} schema",
    )


def _found(kind: str, path: tuple[str, ...], message: str) -> Incompatibility:
    shown = "#/" + "/".join(path)
    return Incompatibility(kind, shown, message.replace("PATH", shown))
