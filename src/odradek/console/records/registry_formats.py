"""Values with a schema of the registry, on pages that must be shown also if it does not answer."""

import asyncio
from typing import Final

from odradek.rest.formats import NOT_SERIALIZABLE, shown
from odradek.rest.schema_formats import CallerFormats, SchemaFormats
from odradek.schemas.framing import HEADER_SIZE, Headers, header_content
from odradek.schemas.registry_client import RegistryClient
from odradek.services.client_pool import CallerClients

# Somebody waits for the page: a registry is asked once, and not for long.
ASKED: Final = {"max.retries": "0", "schema.registry.request.timeout.ms": "3000"}
_AWAY_S: Final = 30.0
_UNAVAILABLE: Final = 503


class PageFormats(SchemaFormats):
    """Knows how the registry of a cluster is reached."""

    def of(self, clients: CallerClients) -> "PageCallerFormats":
        return PageCallerFormats(self.registry(clients))


class PageCallerFormats(CallerFormats):
    """Reads values for one page, without asking for each of them what the registry does not know.
    One that does not answer is not asked again for half a minute: values are shown as bytes, and
    `note` says so. A schema that it does not know is asked for once."""

    def __init__(self, registry: RegistryClient | None) -> None:
        super().__init__(registry)
        self.note = ""
        self._away_until_s = 0.0
        self._unknown: set[bytes] = set()

    async def shown(
        self, value: bytes | None, headers: Headers, part: str
    ) -> dict[str, object] | None:
        loop = asyncio.get_running_loop()
        schema = header_content(headers, part) or (value or b"")[:HEADER_SIZE]
        if loop.time() < self._away_until_s or schema in self._unknown:
            return shown(value)
        found = await super().shown(value, headers, part)
        if (problem := self.problem) is not None:
            if problem.status == _UNAVAILABLE:
                self._away_until_s = loop.time() + _AWAY_S
                self.note = f"Values with a schema are shown as bytes: {problem.message}"
            elif problem.code == NOT_SERIALIZABLE:
                self._unknown.add(schema)
        return found
