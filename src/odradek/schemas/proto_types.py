"""The types that a `.proto` file can name: its own, and those of the files that it imports."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.schemas.parsed import Reference
from odradek.schemas.proto_model import Enum, Extend, Field, Message, ProtoFile

# Stands for the file itself where another one would have a reference.
LOCAL: Final = Reference("", "", -1)


class TypeInfo(NamedTuple):
    """A message or an enum. `reference` is how its file was imported: `LOCAL` for the schema
    itself, None for files that a reference imports in turn or that everybody knows."""

    package: str
    reference: Reference | None
    element: Message | Enum

    @property
    def is_enum(self) -> bool:
        return isinstance(self.element, Enum)


class TypeTable:
    """Types and extension fields by their full names, without a dot at the beginning."""

    def __init__(self) -> None:
        self.types: dict[str, TypeInfo] = {}
        self.extensions: dict[str, Field] = {}

    def add(self, file: ProtoFile, reference: Reference | None) -> None:
        scope = tuple(file.package.split(".")) if file.package else ()
        self._add_extends(file.extends, scope)
        self._add_types(file.messages, file.enums, file.package, scope, reference)

    def _add_types(
        self,
        messages: Iterable[Message],
        enums: Iterable[Enum],
        package: str,
        scope: tuple[str, ...],
        reference: Reference | None,
    ) -> None:
        for enum in enums:
            self.types[".".join((*scope, enum.name))] = TypeInfo(package, reference, enum)
        for message in messages:
            inside = (*scope, message.name)
            self.types[".".join(inside)] = TypeInfo(package, reference, message)
            self._add_extends(message.extends, inside)
            grouped = [group.message for group in message.groups]
            grouped += [group.message for oneof in message.oneofs for group in oneof.groups]
            nested = (*message.messages, *grouped)
            self._add_types(nested, message.enums, package, inside, reference)

    def _add_extends(self, extends: Iterable[Extend], scope: tuple[str, ...]) -> None:
        for extend in extends:
            for field in extend.fields:
                self.extensions[".".join((*scope, field.name))] = field

    def resolve(self, name: str, scope: tuple[str, ...]) -> str | None:
        """Returns the full name of a type that is named within a scope: packages and messages, the
        innermost last."""
        return _resolve(self.types, name, scope)

    def resolve_extension(self, name: str, scope: tuple[str, ...]) -> str | None:
        return _resolve(self.extensions, name, scope)


def _resolve(known: Mapping[str, object], name: str, scope: tuple[str, ...]) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    for length in range(len(scope), -1, -1):
        full = ".".join((*scope[:length], name))
        if full in known:
            return full
    return None
