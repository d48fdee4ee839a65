"""Protobuf schemas as a schema registry sees them: proto2 and proto3, as text or compiled.

The parser is our own: docs/decisions/0059-protobuf-schemas.md says why it is not protoc. Texts are
stored as `proto_printing` writes them, so that a compiled schema and its text are the same schema.
"""

from collections.abc import Mapping

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.parsed import Incompatibility, ParsedSchema, Reference
from odradek.schemas.proto_checks import check_file
from odradek.schemas.proto_descriptors import decode, is_encoded, well_known
from odradek.schemas.proto_extensions import without_extensions
from odradek.schemas.proto_model import ProtoFile
from odradek.schemas.proto_normal import normalize
from odradek.schemas.proto_parsing import parse_proto
from odradek.schemas.proto_printing import print_proto
from odradek.schemas.proto_types import LOCAL, TypeTable


class ProtobufSchema(ParsedSchema):
    schema_type = "PROTOBUF"

    def __init__(
        self,
        file: ProtoFile,
        imports: Mapping[str, ProtoFile],
        references: tuple[Reference, ...],
    ) -> None:
        self.file = file
        self.references = references
        self.text = print_proto(file)
        self.imports = imports
        self.types = TypeTable()
        by_name = {reference.name: reference for reference in references}
        for name, imported in imports.items():
            self.types.add(imported, by_name.get(name))
        self.types.add(file, LOCAL)

    def normalized(self) -> "ProtobufSchema":
        references = tuple(sorted(set(self.references)))
        return ProtobufSchema(normalize(self.file, self.types), self.imports, references)

    def formatted(self, format_: str) -> str:
        if format_ != "ignore_extensions":
            return self.text
        return print_proto(without_extensions(self.file))

    @property
    def identity(self) -> str:
        return self.text

    @property
    def field_names(self) -> frozenset[str]:
        return frozenset(
            field.name for message in self.file.messages[:1] for field, _ in message.all_fields()
        )

    def incompatibilities_with(self, writer: ParsedSchema) -> list[Incompatibility]:
        from odradek.schemas.proto_compatibility import compare  # noqa: PLC0415 - it imports this

        assert isinstance(writer, ProtobufSchema)
        return compare(writer, self)


def parse(
    text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool
) -> ProtobufSchema:
    imports: dict[str, ProtoFile] = {}
    for name, imported in resolved.items():
        try:
            imports[name] = _read(imported)
        except InvalidSchema as error:
            raise InvalidSchema(f"in the reference {name}: {error}") from None
    file = _read(text)
    for each in (*imports.values(), file):
        _add_well_known(each, imports)
    schema = ProtobufSchema(file, imports, references)
    if is_new:
        check_file(file, schema.types)
    return schema


def _read(text: str) -> ProtoFile:
    # A descriptor may have any text as a name. Its printed form must be one that can be read again.
    return parse_proto(print_proto(decode(text)) if is_encoded(text) else text)


def _add_well_known(file: ProtoFile, imports: dict[str, ProtoFile]) -> None:
    """Adds the files that everybody knows and that a file imports without a reference."""
    for name in (*file.imports, *file.public_imports, *file.weak_imports):
        known = None if name in imports else well_known(name)
        if known is not None:
            imports[name] = known
            _add_well_known(known, imports)
