"""Answers as ksqlDB's REST interface writes them: JSON objects, told apart by `@type`."""

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.sql.engine.catalogue import Catalogue, QueryInfo, QueryStatus
from odradek.sql.functions.loading import PLACES
from odradek.sql.functions.table import AGGREGATES, SCALARS, TYPED_BY_VALUE
from odradek.sql.functions.tabular import TABULAR
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.types import (
    ArrayType,
    Column,
    DecimalType,
    MapType,
    Schema,
    SqlType,
    StructType,
)

Entity = dict[str, Any]


def entity(kind: str, statement: str, **content: Any) -> Entity:
    return {"@type": kind, "statementText": f"{statement};", **content, "warnings": []}


def type_object(kind: SqlType) -> Entity:
    """Returns a type as an object: its name, its fields, what it is an array or map of."""
    described: Entity = {"type": kind.name, "fields": None, "memberSchema": None}
    if isinstance(kind, StructType):
        described["fields"] = [
            {"name": name, "schema": type_object(field)} for name, field in kind.fields
        ]
    elif isinstance(kind, ArrayType):
        described["memberSchema"] = type_object(kind.element)
    elif isinstance(kind, MapType):
        described["memberSchema"] = type_object(kind.value)
    elif isinstance(kind, DecimalType):
        described["parameters"] = {"precision": kind.precision, "scale": kind.scale}
    return described


def fields(schema: Schema) -> list[Entity]:
    keys = [{**_field(column), "type": "KEY"} for column in schema.key]
    return [*keys, *map(_field, schema.value)]


def column_fields(columns: Iterable[Column]) -> list[Entity]:
    return [_field(column) for column in columns]


def _field(column: Column) -> Entity:
    described: Entity = {"name": column.name, "schema": type_object(column.kind)}
    if column.header is not None:
        described["type"] = "HEADER"
        described["headerKey"] = column.header or None
    return described


def listed_source(source: DataSource) -> Entity:
    return {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "isWindowed": source.window is not None,
    }


def described_source(
    source: DataSource,
    catalogue: Catalogue,
    statuses: Mapping[str, QueryStatus],
    extra: Mapping[str, Any],
) -> Entity:
    """`extra` has what is known of the topic, for EXTENDED."""
    return {
        "name": source.name,
        "windowType": None if source.window is None else source.window.kind,
        "readQueries": [
            listed_query(catalogue.queries[reader], catalogue, statuses)
            for reader in catalogue.readers(source.name)
        ],
        "writeQueries": [
            listed_query(catalogue.queries[writer], catalogue, statuses)
            for writer in catalogue.writers(source.name)
        ],
        "fields": fields(source.schema),
        "type": source.kind,
        "timestamp": source.timestamp or "",
        "statistics": extra.get("statistics", ""),
        "errorStats": extra.get("errorStats", ""),
        "extended": bool(extra),
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": extra.get("partitions", 0),
        "replication": extra.get("replication", 0),
        "statement": f"{source.text};",
        "queryOffsetSummaries": extra.get("queryOffsetSummaries", []),
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def listed_query(
    query: QueryInfo, catalogue: Catalogue, statuses: Mapping[str, QueryStatus]
) -> Entity:
    status = statuses.get(query.id) or _elsewhere(query)
    sink = catalogue.sources.get(query.sink)
    listed = {
        "queryString": f"{query.text};",
        "sinks": [query.sink],
        "sinkKafkaTopics": [] if sink is None else [sink.topic],
        "id": query.id,
        "statusCount": {status.state: 1},
        "queryType": "PERSISTENT",
        "state": status.state,
    }
    if status.error is not None:
        listed["error"] = status.error
    return listed


def _elsewhere(query: QueryInfo) -> QueryStatus:
    """Returns what is known of a query that another server runs."""
    return QueryStatus("PAUSED" if query.is_paused else "RUNNING")


def _errors(status: QueryStatus) -> list[Entity]:
    if status.error is None:
        return []
    return [{"timestamp": status.failed_ms, "errorMessage": status.error, "type": "SYSTEM"}]


def described_query(
    query: QueryInfo, catalogue: Catalogue, statuses: Mapping[str, QueryStatus], picture: str
) -> Entity:
    sink = catalogue.sources[query.sink]
    status = statuses.get(query.id) or _elsewhere(query)
    return {
        "id": query.id,
        "statementText": f"{query.text};",
        "windowType": None if sink.window is None else sink.window.kind,
        "fields": fields(sink.schema),
        "sources": list(query.sources),
        "sinks": [query.sink],
        "topology": picture,
        "executionPlan": picture,
        "overriddenProperties": dict(query.properties),
        "ksqlHostQueryStatus": {"local": status.state},
        "queryType": "PERSISTENT",
        "queryErrors": _errors(status),
        "tasksMetadata": [],
        "state": status.state,
    }


def listed_functions() -> list[Entity]:
    listed = [
        {"name": name, "type": "SCALAR", "category": one.subject} for name, one in SCALARS.items()
    ]
    listed += [{"name": name, "type": "SCALAR", "category": "JSON"} for name in TYPED_BY_VALUE]
    listed += [{"name": name, "type": "AGGREGATE", "category": "Aggregates"} for name in AGGREGATES]
    listed += [{"name": name, "type": "TABLE", "category": "Table functions"} for name in TABULAR]
    return sorted(listed, key=lambda one: one["name"])


def described_function(name: str) -> Entity | None:
    """Returns what is known of a function, or None if there is none."""
    if name in SCALARS:
        scalar = SCALARS[name]
        return _function(
            name, "SCALAR", scalar.doc, (variant.signature.text for variant in scalar.variants)
        )
    if name in AGGREGATES:
        aggregate = AGGREGATES[name]
        texts = (signature.text for signature in aggregate.signatures)
        return _function(name, "AGGREGATE", aggregate.doc, texts)
    if name in TABULAR:
        table = TABULAR[name]
        return _function(
            name, "TABLE", table.doc, (signature.text for signature in table.signatures)
        )
    if name in TYPED_BY_VALUE:
        return _function(name, "SCALAR", TYPED_BY_VALUE[name], ["T -> STRING"])
    return None


def _function(name: str, kind: str, doc: str, signatures: Iterable[str]) -> Entity:
    variants = []
    for text in signatures:
        arguments, _, result = text.rpartition("->")
        variants.append(
            {
                "arguments": [
                    {
                        "name": f"arg{place}", "type": one.strip().removesuffix("..."),
                        "description": "", "isVariadic": one.strip().endswith("..."),
                    }
                    for place, one in enumerate(_parts(arguments))
                ],
                "returnType": result.strip(),
                "description": doc,
            }
        )  # fmt: skip
    is_users = name in PLACES
    return {
        "name": name, "description": doc, "author": "" if is_users else "Odradek",
        "version": "", "path": PLACES.get(name, "internal"),
        "functions": variants, "type": kind,
    }  # fmt: skip


def _parts(text: str) -> list[str]:
    """Divides parameters at their commas, but not within parentheses and angle brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += character in "(<"
        depth -= character in ")>" and not current.endswith("=")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current.strip() else parts
