"""Recognises the schema of a record of JSON by its first bytes.

Records of a topic begin alike, because each carries its schema: `{"schema":{...},"payload":`. To
parse that again takes most of the time of reading a record. So the beginnings that came last are
kept with their schemas, and only the rest of a record is parsed. A record that goes on in another
way than with one value and `}` is not an envelope that is known, and is read as a whole.
"""

import json
import re
from typing import Any, Final, NamedTuple

from odradek.connect.data.schemas import Schema

_MAX_KNOWN: Final = 8
_BEFORE: Final = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_BETWEEN: Final = re.compile(r'\s*,\s*"payload"\s*:')
_DECODER: Final = json.JSONDecoder()


class Known(NamedTuple):
    beginning: bytes
    schema: Schema


class KnownEnvelopes:
    def __init__(self) -> None:
        self._known: list[Known] = []

    def split(self, data: bytes) -> tuple[Schema, bytes] | None:
        """Returns the schema and the JSON of the payload, if the beginning is known. The payload
        may be no JSON still."""
        for at, (beginning, schema) in enumerate(self._known):
            if data.startswith(beginning) and data.endswith(b"}"):
                if at:
                    self._known.insert(0, self._known.pop(at))
                return schema, data[len(beginning) : -1]
        return None

    def learn(self, data: bytes, schema: Schema) -> None:
        """Remembers how a record begins that was read as a whole and has this schema."""
        text = data.decode("utf-8", "replace")
        before = _BEFORE.match(text)
        if before is None:
            return
        _, end = self._decoded(text, before.end())
        between = _BETWEEN.match(text, end)
        if between is not None and data.startswith(found := text[: between.end()].encode()):
            self._known.insert(0, Known(found, schema))
            del self._known[_MAX_KNOWN:]

    @staticmethod
    def _decoded(text: str, at: int) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(text, at)
        except ValueError:
            return None, at
