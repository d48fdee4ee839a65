"""Rows of queries, as the formats of /query and /query-stream have them."""

from collections.abc import Sequence
from typing import Any

from odradek.sql.engine.answering import Answer, ResultRow
from odradek.sql.functions.java_times import iso_text
from odradek.streams.formats.columns import plain, to_json
from odradek.streams.plan.types import ArrayType, Column, MapType, SqlType, StructType


def row_values(row: ResultRow, columns: Sequence[Column]) -> list[Any]:
    """Returns the values of a row as JSON has them. Times are texts, unlike in topics."""
    return [shown(value, column.kind) for value, column in zip(row.values, columns, strict=True)]


def shown(value: Any, kind: SqlType) -> Any:
    if value is None:
        return None
    if kind.name in ("DATE", "TIME", "TIMESTAMP"):
        return iso_text(value, kind)
    if isinstance(kind, ArrayType):
        return [shown(one, kind.element) for one in value]
    if isinstance(kind, MapType):
        return {str(key): shown(one, kind.value) for key, one in value.items()}
    if isinstance(kind, StructType):
        return {name: shown(value.get(name), field) for name, field in kind.fields}
    return plain(value, kind)


def header(answer: Answer, query_id: str) -> str:
    """Returns the first line of /query-stream."""
    return to_json(
        {
            "queryId": query_id,
            "columnNames": [column.name for column in answer.columns],
            "columnTypes": [str(column.kind) for column in answer.columns],
        }
    )


def old_header(answer: Answer, query_id: str) -> str:
    """Returns the first element of /query."""
    schema = ", ".join(map(str, answer.columns))
    return to_json({"header": {"queryId": query_id, "schema": schema}})


def old_row(row: ResultRow, columns: Sequence[Column]) -> str:
    content: dict[str, Any] = {"columns": row_values(row, columns)}
    if row.is_deleted:
        content["tombstone"] = True
    return to_json({"row": content})
