"""What serializers and deserializers share: the registry that they ask, and their settings.

A program gives a client of the registry, or none. Without one, a Kafka client whose properties name
the class calls `configure()`, which makes a client from these properties and closes it at the end.
"""

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from odradek.schemas.errors import BadSetting
from odradek.schemas.parsed import SchemaType
from odradek.schemas.registry_client import Registered, RegistryClient
from odradek.schemas.serializers.own_schema import Schema
from odradek.schemas.serializers.preparations import Preparations
from odradek.schemas.serializers.settings import SerdeSettings

_CAPACITY: Final = 1000


class RegistrySerde(ABC):
    """A serializer or deserializer of one format."""

    kind: ClassVar[SchemaType]
    role: ClassVar[str]
    """`serializer` or `deserializer`, for messages."""

    def __init__(self, client: RegistryClient | None, conf: Mapping[str, object] | None) -> None:
        self._client = client
        self._owns_client = False
        self.settings = SerdeSettings.from_conf(conf)

    @property
    def client(self) -> RegistryClient:
        if self._client is None:
            raise BadSetting(
                f"a {self.role} needs a schema registry: set schema.registry.url, or give a client"
            )
        return self._client

    def close(self) -> None:
        if self._owns_client and self._client is not None:
            self._client.close()

    def _configure_client(self, properties: Mapping[str, Any], field: str) -> None:
        """Takes the client and the settings from properties, unless the program gave a client."""
        if self._client is None:
            self._client = RegistryClient(properties)
            self._owns_client = True
            self.settings = SerdeSettings.from_properties(properties, field)

    # What subclasses ask the registry

    @property
    def _uses_latest(self) -> bool:
        return self.settings.use_latest or self.settings.latest_metadata is not None

    def _preparations(self) -> Preparations[Any]:
        """Returns an empty store for what is settled once; with the newest version of a subject,
        for as long as the client keeps that version."""
        ttl_s = None if self._client is None else self._client.settings.latest_ttl_s
        return Preparations(_CAPACITY, ttl_s if self._uses_latest else None)

    def _latest_of(self, subject: str) -> Registered:
        metadata = self.settings.latest_metadata
        if metadata is not None:
            return self.client.latest_with_metadata(subject, metadata)
        return self.client.latest(subject)

    def _imports(self, schema: Schema) -> tuple[tuple[str, str], ...]:
        """Returns the texts that a program's schema refers to, dependencies first."""
        found: dict[str, str] = {}
        for reference in schema.references:
            known = self.client.version(reference.subject, reference.version).schema
            found.update(known.imports)
            found[reference.name] = known.text
        return tuple(found.items())
