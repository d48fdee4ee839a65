"""Keys and values with a schema of the registry: Avro, JSON Schema and Protobuf.

It asks the registry and encodes in worker threads: both may take long, and the event loop serves
others meanwhile.

A registry may demand a log-in. It gets that of the caller, whom the brokers have let in, and never
one of the proxy: each caller has a client of the registry of its own, with a cache of its own, so
nobody is served from what another caller was allowed to read. It is closed with the caller's other
clients.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from odradek.rest.formats import NOT_SERIALIZABLE, encode_base64, shown
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_settings import RegistrySettings
from odradek.services.client_pool import CallerClients
from odradek.services.identity import Caller, authorization_of
from odradek.web.problems import Problem

_REGISTRY: Final = "schema registry"


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """Which schema a request asks for, in the words of version 3."""

    kind: str | None
    subject: str | None = None
    strategy: str | None = None
    schema_id: int | None = None
    version: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes of a key or value; what an answer says of its schema, and its type."""

    content: bytes | None
    described: dict[str, Any] = field(default_factory=dict)
    kind: str | None = None


class SchemaFormats:
    """Knows how the registry is reached, if there is one."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` are those of `RegistryClient`, without a log-in."""
        self._properties = properties

    def of(self, clients: CallerClients) -> "CallerFormats":
        """Returns what writes and reads for the caller whose clients these are."""
        return CallerFormats(self.registry(clients))

    def registry(self, clients: CallerClients) -> RegistryClient | None:
        """Returns the caller's client of the registry, if there is a registry."""
        if not self._properties.get("schema.registry.url"):
            return None
        registry = clients.beside.get(_REGISTRY)
        if registry is None:
            registry = clients.beside[_REGISTRY] = self._client(clients.caller)
        assert isinstance(registry, RegistryClient)  # Nobody else uses this key.
        return registry

    def _client(self, caller: Caller) -> RegistryClient:
        settings = RegistrySettings.from_properties(self._properties)
        if shown := authorization_of(caller):
            settings = replace(settings, authorization=shown)
        return RegistryClient(settings)


class CallerFormats:
    """Writes and reads values with schemas. `registry` asks as the caller; None if there is no
    registry."""

    def __init__(self, registry: RegistryClient | None) -> None:
        self._registry = registry

    async def write(
        self, topic: str, wanted: SchemaOf, data: msgspec.Raw, *, is_key: bool
    ) -> Written:
        """Returns a value with its schema's id before it. Raises a `Problem` if the schema or the
        value is wrong."""
        if self._registry is None:
            raise Problem(
                422,
                "this needs a schema registry: set schema.registry.url",
                code=NOT_SERIALIZABLE,
            )
        from odradek.rest.schema_codecs import write  # noqa: PLC0415 - libraries of schemas

        return await asyncio.to_thread(write, self._registry, topic, wanted, bytes(data), is_key)

    async def shown(self, value: bytes | None) -> dict[str, object] | None:
        """Returns a value as an answer shows it: by its schema if it has one that is known."""
        if value is None or value[:1] != b"\x00" or len(value) < 5 or self._registry is None:
            return shown(value)
        from odradek.rest.schema_codecs import read  # noqa: PLC0415

        try:
            return await asyncio.to_thread(read, self._registry, value)
        except Problem:
            return {"type": "BINARY", "data": encode_base64(value)}
