"""Whether data of one Avro schema can be read with another: the schema resolution of Avro.

The verdicts, the names of the reasons and the paths are those of Avro's Java library, which
Confluent's registry uses. Some of them are wider than the specification: a record matches by its
name without the namespace, and `decimal` may change its scale.

A pair of types that is being compared counts as compatible until it is proven not to be, so that
recursive types end. Each pair is compared once, so that the time is bounded by the product of the
numbers of types. Unions are compared each member with each, so that the number is limited as well.
"""

from collections.abc import Iterable
from typing import Final

from odradek.schemas.avro_schema import AvroSchema
from odradek.schemas.avro_types import Field, Node
from odradek.schemas.parsed import Incompatibility

# The types that a reader's type accepts besides itself.
_PROMOTED: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
_MAX_REPORTED: Final = 200
_MAX_COMPARISONS: Final = 200_000


class _TooMany(Exception):
    pass


def compare(reader: AvroSchema, writer: AvroSchema) -> list[Incompatibility]:
    try:
        return list(_Comparison(reader, writer).found(reader.root, writer.root, ()))
    except _TooMany:
        message = "The {reader} and the {writer} schema have too many types to compare all of them"
        return [Incompatibility("SCHEMA_TOO_COMPLEX", "/", message)]


class _Comparison:
    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._known: dict[tuple[int, int], tuple[Incompatibility, ...]] = {}
        # Keeps the compared types alive, because they are known by their addresses.
        self._kept: list[tuple[Node, Node]] = []
        self._budget = _MAX_COMPARISONS

    def found(
        self, reader: Node, writer: Node, path: tuple[str, ...]
    ) -> tuple[Incompatibility, ...]:
        self._budget -= 1
        if self._budget < 0:
            raise _TooMany
        reader = self._reader.resolved(reader)
        writer = self._writer.resolved(writer)
        key = (id(reader), id(writer))
        if key not in self._known:
            self._kept.append((reader, writer))
            self._known[key] = ()
            distinct = dict.fromkeys(self._compared(reader, writer, path))
            self._known[key] = tuple(distinct)[:_MAX_REPORTED]
        return self._known[key]

    def _compared(
        self, reader: Node, writer: Node, path: tuple[str, ...]
    ) -> Iterable[Incompatibility]:
        if _kind(reader) == _kind(writer):
            yield from self._same_kind(reader, writer, path)
        elif writer.kind == "union":
            for index, member in enumerate(writer.members):
                yield from self.found(reader, member, (*path, str(index)))
        elif reader.kind == "union":
            if all(self.found(member, writer, path) for member in reader.members):
                yield _branch_missing(writer, path)
        elif writer.kind not in _PROMOTED.get(reader.kind, ()):
            yield Incompatibility(
                "TYPE_MISMATCH",
                _pointer(path),
                f"The type at path '{_pointer(path)}' is {reader.kind} in the {{reader}} schema and"
                f" {writer.kind} in the {{writer}} schema",
                f"reader type: {reader.kind.upper()} not compatible with writer type:"
                f" {writer.kind.upper()}",
            )

    def _same_kind(
        self, reader: Node, writer: Node, path: tuple[str, ...]
    ) -> Iterable[Incompatibility]:
        match reader.kind:
            case "array":
                yield from self.found(reader.members[0], writer.members[0], (*path, "items"))
            case "map":
                yield from self.found(reader.members[0], writer.members[0], (*path, "values"))
            case "union":
                for index, member in enumerate(writer.members):
                    if self.found(reader, member, (*path, str(index))):
                        yield _branch_missing(member, (*path, str(index)))
            case "fixed":
                yield from _names(reader, writer, path)
                yield from _sizes(reader, writer, (*path, "size"))
            case "enum":
                yield from _names(reader, writer, path)
                yield from _symbols(reader, writer, (*path, "symbols"))
            case "record" | "error":
                # Records of different names are not the same thing: their fields do not matter.
                mismatch = list(_names(reader, writer, path))
                yield from mismatch or self._fields(reader, writer, (*path, "fields"))

    def _fields(
        self, reader: Node, writer: Node, path: tuple[str, ...]
    ) -> Iterable[Incompatibility]:
        written = {field.name: field for field in writer.fields}
        for index, wanted in enumerate(reader.fields):
            at = (*path, str(index))
            sources = [written[name] for name in (wanted.name, *wanted.aliases) if name in written]
            if len(sources) > 1:
                yield _ambiguous(wanted, sources, at)
            elif sources:
                yield from self.found(wanted.type, sources[0].type, (*at, "type"))
            elif not wanted.has_default:
                kind = self._reader.resolved(wanted.type)
                if kind.kind == "enum" and kind.default is not None:
                    # Java compares the enum to the whole record, which never fits.
                    yield from self.found(wanted.type, writer, (*at, "type"))
                else:
                    yield Incompatibility(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        _pointer(at),
                        f"The field '{wanted.name}' at path '{_pointer(at)}' of the {{reader}}"
                        " schema has no default, and the {writer} schema does not have it",
                        wanted.name,
                    )


def _kind(node: Node) -> str:
    return "record" if node.kind == "error" else node.kind


def _pointer(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


def _branch_missing(writer: Node, path: tuple[str, ...]) -> Incompatibility:
    kind = writer.name or writer.kind
    return Incompatibility(
        "MISSING_UNION_BRANCH",
        _pointer(path),
        f"The union at path '{_pointer(path)}' of the {{reader}} schema has no type for {kind} of"
        " the {writer} schema",
        f"reader union lacking writer type: {writer.kind.upper()}",
    )


def _ambiguous(wanted: Field, sources: list[Field], path: tuple[str, ...]) -> Incompatibility:
    names = ", ".join(source.name for source in sources)
    return Incompatibility(
        "READER_FIELD_AMBIGUOUS",
        _pointer(path),
        f"The field '{wanted.name}' at path '{_pointer(path)}' of the {{reader}} schema has several"
        f" fields of the {{writer}} schema by its aliases: {names}",
    )


def _names(reader: Node, writer: Node, path: tuple[str, ...]) -> Iterable[Incompatibility]:
    if reader.short_name != writer.short_name and writer.name not in reader.aliases:
        at = _pointer((*path, "name"))
        yield Incompatibility(
            "NAME_MISMATCH",
            at,
            f"The name at path '{at}' is {reader.name} in the {{reader}} schema and {writer.name}"
            " in the {writer} schema; an alias can say that they are the same",
            f"expected: {writer.name}",
        )


def _sizes(reader: Node, writer: Node, path: tuple[str, ...]) -> Iterable[Incompatibility]:
    if reader.size != writer.size:
        yield Incompatibility(
            "FIXED_SIZE_MISMATCH",
            _pointer(path),
            f"The size at path '{_pointer(path)}' is {reader.size} in the {{reader}} schema and"
            f" {writer.size} in the {{writer}} schema",
            f"expected: {writer.size}, found: {reader.size}",
        )


def _symbols(reader: Node, writer: Node, path: tuple[str, ...]) -> Iterable[Incompatibility]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if missing and reader.default is None:
        yield Incompatibility(
            "MISSING_ENUM_SYMBOLS",
            _pointer(path),
            f"The enum at path '{_pointer(path)}' of the {{reader}} schema has no default and not"
            f" the symbols {', '.join(missing)[:500]} of the {{writer}} schema",
            f"[{', '.join(missing)[:500]}]",
        )
