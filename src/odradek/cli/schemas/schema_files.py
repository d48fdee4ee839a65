"""Schemas in files, for the actions of `odradek schema`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from odradek.schemas.errors import InvalidSchema
from odradek.schemas.parsed import ParsedSchema, SchemaType, parse
from odradek.schemas.proto_parsing import parse_proto
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world.disk import OsDisk

_TYPES: Final[dict[str, SchemaType]] = {
    ".avsc": "AVRO",
    ".avro": "AVRO",
    ".proto": "PROTOBUF",
    ".json": "JSON",
    ".jsonschema": "JSON",
}


def read_schema(
    path: Path,
    schema_type: SchemaType | None,
    references: Iterable[tuple[str, str]],
    include: Iterable[str],
) -> ParsedSchema:
    """Reads a schema with what it refers to. `references` are names and files."""
    kind = schema_type or _TYPES.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"the name {path} does not say the format: add --type AVRO, for example")
    text = read_text(path)
    resolved = {name: read_text(Path(file)) for name, file in references}
    try:
        if kind == "PROTOBUF":
            directories = [path.parent, *map(Path, include)]
            _add_imports(text, directories, resolved, frozenset())
        return parse(kind, text, (), resolved)
    except InvalidSchema as error:
        raise CommandFailed(f"{path}: {error}") from None


def read_text(path: Path) -> str:
    try:
        return OsDisk().read(str(path)).decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is not text in UTF-8") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}") from None


def _add_imports(
    text: str, directories: list[Path], resolved: dict[str, str], within: frozenset[str]
) -> None:
    """Adds the imports of a `.proto` text that are found as files, those that they need first."""
    file = parse_proto(text)
    for name in (*file.imports, *file.public_imports, *file.weak_imports):
        if name in resolved:
            continue
        if name in within:
            raise InvalidSchema(f"{name} imports itself, directly or by others")
        places = (directory / name for directory in directories)
        found = next((place for place in places if OsDisk().exists(str(place))), None)
        if found is not None:
            imported = read_text(found)
            _add_imports(imported, directories, resolved, within | {name})
            resolved[name] = imported
