"""Records that say how the definitions of tables change: the topic named like `topic.prefix`.

A record has the statement, and what the tables are after it. They are described as they are when
the statement is read, which is later than when it was executed.
"""

import time
from dataclasses import replace
from typing import Any, Final

from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.connectors.mysql.columns import Column, Table
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.statements import CREATE, DROP, Definition, TableName
from odradek.connect.connectors.mysql.tables import Tables
from odradek.connect.data import schemas
from odradek.connect.data.schemas import BOOLEAN, INT32, OPTIONAL_STRING, STRING, Field, struct
from odradek.connect.records import SourceRecord

# The numbers of java.sql.Types.
_JDBC: Final = {
    "tinyint": 5, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 6, "double": 8,
    "decimal": 3, "bit": -7, "year": 4, "date": 91, "time": 92, "datetime": 93, "timestamp": 2014,
    "char": 1, "varchar": 12, "tinytext": 12, "text": 12, "mediumtext": 12, "longtext": 12,
    "binary": -2, "varbinary": -3, "tinyblob": 2004, "blob": 2004, "mediumblob": 2004,
    "longblob": 2004, "enum": 1, "set": 1, "json": 1111,
}  # fmt: skip
_OTHER: Final = 1111

_COLUMN: Final = replace(
    struct(
        Field("name", STRING),
        Field("jdbcType", INT32),
        Field("nativeType", INT32.optional()),
        Field("typeName", STRING),
        Field("typeExpression", OPTIONAL_STRING),
        Field("charsetName", OPTIONAL_STRING),
        Field("length", INT32.optional()),
        Field("scale", INT32.optional()),
        Field("position", INT32),
        Field("optional", BOOLEAN.optional()),
        Field("autoIncremented", BOOLEAN.optional()),
        Field("generated", BOOLEAN.optional()),
        Field("comment", OPTIONAL_STRING),
        Field("defaultValueExpression", OPTIONAL_STRING),
        Field("enumValues", schemas.array(STRING, is_optional=True)),
        name="io.debezium.connector.schema.Column",
    ),
    version=1,
)
_TABLE: Final = replace(
    struct(
        Field("defaultCharsetName", OPTIONAL_STRING),
        Field("primaryKeyColumnNames", schemas.array(STRING, is_optional=True)),
        Field("columns", schemas.array(_COLUMN)),
        Field("comment", OPTIONAL_STRING),
        name="io.debezium.connector.schema.Table",
        is_optional=True,
    ),
    version=1,
)
_CHANGE: Final = replace(
    struct(
        Field("type", STRING),
        Field("id", STRING),
        Field("table", _TABLE),
        name="io.debezium.connector.schema.Change",
    ),
    version=1,
)


class SchemaChanges:
    def __init__(self, settings: MySqlSettings, tables: Tables) -> None:
        self._settings = settings
        self._tables = tables
        package = tables.product.package
        self._key_schema = replace(
            struct(Field("databaseName", STRING), name=f"{package}.SchemaChangeKey"), version=1
        )
        self._value_schema = replace(
            struct(
                Field("source", tables.source_schema),
                Field("ts_ms", schemas.INT64),
                Field("databaseName", OPTIONAL_STRING),
                Field("schemaName", OPTIONAL_STRING),
                Field("ddl", OPTIONAL_STRING),
                Field("tableChanges", schemas.array(_CHANGE)),
                name=f"{package}.SchemaChangeValue",
            ),
            version=1,
        )

    def records(self, sql: str, definition: Definition, origin: Origin) -> list[SourceRecord]:
        """Returns the record of a statement, if it is about something that is captured."""
        if not self._settings.include_schema_changes:
            return []
        if definition.database is not None:
            if not self._tables.selects_database(definition.database):
                return []
            return [self._record(sql, definition.database, [], None, origin)]
        names = [name for name in definition.tables if self._tables.selects(*_parts(name))]
        if not names:
            return []
        changes = [self._change(definition.kind, name) for name in names]
        return [self._record(sql, names[0].database, changes, names[0].table, origin)]

    def created(self, table: Table, sql: str, origin: Origin) -> list[SourceRecord]:
        """Returns the record of a table that a snapshot reads."""
        if not self._settings.include_schema_changes:
            return []
        change = {"type": CREATE, "id": _id(table.database, table.name), "table": _described(table)}
        return [self._record(sql, table.database, [change], table.name, origin)]

    def _change(self, kind: str, name: TableName) -> dict[str, Any]:
        table = None if kind == DROP else self._tables.known(*_parts(name))
        described = None if table is None else _described(table)
        return {"type": kind, "id": _id(*_parts(name)), "table": described}

    def _record(
        self,
        sql: str,
        database: str,
        changes: list[dict[str, Any]],
        table: str | None,
        origin: Origin,
    ) -> SourceRecord:
        value = {
            "source": {**origin.source, "db": database, "table": table},
            "ts_ms": time.time_ns() // 1_000_000,
            "databaseName": database,
            "schemaName": None,
            "ddl": sql,
            "tableChanges": changes,
        }
        return SourceRecord(
            self._settings.topic_prefix,
            {"databaseName": database},
            value,
            self._key_schema,
            self._value_schema,
            partition=0,
            source_partition=origin.partition,
            source_offset=origin.offset,
        )


def _parts(name: TableName) -> tuple[str, str]:
    return name.database, name.table


def _id(database: str, table: str) -> str:
    return f'"{database}"."{table}"'


def _described(table: Table) -> dict[str, Any]:
    return {
        "defaultCharsetName": None,
        "primaryKeyColumnNames": list(table.key),
        "columns": [_column(column, place) for place, column in enumerate(table.columns, 1)],
        "comment": None,
    }


def _column(column: Column, place: int) -> dict[str, Any]:
    name = column.type.upper() + (" UNSIGNED" if column.is_unsigned else "")
    return {
        "name": column.name,
        "jdbcType": _JDBC.get(column.type, _OTHER),
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": column.charset,
        "length": min(column.length, 2**31 - 1) or None,
        "scale": column.scale,
        "position": place,
        "optional": column.is_nullable,
        "autoIncremented": column.is_auto_increment,
        "generated": column.is_generated,
        "comment": column.comment,
        "defaultValueExpression": column.default,
        "enumValues": [f"'{label}'" for label in column.labels] or None,
    }
