"""The lines that a tap writes."""

import json
from typing import Any, NamedTuple

from odradek.connect.errors import DataError


class TapSchema(NamedTuple):
    stream: str
    schema: dict[str, Any]
    keys: tuple[str, ...]


class TapRecord(NamedTuple):
    stream: str
    record: dict[str, Any]
    time_extracted: str | None


class TapState(NamedTuple):
    value: Any


Message = TapSchema | TapRecord | TapState


def parse(line: bytes) -> Message | None:
    """Returns a message; None for one that says nothing here, such as ACTIVATE_VERSION."""
    try:
        found = json.loads(line)
        match found["type"]:
            case "RECORD":
                made: Message | None = TapRecord(
                    str(found["stream"]), dict(found["record"]), found.get("time_extracted")
                )
            case "SCHEMA":
                keys = tuple(map(str, found.get("key_properties") or ()))
                made = TapSchema(str(found["stream"]), dict(found["schema"]), keys)
            case "STATE":
                made = TapState(found["value"])
            case _:
                made = None
    except (ValueError, KeyError, TypeError, RecursionError):
        shown = line[:100].decode("utf-8", "replace")
        raise DataError(f"the tap writes what is not a message of Singer: {shown!r}") from None
    return made
