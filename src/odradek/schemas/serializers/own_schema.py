"""The schema that a program gives to a serializer, and the registry's classes in confluent-kafka's
shape, so that a program written for it changes its imports only."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from odradek.schemas.errors import BadSetting
from odradek.schemas.parsed import Reference, SchemaType
from odradek.schemas.registry_client import Registered, RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.world.disk import OsDisk


class Schema:
    """A schema's text, and the schemas that it refers to, which are registered already."""

    def __init__(
        self,
        schema_str: str,
        schema_type: SchemaType = "AVRO",
        references: Iterable[Any] | None = None,
    ) -> None:
        self.schema_str = schema_str
        self.schema_type: SchemaType = schema_type
        self.references = tuple(
            Reference(str(reference.name), str(reference.subject), int(reference.version))
            for reference in references or ()
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.schema_str, self.schema_type, self.references


SchemaReference = Reference


class RegisteredSchema:
    """A version of a subject."""

    def __init__(self, registered: Registered) -> None:
        self.schema_id = registered.id
        self.guid = registered.guid
        self.subject = registered.subject
        self.version = registered.version
        known = registered.schema
        self.schema = Schema(known.text, known.kind, registered.references)


class SchemaRegistryClient(RegistryClient):
    """`RegistryClient` with the method names of confluent-kafka's client as well."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        super().__init__(conf)

    def register_schema(
        self, subject_name: str, schema: Schema, normalize_schemas: bool = False
    ) -> int:
        return self.register(
            subject_name,
            schema.schema_type,
            schema.schema_str,
            schema.references,
            normalize=normalize_schemas,
        )

    def lookup_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        deleted: bool = False,
    ) -> RegisteredSchema:
        found = self.lookup(
            subject_name,
            schema.schema_type,
            schema.schema_str,
            schema.references,
            normalize=normalize_schemas,
            deleted=deleted,
        )
        return RegisteredSchema(found)

    def get_schema(self, schema_id: int, subject_name: str | None = None) -> Schema:
        return _with_text(self.by_id(schema_id, subject_name))

    def get_schema_by_guid(self, guid: str) -> Schema:
        return _with_text(self.by_guid(guid))

    def get_latest_version(self, subject_name: str) -> RegisteredSchema:
        return RegisteredSchema(self.latest(subject_name))

    def get_version(self, subject_name: str, version: int) -> RegisteredSchema:
        return RegisteredSchema(self.version(subject_name, version))

    def get_versions(self, subject_name: str) -> list[int]:
        return self.versions(subject_name)

    def get_subjects(self) -> list[str]:
        return self.subjects()

    def test_compatibility(
        self, subject_name: str, schema: Schema, version: Any = "latest"
    ) -> bool:
        verdict = self.check(
            subject_name,
            schema.schema_type,
            schema.schema_str,
            schema.references,
            version=version,
        )
        return verdict.is_compatible

    def get_compatibility(self, subject_name: str | None = None) -> str:
        return str(self.config(subject_name)["compatibilityLevel"])

    def set_compatibility(
        self, subject_name: str | None = None, level: str | None = None
    ) -> dict[str, Any]:
        return self.set_config(subject_name, compatibility=level)


def _with_text(known: KnownSchema) -> Schema:
    return Schema(known.text, known.kind)


def given_schema(kind: SchemaType, given: object) -> Schema | None:
    """Returns a schema that was given as text, as `Schema`, or as that of confluent-kafka."""
    if given is None or isinstance(given, Schema):
        return given
    if isinstance(given, str):
        return Schema(given, kind)
    text = getattr(given, "schema_str", None)
    if text is None:
        raise BadSetting(f"a schema must be text, a Schema or a class, not {type(given).__name__}")
    return Schema(text, kind, getattr(given, "references", None))


def schema_text(properties: Mapping[str, Any], field: str) -> str | None:
    """Returns the schema in properties: `value.schema`, or the file `value.schema.file`."""
    text = properties.get(f"{field}.schema")
    if text is not None:
        return str(text)
    path = properties.get(f"{field}.schema.file")
    if path is None:
        return None
    try:
        return OsDisk().read(str(path)).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadSetting(f"{field}.schema.file={path} cannot be read: {reason}") from None


def class_named(name: str, text: object) -> Any:
    """Returns the class that a setting names as `module:Class`."""
    if isinstance(text, type):
        return text
    module, _, path = str(text).partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadSetting(
            f"{name}={text} must name a class of Python as module:Class: {error}"
        ) from None
    return found
