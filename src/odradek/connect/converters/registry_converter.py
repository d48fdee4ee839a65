"""What the converters with a schema registry have in common: Avro, JSON Schema and Protobuf.

Each makes a schema of its format of a schema of Connect, and the other way round; that is a
`Format`. Registering, looking up, subjects and frames are those of our serializers
(`odradek.schemas.serializers`), so are their settings, which have Confluent's names:

    value.converter=io.confluent.connect.avro.AvroConverter
    value.converter.schema.registry.url=http://localhost:8081

A null is written as null, for it is a tombstone. If the registry does not answer, the converter
raises `Unavailable`, and also if it refuses the log-in: nothing is wrong with the record, so it is
not set aside. If it refuses a schema, the error is `InvalidConfig`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar, Final, NamedTuple

from odradek.config.kinds import boolean, integer
from odradek.connect.converters.by_schema import DEFAULT_CAPACITY, BySchema
from odradek.connect.converters.converter import SchemaAndValue
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.settings import PluginSettings
from odradek.schemas import framing
from odradek.schemas.errors import (
    BadSetting,
    NotRegistered,
    RegistryFailed,
    RegistryUnreachable,
    SchemaError,
)
from odradek.schemas.framing import Identified
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_client import Schema as KnownSchema
from odradek.schemas.serializers.context import SerializationContext
from odradek.schemas.serializers.preparations import Preparations
from odradek.schemas.serializers.serializer import RegistrySerializer
from odradek.schemas.serializers.settings import SerdeSettings
from odradek.schemas.serializers.subjects import subject_of

Properties = Mapping[str, str | None]

# Settings that we do not obey, with the values that change nothing.
_NOT_ALLOWED: Final = frozenset({401, 403})
# A registry that does not answer is asked again by the engine, so the client soon gives up.
_PATIENCE: Final = {"max.retries": "1", "schema.registry.request.timeout.ms": "10000"}
_REFUSED: Final = {
    "generalized.sum.type.support": "false",
    "schema.backup.envelope.mode": "false",
}


class RegistryConverterSettings(PluginSettings):
    schemas_cache_size = integer(
        "schemas.cache.size",
        DEFAULT_CAPACITY,
        "How many schemas are kept, with what was made of them.",
        at_least=1,
    )
    ignore_default_for_nullables = boolean(
        "ignore.default.for.nullables",
        False,
        "Write a null as null, and not as the default of its schema.",
    )
    flatten_singleton_unions = boolean(
        "flatten.singleton.unions", True, "Read a union of one type as that type."
    )


class Writing(NamedTuple):
    """How values of a schema are written: `to_plain` makes of a value what `serializer` takes."""

    serializer: RegistrySerializer
    to_plain: Callable[[Any], Any]


class Reading(NamedTuple):
    """How payloads of a schema are read: `read` takes the data and where the payload begins."""

    schema: Schema | None
    read: Callable[[bytes, int], Any]
    record_name: str | None = None


class Format(ABC):
    """A format of schemas. `conf` are the settings of serializers."""

    kind: ClassVar[SchemaType]
    conf: ClassVar[Mapping[str, object]] = {}

    @abstractmethod
    def writing(
        self, schema: Schema | None, client: RegistryClient, conf: Mapping[str, object]
    ) -> Writing: ...

    @abstractmethod
    def reading(self, known: KnownSchema, path: tuple[int, ...]) -> Reading: ...

    def path(self, found: Identified) -> tuple[tuple[int, ...], int]:
        """Returns the path to a message in the schema, and where the payload begins."""
        return (), found.start


class RegistryConverter:
    def __init__(
        self,
        made: Format,
        properties: Properties,
        field: str,
        settings: RegistryConverterSettings,
    ) -> None:
        """`field` is `key` or `value`. Raises `InvalidConfig`."""
        _refuse(properties)
        given = {name: text for name, text in properties.items() if text is not None}
        conf = {**made.conf, **SerdeSettings.given_in(given, field)}
        try:
            self._serde = SerdeSettings.from_conf(conf)
            self._client = RegistryClient({**_PATIENCE, **given})
        except BadSetting as error:
            raise InvalidConfig(str(error)) from None
        if self._serde.in_headers:
            raise InvalidConfig(
                "schema.id.serializer: a converter writes ids of schemas before the payload; leave"
                " it out"
            )
        self._format = made
        self._field = field
        self._writings = BySchema(
            lambda schema: made.writing(schema, self._client, conf), settings.schemas_cache_size
        )
        self._readings = Preparations[Reading](settings.schemas_cache_size)
        self._may_block = True

    def without_blocking(self) -> "RegistryConverter":
        """Returns the same converter for an event loop: it raises `MustBlock` where it would wait
        for the registry."""
        twin = copy(self)
        twin._may_block = False
        return twin

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            if schema is not None and not schema.is_optional:
                raise DataError("a value is null, and its schema does not allow that")
            return None
        with self._explained(topic):
            writing = self._writings.get(schema)
            context = SerializationContext(topic, self._field)
            plain = writing.to_plain(value)
            if self._may_block:
                return writing.serializer.serialize(plain, context)
            return writing.serializer.without_blocking().serialize(plain, context)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        with self._explained(topic):
            found = framing.identify(data, None, self._field)
            path, start = self._format.path(found)
            key = found.schema, path, topic
            reading = self._readings.find(
                key, lambda: self._prepared(found, path, topic), self._may_block
            )
            return SchemaAndValue(reading.schema, reading.read(data, start))

    def _prepared(self, found: Identified, path: tuple[int, ...], topic: str) -> Reading:
        known = self._client.by_id_or_guid(found.schema)
        if known.kind != self._format.kind:
            raise DataError(
                f"the value was written with a schema of type {known.kind}, and the converter reads"
                f" {self._format.kind}"
            )
        reading = self._format.reading(known, path)
        version = self._version(found, reading.record_name, topic)
        if version is None or reading.schema is None or reading.schema.version is not None:
            return reading
        return reading._replace(schema=reading.schema.with_version(version))

    def _version(self, found: Identified, record_name: str | None, topic: str) -> int | None:
        """Returns the version that the schema has in the subject of the topic."""
        if not isinstance(found.schema, int):
            return None
        context = SerializationContext(topic, self._field)
        try:
            subject = subject_of(self._serde.strategy, context, record_name)
            versions = dict(self._client.versions_of_id(found.schema))
        except RegistryUnreachable:
            raise
        except SchemaError:
            return None  # The registry is older than such questions, or there is no subject.
        return versions.get(subject)

    @contextmanager
    def _explained(self, topic: str) -> Iterator[None]:
        try:
            yield
        except RegistryUnreachable as error:
            raise Unavailable(str(error)) from error
        except NotRegistered as error:
            raise DataError(f"topic {topic}: {error}") from error
        except RegistryFailed as error:
            if error.status in _NOT_ALLOWED:
                raise Unavailable(f"the schema registry does not let us in: {error}") from error
            raise InvalidConfig(
                f"the schema registry refuses the schema of topic {topic}: {error}"
            ) from error
        except SchemaError as error:
            raise DataError(f"topic {topic}: {error}") from error


def _refuse(properties: Properties) -> None:
    for name, harmless in _REFUSED.items():
        given = properties.get(name)
        if given is not None and given.strip().lower() != harmless:
            raise InvalidConfig(f"{name}={given} is not supported: leave it out")
    for name, text in properties.items():
        # Configurations come from the network, and must not name code.
        if name.endswith("subject.name.strategy") and ":" in (text or ""):
            raise InvalidConfig(
                f"{name}={text} must be TopicNameStrategy, RecordNameStrategy or"
                " TopicRecordNameStrategy"
            )
