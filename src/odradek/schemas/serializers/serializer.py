"""What the serializers of all formats have in common: which schema a value is written with.

For each topic, field and class of values this is settled once:

1. The program's schema: the text that was given, or derived from the class of the value.
2. The subject, by the strategy.
3. The id: that of the newest version (`use.latest.version`), a given one (`use.schema.id`), or the
   one that the registry gives when the schema is registered (`auto.register.schemas`, the default)
   or looked up.
4. The codec of the schema that the id names, and the bytes or the header that name it.

After that a record costs one look-up and its codec. `None` is a tombstone, and stays `None`.

A serializer is a function `(value, context)` as in confluent-kafka, which waits for the registry
when it must. Our clients call it on their event loop, through `without_blocking()`.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self
from uuid import UUID

from odradek.schemas import framing
from odradek.schemas.errors import BadPayload, BadSchema, BadSetting, NotRegistered, RegistryFailed
from odradek.schemas.parsed import Reference
from odradek.schemas.registry_client import Registered, RegistryClient, require_no_rules
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.own_schema import Schema, class_named, schema_text
from odradek.schemas.serializers.preparations import Preparations
from odradek.schemas.serializers.record_classes import is_record_class
from odradek.schemas.serializers.serde import RegistrySerde
from odradek.schemas.serializers.subjects import subject_of

Write = Callable[[Any, Any], bytes]


class OwnSchema(NamedTuple):
    """The program's schema, with the texts that it refers to. `record_name` is what the strategies
    for subjects need; `codec` encodes values."""

    schema: Schema
    imports: tuple[tuple[str, str], ...]
    record_name: str | None
    codec: Any


class RegistrySerializer(RegistrySerde):
    role: ClassVar[str] = "serializer"

    def __init__(
        self,
        client: RegistryClient | None,
        given: Schema | type | None,
        to_dict: Callable[..., Any] | None,
        conf: Mapping[str, object] | None,
    ) -> None:
        if to_dict is not None and not callable(to_dict):
            raise BadSetting("to_dict must be a function of the value and its context")
        super().__init__(client, conf)
        self._given = given
        self._to_dict = to_dict
        self._writers: Preparations[Write] = self._preparations()

    def configure(self, properties: Mapping[str, Any], is_key: bool) -> None:
        """Called by a client whose properties name this class."""
        field = "key" if is_key else "value"
        self._configure_client(properties, field)
        if self._given is None:
            text = schema_text(properties, field)
            name = f"{field}.record.class"
            if text is not None:
                self._given = Schema(text, self.kind)
            elif properties.get(name):
                self._given = class_named(name, properties[name])
        self._writers = self._preparations()

    # A record

    def __call__(self, obj: Any, ctx: Any = None) -> bytes | None:
        return self._serialize(obj, ctx, True)

    def serialize(self, value: Any, context: Any) -> bytes | None:
        return self._serialize(value, context, True)

    def without_blocking(self) -> "SerializerOnEventLoop":
        """Returns the same serializer for an event loop: it raises `MustBlock`."""
        return SerializerOnEventLoop(self)

    def _serialize(self, value: Any, context: Any, may_block: bool) -> bytes | None:
        if value is None:
            return None
        if self._to_dict is not None:
            value = self._to_dict(value, context)
        kind = value.__class__ if self._given is None else None
        key = (kind, None, None) if context is None else (kind, context.topic, context.field)
        write = self._writers.find(key, lambda: self._prepare(value.__class__, context), may_block)
        return write(value, context)

    # Settling the schema

    def settle(self, kind: type, context: Any) -> None:
        """Asks the registry for everything that values of a class need, so that later calls on an
        event loop find it. Blocks."""
        known = kind if self._given is None else None
        key = (known, None, None) if context is None else (known, context.topic, context.field)
        self._writers.find(key, lambda: self._prepare(kind, context), True)

    def _prepare(self, kind: type, context: Any) -> Write:
        settings = self.settings
        own = self._own_schema(kind)
        if own is None and settings.auto_register:
            raise BadSchema(
                f"there is no schema for a {kind.__name__}: give the serializer one, or set"
                " use.latest.version=true to take it from the registry"
            )
        if self._uses_latest:
            found = self._latest_of(self._subject(context, own))
        elif settings.schema_id is not None:
            found = Registered(settings.schema_id, self.client.by_id(settings.schema_id))
        elif own is not None:
            found = self._registered(self._subject(context, own), own, context)
        else:
            raise BadSchema(
                f"there is no schema for a {kind.__name__}: give the serializer one, or set"
                " use.latest.version=true or use.schema.id"
            )
        if found.schema.kind != self.kind:
            raise BadSchema(
                f"schema {found.id} has type {found.schema.kind}, and this serializer writes"
                f" {self.kind}"
            )
        if not settings.ignores_rules:
            require_no_rules(found, "; odradek.ignore.rules=true writes without")
        is_own = own is not None and found.schema.text == own.schema.schema_str
        codec = own.codec if own is not None and is_own else self._codec(found.schema, own)
        return self._writer(found, codec, context)

    def _subject(self, context: Any, own: OwnSchema | None) -> str:
        return subject_of(self.settings.strategy, context, None if own is None else own.record_name)

    def _registered(self, subject: str, own: OwnSchema, context: Any) -> Registered:
        text = own.schema.schema_str
        references = (*own.schema.references, *self._references(own, context))
        normalize = self.settings.normalize
        known = KnownSchema(self.kind, text, own.imports)
        if self.settings.auto_register:
            made = self.client.registered(subject, self.kind, text, references, normalize=normalize)
            if not self.settings.in_headers:
                known = known._replace(write_rules=made.schema.write_rules)
                return made._replace(schema=known)
        try:
            found = self.client.lookup(subject, self.kind, text, references, normalize=normalize)
        except NotRegistered as error:
            raise NotRegistered(
                f"the schema is not registered as a version of {subject}, and"
                f" auto.register.schemas is false: register it ({error})",
                error.status,
                error.error_code,
            ) from None
        return found._replace(schema=known._replace(write_rules=found.schema.write_rules))

    def _writer(self, found: Registered, codec: Any, context: Any) -> Write:
        path = self._path(codec)
        if not self.settings.in_headers:
            return self._encoder(codec, framing.frame(found.id, path))
        if context is None:
            raise BadPayload("a schema id in headers needs a SerializationContext with headers")
        guid = found.guid
        if guid is None:
            raise RegistryFailed(
                f"the registry at {self.client.url} gives schemas no GUID, so their ids cannot be"
                " in headers: leave schema.id.serializer out"
            )
        name = framing.KEY_HEADER if context.field == "key" else framing.VALUE_HEADER
        header = framing.guid_header(UUID(guid).bytes, path)
        encode = self._encoder(codec, b"")

        def write(value: Any, context: Any) -> bytes:
            data = encode(value, context)
            headers = context.headers
            if isinstance(headers, list):
                headers.append((name, header))
            elif isinstance(headers, dict):
                headers[name] = header
            else:
                raise BadPayload("a schema id in headers needs headers: a list of pairs, or a dict")
            return data

        return write

    def _given_or(self, kind: type) -> Schema | type | None:
        """Returns what the program's schema is taken from: what it gave, or else the class of the
        values if that is a record class."""
        if self._given is None and is_record_class(kind):
            return kind
        return self._given

    # The format

    @abstractmethod
    def _own_schema(self, kind: type) -> OwnSchema | None:
        """Returns the program's schema for values of a class, if there is one."""

    @abstractmethod
    def _codec(self, schema: KnownSchema, own: OwnSchema | None) -> Any:
        """Compiles a schema of the registry."""

    @abstractmethod
    def _encoder(self, codec: Any, prefix: bytes) -> Write:
        """Returns the function that encodes a value after a prefix."""

    def _references(self, own: OwnSchema, context: Any) -> tuple[Reference, ...]:
        """Registers what the program's schema imports, if the format says what that is."""
        return ()

    def _path(self, codec: Any) -> bytes:
        """Returns what stands between the id and the payload."""
        return b""


class SerializerOnEventLoop:
    """A serializer as our clients call it; `close` closes the serializer."""

    def __init__(self, serializer: RegistrySerializer) -> None:
        self._serializer = serializer
        self._serialize = serializer._serialize

    def serialize(self, value: Any, context: Any) -> bytes | None:
        return self._serialize(value, context, False)

    def close(self) -> None:
        self._serializer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
