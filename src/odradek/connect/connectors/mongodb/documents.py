"""Writes MongoDB's documents as JSON with the spaces of the Java driver, which Debezium uses:
`{"a": 1,"b": [1,2]}`. These are the modes:

legacy, strict    {"$date": 1700000000000}, {"$numberLong": "1"}, {"$binary": ..., "$type": ...}
extended          MongoDB's Extended JSON, canonical: every number has its type
relaxed           the same, with plain numbers and dates as text
"""

from typing import Any, Final

from bson import json_util
from bson.json_util import DatetimeRepresentation, JSONMode, JSONOptions

_LEGACY: Final = JSONOptions(
    json_mode=JSONMode.LEGACY,
    strict_number_long=True,
    datetime_representation=DatetimeRepresentation.LEGACY,
    strict_uuid=False,
)
_EXTENDED: Final = JSONOptions(json_mode=JSONMode.CANONICAL)
_RELAXED: Final = JSONOptions(json_mode=JSONMode.RELAXED)
_MODES: Final = {
    "legacy": _LEGACY,
    "strict": _LEGACY,
    "extended": _EXTENDED,
    "relaxed": _RELAXED,
}
_COMPACT: Final = (",", ": ")
_SPACED: Final = (", ", ": ")


def document_json(document: Any, mode: str) -> str:
    """Returns a whole document."""
    return _text(document, _MODES[mode], _COMPACT)


def updated_fields_json(fields: Any, mode: str) -> str:
    """Returns the updated fields of a change. In the mode `legacy`, Debezium writes them in relaxed
    JSON, unlike documents."""
    if mode == "legacy":
        return _text(fields, _RELAXED, _SPACED)
    return _text(fields, _MODES[mode], _COMPACT)


def key_json(key: Any) -> str:
    """Returns the `_id` of a document."""
    return _text(key, _RELAXED, _COMPACT)


def _text(value: Any, options: JSONOptions, separators: tuple[str, str]) -> str:
    return json_util.dumps(value, json_options=options, separators=separators, ensure_ascii=False)


def spaced_json(document: Any, mode: str) -> str:
    """Returns a document as MongoDB's own connector writes it: `{"a": 1, "b": [1, 2]}`."""
    return _text(document, _MODES[mode], _SPACED)


def stored_key(key: Any) -> str:
    """Returns the `_id` of a document as text for an offset. `parsed_key` reads it."""
    return _text({"_": key}, _EXTENDED, _COMPACT)


def parsed_key(text: str) -> Any:
    """Returns the `_id` in an offset, with its original type."""
    return json_util.loads(text, json_options=_EXTENDED)["_"]
