"""Sql: chooses records and computes fields by expressions of SQL.

    transforms.t.type=odradek.connect.transforms.Sql$Value
    transforms.t.select=*, price * quantity AS total, upper(country) AS country
    transforms.t.where=price > 0 AND country IS NOT NULL

Columns of the same name replace one another; the last one stays, at the place of the first.
"""

from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from odradek.config.kinds import string
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.expressions.compiling import Compiled, compile_expression
from odradek.connect.expressions.parsing import parse, parse_columns
from odradek.connect.expressions.records import field_scope
from odradek.connect.expressions.syntax import Column
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.transforms.transform import R, Side, as_map, as_struct


class SqlSettings(PluginSettings):
    select = string("select", "*", "The fields: expressions with names, and * for all there are.")
    where = string("where", "", "The condition; records for which it is not true are dropped.")

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, text, read in (
            ("select", self.select, parse_columns),
            ("where", self.where or "true", parse),
        ):
            try:
                read(text)
            except InvalidConfig as error:
                problems[name] = [invalid(name, text, str(error))]
        return problems


class _Made(NamedTuple):
    """What is done with records of a schema. A column without an expression is a field that stays.
    `schema` is None for records without one."""

    where: Compiled | None
    columns: tuple[tuple[str, Compiled | None], ...]
    schema: Schema | None


class Sql:
    settings_class: ClassVar = SqlSettings

    def __init__(self, settings: SqlSettings, side: Side) -> None:
        self._side = side
        self._columns = parse_columns(settings.select)
        self._where = parse(settings.where) if settings.where.strip() else None
        self._is_whole = settings.select.strip() == "*"
        self._made = lru_cache(1000)(self._make)

    def apply(self, record: R) -> R | None:
        value = self._side.content(record)
        if value is None:
            return record  # A tombstone has no fields, and says that others are gone.
        schema = self._side.schema(record)
        made = self._made(record.key_schema, record.value_schema)
        if made.where is not None and made.where.get(record) is not True:
            return None
        if self._is_whole:
            return record
        if schema is None:
            return self._side.replaced(record, None, self._without_schema(record, value))
        fields = as_struct(schema, value, "Sql")
        found: dict[str, Any] = {}
        for name, compiled in made.columns:
            found[name] = fields.get(name) if compiled is None else compiled.get(record)
        return self._side.replaced(record, made.schema, found)

    def _without_schema(self, record: R, value: Any) -> dict[str, Any]:
        fields = as_map(value, "Sql")
        compiled = dict(self._made(record.key_schema, record.value_schema).columns)
        found: dict[str, Any] = {}
        for column in self._columns:
            if column.of is None:
                found |= {
                    name: part for name, part in fields.items() if name not in column.excluded
                }
            else:
                get = compiled[column.name]
                assert get is not None
                found[column.name] = get.get(record)
        return found

    def _make(self, key: Schema | None, value: Schema | None) -> _Made:
        scope = field_scope(self._side, key, value)
        where = None if self._where is None else compile_expression(self._where, scope)
        if where is not None and where.schema is not None and where.schema.type is not Type.BOOLEAN:
            raise DataError(f"`where` is no condition, but of type {where.schema.type}")
        schema = key if self._side is Side.KEY else value
        columns: dict[str, Compiled | None] = {}
        parts: dict[str, Schema] = {}
        for column in self._columns:
            if column.of is not None:
                compiled = compile_expression(column.of, scope)
                columns[column.name] = compiled
                parts[column.name] = self._schema_of(column, compiled, schema)
            elif schema is not None:
                for part in schema.fields:
                    if part.name not in column.excluded:
                        columns[part.name], parts[part.name] = None, part.schema
        if schema is None:
            return _Made(where, tuple(columns.items()), None)
        fields = tuple(Field(name, part) for name, part in parts.items())
        # The name stays: it says what the record is, and versions are those of other fields.
        made = Schema(Type.STRUCT, is_optional=schema.is_optional, name=schema.name, fields=fields)
        return _Made(where, tuple(columns.items()), made)

    @staticmethod
    def _schema_of(column: Column, compiled: Compiled, schema: Schema | None) -> Schema:
        if compiled.schema is None and schema is not None:
            raise DataError(
                f"the type of {column.name} is not known: write CAST(... AS STRING), for example"
            )
        return compiled.schema or Schema(Type.STRING)
