"""A schema of any format, parsed: what a schema registry stores, compares and checks.

The registry, the serializers and `odradek schema` call `parse` and then only use `ParsedSchema`.
They never look inside a schema. Each format is a module of its own, which is imported when the
first schema of that format is parsed:

    AVRO      avro_schema, avro_compatibility
    JSON      json_schema_document, json_schema_compatibility
    PROTOBUF  proto_file, proto_compatibility

`compatibility` holds the seven levels. Nothing here does I/O, and nothing evaluates a schema's
content: any text ends in a parsed schema or in one `InvalidSchema`, in bounded time and memory.
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
        """Returns it in the notation of the answers of a registry, which differs by format."""
        if schema_type == "AVRO":
            members = {"errorType": self.type, "description": self.message}
            if self.info:
                members["additionalInfo"] = self.info
            return "{" + ", ".join(f"{name}:'{text}'" for name, text in members.items()) + "}"
        return f'{{errorType:"{self.type}", description:"{self.message}"}}'


class ParsedSchema(ABC):
    """A valid schema. Objects are immutable, and safe to use from several threads.

    `text` is the form that a registry stores and answers: not the text that was parsed, but that
    schema printed in the format's canonical form (Avro and JSON Schema compactly, Protobuf as
    `.proto` text). The ids of a registry are given by this text and the references.
    """

    schema_type: SchemaType
    references: tuple[Reference, ...]
    text: str

    @abstractmethod
    def normalized(self) -> "ParsedSchema":
        """Returns the same schema in the form that is equal for all ways to write it down: what
        has no order is sorted, names are full."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A text that is equal for schemas that a registry takes for the same one when it looks a
        schema up in a subject. References do not count in it, but what they bring does."""

    @property
    def field_names(self) -> frozenset[str]:
        """The names of the fields at the top: of the record, the object, or the first message.
        A format whose schemas have no fields has none."""
        return frozenset()

    @abstractmethod
    def incompatibilities_with(self, writer: "ParsedSchema") -> list[Incompatibility]:
        """Returns why this schema cannot read what `writer`, a schema of the same type, allows."""

    def is_same(self, other: "ParsedSchema") -> bool:
        """Returns whether a registry takes both for the same schema."""
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
