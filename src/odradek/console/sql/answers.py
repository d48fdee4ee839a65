"""The answers of a SQL server to statements, as pages show them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.console.sql.drawing import Picture, picture_of
from odradek.console.sql.server import cell

_MAX_ROWS: Final = 1000
# Where the rows of a list are, what it is called, and which of their columns are shown.
_LISTS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "streams": ("streams", "Streams", ("name", "topic", "keyFormat", "valueFormat")),
    "tables": ("tables", "Tables", ("name", "topic", "keyFormat", "valueFormat", "isWindowed")),
    "queries": ("queries", "Queries", ("id", "state", "sinks", "queryString")),
    "kafka_topics": ("topics", "Topics", ("name", "replicaInfo")),
    "kafka_topics_extended": ("topics", "Topics", ("name", "replicaInfo", "consumerCount")),
    "function_names": ("functions", "Functions", ("name", "type", "category")),
    "properties": ("properties", "Properties", ("name", "value", "scope")),
    "variables": ("variables", "Variables", ("name", "value")),
    "connector_list": ("connectors", "Connectors", ("name", "type", "className", "state")),
}
_HIDDEN: Final = ("@type", "statementText", "warnings")


@dataclass(slots=True)
class Shown:
    """One answer: a sentence, a table, a text, or a picture of a plan with that text beside."""

    title: str
    message: str = ""
    columns: tuple[str, ...] = ()
    rows: list[list[str]] = field(default_factory=list)
    text: str = ""
    picture: Picture | None = None
    warnings: list[str] = field(default_factory=list)


def shown(entity: Mapping[str, Any]) -> Shown:
    """Returns an answer of `/ksql` for people; one of an unknown kind as JSON."""
    kind = str(entity.get("@type", ""))
    statement = str(entity.get("statementText", ""))
    warnings = [
        str(warning.get("message", warning)) if isinstance(warning, dict) else str(warning)
        for warning in entity.get("warnings") or []
    ]
    answer = _shown(kind, statement, entity)
    answer.warnings = warnings
    return answer


def _shown(kind: str, statement: str, entity: Mapping[str, Any]) -> Shown:
    if kind == "currentStatus":
        status = entity.get("commandStatus") or {}
        return Shown(statement, str(status.get("message") or status.get("status", "")))
    if kind in _LISTS:
        place, title, columns = _LISTS[kind]
        rows = [
            [cell(one.get(column)) for column in columns]
            for one in (entity.get(place) or [])[:_MAX_ROWS]
            if isinstance(one, dict)
        ]
        return Shown(title, "" if rows else f"There are no {place}.", columns, rows)
    if kind == "sourceDescription":
        return _described(entity.get("sourceDescription") or {})
    if kind == "queryDescription":
        topology = str((entity.get("queryDescription") or {}).get("topology") or "")
        return Shown("Plan", text=topology, picture=picture_of(topology))
    content = {name: value for name, value in entity.items() if name not in _HIDDEN}
    return Shown(statement or kind, text=json.dumps(content, indent=2, ensure_ascii=False))


def _described(source: Mapping[str, Any]) -> Shown:
    title = f"{source.get('type', '')} {source.get('name', '')}, topic {source.get('topic', '')}"
    rows = [
        [str(one.get("name", "")), type_text(one.get("schema") or {}), str(one.get("type") or "")]
        for one in source.get("fields") or []
    ]
    queries: Iterable[Mapping[str, Any]] = (
        *(source.get("readQueries") or ()), *(source.get("writeQueries") or ()),
    )  # fmt: skip
    text = "\n".join(f"{query.get('id')}: {query.get('queryString')}" for query in queries)
    return Shown(title, columns=("column", "type", "role"), rows=rows, text=text)


def type_text(schema: Mapping[str, Any]) -> str:
    """Returns a type as statements have it."""
    kind = str(schema.get("type", ""))
    if kind == "ARRAY":
        return f"ARRAY<{type_text(schema.get('memberSchema') or {})}>"
    if kind == "MAP":
        return f"MAP<STRING, {type_text(schema.get('memberSchema') or {})}>"
    if kind == "STRUCT":
        inner = ", ".join(
            f"{one.get('name')} {type_text(one.get('schema') or {})}"
            for one in schema.get("fields") or []
        )
        return f"STRUCT<{inner}>"
    parameters = schema.get("parameters")
    if kind == "DECIMAL" and isinstance(parameters, Mapping):
        return f"DECIMAL({parameters.get('precision')}, {parameters.get('scale')})"
    return kind
