"""In which partition the records of a key are, between the operators of one query.

A record that comes from a topic is where its producer put it, by the bytes of its key. A record
whose key is made within a query is moved by bytes that no topic has (`PLACED`), because equal keys
have different bytes in topics with a schema registry: they begin with the id of a schema. Both
sides of a join must be placed alike.
"""

from typing import Any, Final

from odradek.sql.planning.sources import Format, MakeCodec
from odradek.streams.formats.columns import plain, to_json
from odradek.streams.plan.nodes import Codec
from odradek.streams.plan.records import Windowed
from odradek.streams.plan.types import Column

PLACED: Final = Format("PLACED")
"""Stands for a format: records are where a query has moved them to."""


class PlaceCodec:
    """Keys of several columns as bytes, which are never read again."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._kinds = [column.kind for column in columns]

    def encode(self, value: Any) -> bytes | None:
        if value is None:
            return None
        key = value.key if isinstance(value, Windowed) else value
        pairs = zip(key, self._kinds, strict=True)
        return to_json([plain(one, kind) for one, kind in pairs]).encode()

    def decode(self, data: bytes | None) -> Any:
        raise NotImplementedError("keys within a query are not read from bytes")


def place_codec(form: Format, columns: tuple[Column, ...], make: MakeCodec) -> Codec:
    """Returns how keys are encoded for their partition."""
    return PlaceCodec(columns) if form == PLACED else make(form, columns, True, "")


def stays(form: Format) -> bool:
    """Returns whether equal keys of a topic are in the same partition as those of other topics with
    this format."""
    return not form.is_registered and form.name != "NONE"
