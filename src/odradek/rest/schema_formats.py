"""Keys and values with a schema in the schema registry: Avro, JSON Schema and Protobuf.

Requests to the registry and encoding run in worker threads: both may take long, and the event loop
serves other requests meanwhile.

The service logs in to the registry as its caller, never as itself. Each caller has a registry
client and a cache of its own. So nobody is served from a cache what only another caller may read.
The client is closed with the caller's other clients.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from odradek.rest.formats import NOT_SERIALIZABLE, encode_base64, shown
from odradek.schemas.framing import HEADER_SIZE, Headers, header_content
from odradek.schemas.registry_client import RegistryClient
from odradek.schemas.registry_settings import RegistrySettings
from odradek.services.client_pool import CallerClients
from odradek.services.identity import Caller, authorization_of
from odradek.web.problems import Problem

_REGISTRY: Final = "schema registry"


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """The schema that a request names for a key or value, by the fields of version 3 of the API."""

    kind: str | None
    subject: str | None = None
    strategy: str | None = None
    schema_id: int | None = None
    version: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A key or value to be written.

    `content` are its bytes, None for null. `described` are the members of the response that name
    its schema, and `kind` is its type, such as AVRO.
    """

    content: bytes | None
    described: dict[str, Any] = field(default_factory=dict)
    kind: str | None = None


class SchemaFormats:
    """Makes the registry clients of all callers. There is one object in a service."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties` are those of `RegistryClient`, without a log-in. If they have no
        `schema.registry.url`, there is no registry."""
        self._properties = properties

    def of(self, clients: CallerClients) -> "CallerFormats":
        """Returns the formats with which the owner of `clients` writes and reads."""
        return CallerFormats(self.registry(clients))

    def registry(self, clients: CallerClients) -> RegistryClient | None:
        """Returns the caller's registry client, or None if there is no registry."""
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
    """Writes and reads keys and values with schemas for one caller. `registry` logs in as this
    caller; it is None if there is no registry."""

    def __init__(self, registry: RegistryClient | None) -> None:
        self._registry = registry
        self.problem: Problem | None = None
        """Why the last value that has a schema could not be read by it."""

    async def write(
        self, topic: str, wanted: SchemaOf, data: msgspec.Raw, *, is_key: bool
    ) -> Written:
        """Encodes JSON by its schema, after the id of the schema. Raises a `Problem` if the schema
        or the JSON is wrong."""
        if self._registry is None:
            raise Problem(
                422,
                "a value with a schema needs a schema registry: set schema.registry.url",
                code=NOT_SERIALIZABLE,
            )
        from odradek.rest.schema_codecs import write  # noqa: PLC0415 - libraries of schemas

        return await asyncio.to_thread(write, self._registry, topic, wanted, bytes(data), is_key)

    async def shown(
        self, value: bytes | None, headers: Headers, part: str
    ) -> dict[str, object] | None:
        """Returns a key or value as JSON for a response. It is decoded by its schema, which a frame
        or a header of the record names, or shown as base64 if the registry does not have the schema
        or the bytes do not fit it. `part` is "key" or "value"."""
        self.problem = None
        if value is None or self._registry is None:
            return shown(value)
        has_frame = value[:1] == b"\x00" and len(value) >= HEADER_SIZE
        if not has_frame and header_content(headers, part) is None:
            return shown(value)
        from odradek.rest.schema_codecs import read  # noqa: PLC0415

        try:
            return await asyncio.to_thread(read, self._registry, value, headers, part)
        except Problem as problem:
            self.problem = problem
            return {"type": "BINARY", "data": encode_base64(value)}
