"""What the deserializers of all formats have in common: which schema a value is read with.

A value says in its frame, or in a header, which schema wrote it. The registry is asked for that
schema once, and its codec is kept. The reader's own schema, if there is one, or the newest version
of the subject (`use.latest.version`), is what values are resolved to.

A deserializer is a function `(data, context)` as in confluent-kafka, which waits for the registry
when it must. Our clients call it on their event loop, through `without_blocking()`.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from odradek.schemas import framing
from odradek.schemas.errors import (
    BadPayload,
    BadSchema,
    BadSetting,
    NotRegistered,
    RegistryUnreachable,
    SchemaError,
)
from odradek.schemas.framing import Identified, id_text
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.own_schema import Schema, class_named, schema_text
from odradek.schemas.serializers.preparations import Preparations
from odradek.schemas.serializers.serde import RegistrySerde
from odradek.schemas.serializers.subjects import topic_subject_name_strategy

Read = Callable[[bytes, int], Any]


class RegistryDeserializer(RegistrySerde):
    role: ClassVar[str] = "deserializer"

    def __init__(
        self,
        client: RegistryClient | None,
        given: Schema | None,
        from_dict: Callable[..., Any] | None,
        record_class: Any,
        conf: Mapping[str, object] | None,
    ) -> None:
        if from_dict is not None and not callable(from_dict):
            raise BadSetting("from_dict must be a function of the dict and its context")
        super().__init__(client, conf)
        self._given = given
        self._from_dict = from_dict
        self._record_class = record_class
        self._readers: Preparations[Read] = self._preparations()

    def configure(self, properties: Mapping[str, Any], is_key: bool) -> None:
        """Called by a client whose properties name this class."""
        field = "key" if is_key else "value"
        self._configure_client(properties, field)
        if self._given is None and (text := schema_text(properties, field)) is not None:
            self._given = Schema(text, self.kind)
        name = f"{field}.record.class"
        if self._record_class is None and properties.get(name):
            self._record_class = class_named(name, properties[name])
        self._readers = self._preparations()

    # A record

    def __call__(self, data: bytes | None, ctx: Any = None) -> Any:
        return self._deserialize(data, ctx, True)

    def deserialize(self, data: bytes | None, context: Any) -> Any:
        return self._deserialize(data, context, True)

    def without_blocking(self) -> "DeserializerOnEventLoop":
        """Returns the same deserializer for an event loop: it raises `MustBlock`."""
        return DeserializerOnEventLoop(self)

    def _deserialize(self, data: bytes | None, context: Any, may_block: bool) -> Any:
        if data is None:
            return None
        if context is None:
            found = framing.identify(data, None, "value")
        else:
            found = framing.identify(data, context.headers, context.field)
        path, start = self._path(found)
        key: tuple[object, ...] = (found.schema, path)
        if self._uses_latest and context is not None:
            key = (found.schema, path, context.topic, context.field)
        read = self._readers.find(key, lambda: self._prepare(found, path, context), may_block)
        value = read(data, start)
        return value if self._from_dict is None else self._from_dict(value, context)

    def _path(self, found: Identified) -> tuple[tuple[int, ...], int]:
        """Returns the path to a message, and where the payload begins."""
        return (), found.start

    # Settling the schemas

    def _prepare(self, found: Identified, path: tuple[int, ...], context: Any) -> Read:
        writer = self._writer(found)
        if writer is not None and writer.kind != self.kind:
            raise BadSchema(
                f"schema {id_text(found.schema)} has type {writer.kind}, and this deserializer"
                f" reads {self.kind}"
            )
        reader = self._latest(context, writer, path) if self._uses_latest else None
        try:
            return self._reader(writer, path, reader)
        except SchemaError as error:
            raise type(error)(f"schema {id_text(found.schema)}: {error}") from error

    def _writer(self, found: Identified) -> KnownSchema | None:
        """Asks for the schema that a value names."""
        schema = found.schema
        try:
            return self.client.by_id_or_guid(schema)
        except RegistryUnreachable:
            raise
        except NotRegistered as error:
            raise NotRegistered(
                f"the value was written with schema {id_text(schema)}, which the registry does not"
                f" know: {error}",
                error.status,
                error.error_code,
            ) from None

    def _latest(
        self, context: Any, writer: KnownSchema | None, path: tuple[int, ...]
    ) -> KnownSchema:
        strategy, name = self.settings.strategy, None
        if strategy is not topic_subject_name_strategy:
            name = self._record_name(writer, path)
        subject = strategy(context, name)
        if not subject:
            raise BadPayload("use.latest.version needs a subject, and the schema has no name")
        return self._latest_of(subject).schema

    # The format

    @abstractmethod
    def _reader(
        self, writer: KnownSchema | None, path: tuple[int, ...], latest: KnownSchema | None
    ) -> Read:
        """Returns the function that decodes payloads of a schema, from a position on."""

    @abstractmethod
    def _record_name(self, writer: KnownSchema | None, path: tuple[int, ...]) -> str | None:
        """Returns the name of the record that values of a schema are."""


class DeserializerOnEventLoop:
    """A deserializer as our clients call it; `close` closes the deserializer."""

    def __init__(self, deserializer: RegistryDeserializer) -> None:
        self._deserializer = deserializer
        self._deserialize = deserializer._deserialize

    def deserialize(self, data: bytes, context: Any) -> Any:
        return self._deserialize(data, context, False)

    def close(self) -> None:
        self._deserializer.close()
