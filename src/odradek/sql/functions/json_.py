"""Functions of JSON in text."""

import json
import re
from decimal import Decimal
from typing import Any, Final

from odradek.sql.functions.declaring import Subject
from odradek.sql.functions.java_times import iso_text
from odradek.streams.formats.columns import plain, to_json
from odradek.streams.plan.types import ArrayType, MapType, SqlType, StructType

SUBJECT: Final = Subject("JSON")
scalar = SUBJECT.scalar

_STEP: Final = re.compile(
    r"\.(?:\"([^\"]*)\"|([^.\[\]]+))|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]"
)
_MISSING: Final = object()


def parsed(text: str | None) -> Any:
    """Returns JSON, or `_MISSING` for what is none. Numbers keep their digits."""
    if text is None or not text.strip():
        return _MISSING
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return _MISSING


def _shown(value: Any) -> str | None:
    """Returns a part of JSON as text: a text as it is, anything else, null too, as JSON."""
    if value is _MISSING:
        return None
    return value if isinstance(value, str) else to_json(value)


@scalar("EXTRACTJSONFIELD", "STRING, STRING -> STRING")
def extractjsonfield(text: str, path: str) -> str | None:
    """Returns the value at a path such as $.log.cloud or $.list[0], as text; null if there is
    none."""
    if not path.startswith("$"):
        raise ValueError(f"a path begins with $, as in $.name, not {path!r}")
    value, position = parsed(text), 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"{path[position:]!r} in {path!r} is not a step: write .name or [0]")
        position = step.end()
        name = next((step[group] for group in (1, 2, 4, 5) if step[group] is not None), None)
        if name is not None:
            value = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
        else:
            index = int(step[3])
            is_there = isinstance(value, list) and index < len(value)
            value = value[index] if is_there else _MISSING
    return _shown(value)


@scalar("IS_JSON_STRING", "STRING -> BOOLEAN", nulls=True)
def is_json_string(text: str | None) -> bool:
    """Returns whether a text is JSON."""
    return parsed(text) is not _MISSING


@scalar("JSON_ARRAY_CONTAINS", "STRING, T -> BOOLEAN", nulls=True)
def json_array_contains(text: str | None, wanted: Any) -> bool:
    """Returns whether a value is in an array in JSON."""
    values = parsed(text)
    if not isinstance(values, list):
        return False
    return any(_equal(value, wanted) for value in values)


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, Decimal):
        return isinstance(wanted, float) and float(value) == wanted
    if isinstance(value, int):
        return isinstance(wanted, int) and value == wanted
    return isinstance(value, str | None) and value == wanted


@scalar("JSON_ARRAY_LENGTH", "STRING -> INTEGER")
def json_array_length(text: str) -> int | None:
    """Returns how many values an array in JSON has; null for what is none."""
    values = parsed(text)
    return len(values) if isinstance(values, list) else None


@scalar("JSON_CONCAT", "STRING, STRING... -> STRING", nulls=True)
def json_concat(*texts: str | None) -> str | None:
    """Merges objects in JSON, or joins arrays; anything else counts as an array of one."""
    values = [parsed(text) for text in texts]
    if any(value is _MISSING for value in values) or not values:
        return None
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Any] = {}
        for value in values:
            merged |= value
        return to_json(merged)
    if len(values) == 1:
        return to_json(values[0])
    joined: list[Any] = []
    for value in values:
        joined += value if isinstance(value, list) else [value]
    return to_json(joined)


@scalar("JSON_ITEMS", "STRING -> ARRAY<STRING>")
def json_items(text: str) -> list[str] | None:
    """Returns the values of an array in JSON, each as JSON."""
    values = parsed(text)
    return [to_json(value) for value in values] if isinstance(values, list) else None


@scalar("JSON_KEYS", "STRING -> ARRAY<STRING>")
def json_keys(text: str) -> list[str] | None:
    """Returns the keys of an object in JSON."""
    value = parsed(text)
    return list(value) if isinstance(value, dict) else None


@scalar("JSON_RECORDS", "STRING -> MAP<STRING, STRING>")
def json_records(text: str) -> dict[str, str] | None:
    """Returns the keys of an object in JSON with their values: texts as they are, others
    as JSON."""
    value = parsed(text)
    if not isinstance(value, dict):
        return None
    return {key: one if isinstance(one, str) else to_json(one) for key, one in value.items()}


def json_text_of(value: Any, kind: SqlType | None) -> str:
    """Returns a value of any type as JSON; times are texts, unlike in topics,
    and names are sorted."""
    return to_json(_with_texts(value, kind))


def _with_texts(value: Any, kind: SqlType | None) -> Any:
    if value is None or kind is None:
        return value
    if isinstance(kind, ArrayType):
        return [_with_texts(one, kind.element) for one in value]
    if isinstance(kind, MapType):
        pairs = sorted((str(key), one) for key, one in value.items())
        return {key: _with_texts(one, kind.value) for key, one in pairs}
    if isinstance(kind, StructType):
        fields = sorted(kind.fields, key=lambda field: field[0])
        return {name: _with_texts(value.get(name), field) for name, field in fields}
    is_time = kind.name in ("DATE", "TIME", "TIMESTAMP")
    return iso_text(value, kind) if is_time else plain(value, kind)
