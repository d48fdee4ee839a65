"""Values with a schema of the registry as text, for PRINT: JSON with the names of the schema."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from odradek.connect.errors import ConnectError
from odradek.schemas import framing
from odradek.schemas.errors import SchemaError
from odradek.schemas.framing import Identified
from odradek.schemas.registry_client import RegistryClient
from odradek.sql.formats.catalogue import made_of
from odradek.sql.formats.types import Unsupported, kind_of, or_null, out_of
from odradek.sql.planning.sources import Format
from odradek.streams.formats.columns import plain, to_json

_FORMATS: Final = {"AVRO": "AVRO", "JSON": "JSON_SR", "PROTOBUF": "PROTOBUF"}
_MOST_SCHEMAS: Final = 1000
Show = Callable[[bytes], str]


class Shown:
    """Shows the keys or values of one topic."""

    def __init__(self, registry: RegistryClient | None, field: str) -> None:
        self._registry = registry
        self._field = field
        self._known: dict[Any, Show | None] = {}

    async def text(self, data: bytes) -> str | None:
        """Returns bytes that are framed with a schema as JSON; None if they are not."""
        if self._registry is None:
            return None
        try:
            found = framing.identify(data, None, self._field)
        except SchemaError:
            return None
        key = found.schema, self._path(found)
        if key not in self._known and len(self._known) < _MOST_SCHEMAS:
            self._known[key] = await asyncio.to_thread(self._show, found)
        show = self._known.get(key)
        try:
            return None if show is None else show(data)
        except (SchemaError, ConnectError, ValueError):
            return None

    @staticmethod
    def _path(found: Identified) -> tuple[int, ...] | None:
        """Returns the path to a message, which follows the id if the schema is one of Protobuf."""
        try:
            return framing.read_message_path(found.path_in, found.path_start)[0]
        except SchemaError:
            return None

    def _show(self, found: Identified) -> Show | None:
        """Returns what shows values of a schema; None if the registry does not know it."""
        assert self._registry is not None
        try:
            known = self._registry.by_id_or_guid(found.schema)
            made = made_of(Format(_FORMATS[known.kind]))
            path, _ = made.path(found)
            reading = made.reading(known, path)
            if reading.schema is None:
                return None
            kind = kind_of(reading.schema, str)
            convert = or_null(out_of(reading.schema, kind))
        except (SchemaError, ConnectError, Unsupported, ValueError):
            return None

        def show(data: bytes) -> str:
            _, start = made.path(framing.identify(data, None, self._field))
            return to_json(plain(convert(reading.read(data, start)), kind))

        return show
