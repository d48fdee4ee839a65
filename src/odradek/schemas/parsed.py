"""A schema of any format, parsed: what a schema registry stores, compares and checks.

The registry, the serializers and `odradek schema` call `parse` and then only use `ParsedSchema`.
They never look inside a schema. Each format is a module of its own, which is imported when the
first schema of that format is parsed:

    AVRO      avro_schema, avro_compatibility
    JSON      json_schema_document, json_schema_compatibility
    PROTOBUF  proto_file, proto_compatibility

The module `compatibility` has the registry's seven compatibility levels.

Nothing here does I/O, and nothing executes what a schema contains. Parsing any text takes bounded
time and memory, and either returns a `ParsedSchema` or raises `InvalidSchema`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, Literal, NamedTuple

from odradek.schemas.errors import InvalidSchema

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]

SCHEMA_TYPES: Final[tuple[SchemaType, ...]] = ("AVRO", "JSON", "PROTOBUF")
MAX_TEXT_CHARACTERS: Final = 4 * 1024 * 1024
_MODULES: Final = {
    "AVRO": "odradek.schemas.avro_schema",
    "JSON": "odradek.schemas.json_schema_document",
    "PROTOBUF": "odradek.schemas.proto_file",
}


class Reference(NamedTuple):
    """A schema that another one imports under a name."""

    name: str
    subject: str
    version: int


class Incompatibility(NamedTuple):
    """One reason why a reader's schema cannot read what a writer's schema allows.

    `type` is the name that Confluent's registry gives to the reason. `path` says where: a JSON
    pointer in Avro and JSON Schema, names of messages and fields in Protobuf. `message` is one
    sentence in which `{reader}` and `{writer}` stand for the two schemas; `sentence` fills them in.
    `info` is what Java's Avro library says of it, such as the name of the field, for programs that
    look for it.
    """

    type: str
    path: str
    message: str
    info: str = ""

    def sentence(self, reader: str = "reader", writer: str = "writer") -> str:
        """Returns the message with words for the two schemas, such as "new" and "old"."""
        return self.message.replace("{reader}", reader).replace("{writer}", writer)

    def described(self, schema_type: SchemaType) -> str:
        """Returns the text for this reason in a registry's response. Confluent's registry writes it
        differently for Avro than for the other formats."""
        if schema_type == "AVRO":
            members = {"errorType": self.type, "description": self.message}
            if self.info:
                members["additionalInfo"] = self.info
            return "{" + ", ".join(f"{name}:'{text}'" for name, text in members.items()) + "}"
        return f'{{errorType:"{self.type}", description:"{self.message}"}}'


class ParsedSchema(ABC):
    """A valid schema. Objects are immutable, and safe to use from several threads.

    `text` is what a registry stores and returns: not the text that was parsed, but the schema
    printed in the canonical form of its format (Avro and JSON Schema as compact JSON, Protobuf as
    `.proto` text). A registry gives the same id to schemas with equal text and references.
    """

    schema_type: SchemaType
    references: tuple[Reference, ...]
    text: str

    @abstractmethod
    def normalized(self) -> "ParsedSchema":
        """Returns the same schema in a normal form: parts whose order has no meaning are sorted,
        and names are complete. So two ways to write the same schema become equal."""

    def formatted(self, format_: str) -> str:
        """Returns the schema in another format, or the canonical text if it has no such format."""
        return self.text

    @property
    @abstractmethod
    def identity(self) -> str:
        """A text that is equal for schemas which a registry treats as the same when it looks for a
        schema in a subject. It contains the referenced schemas, but not the references' names."""

    @property
    def field_names(self) -> frozenset[str]:
        """The names of the top-level fields: those of the record, the object, or the first message.
        Empty if the schema is of another kind."""
        return frozenset()

    @abstractmethod
    def incompatibilities_with(self, writer: "ParsedSchema") -> list[Incompatibility]:
        """Returns why this schema cannot read what `writer`, a schema of the same type, allows."""

    def is_same(self, other: "ParsedSchema") -> bool:
        """Returns whether a registry treats both as the same schema."""
        if self.schema_type != other.schema_type:
            return False
        try:
            return self.text == other.text or self.identity == other.identity
        except RecursionError:
            return False


def parse(
    schema_type: SchemaType,
    text: str,
    references: Sequence[Reference] = (),
    resolved: Mapping[str, str] | None = None,
    *,
    is_new: bool = True,
) -> ParsedSchema:
    """Parses a schema, or raises `InvalidSchema`.

    A new schema is checked in full. One that a registry holds already (`is_new=False`) may have
    faults that older registries did not look for, such as wrong defaults in Avro.

    `resolved` maps the names of all references, also those of referenced schemas, to their texts,
    each after those that it needs itself.
    """
    if schema_type not in _MODULES:
        raise InvalidSchema(
            f"{schema_type!r} is not a type of schema: use one of {', '.join(SCHEMA_TYPES)}"
        )
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidSchema(
            f"the schema has {len(text)} characters; at most {MAX_TEXT_CHARACTERS} are accepted"
        )
    module = import_module(_MODULES[schema_type])
    try:
        parsed: ParsedSchema = module.parse(
            text, tuple(references), dict(resolved or {}), is_new=is_new
        )
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    return parsed
