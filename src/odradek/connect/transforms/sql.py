"""The transform Sql: selects records and computes fields by SQL expressions.

    transforms.t.type=odradek.connect.transforms.Sql$Value
    transforms.t.select=*, price * quantity AS total, upper(country) AS country
    transforms.t.where=price > 0 AND country IS NOT NULL

If several columns have the same name, the record gets the value of the last one, at the position
of the first.
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
    select = string("select", "*", "The fields: expressions with names, and * for all fields.")
    where = string("where", "", "A condition. Records for which it is not true are dropped.")

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


class _CompiledSelect(NamedTuple):
    """The condition and the columns, compiled for records with certain schemas.

    A column with None is a field that is kept as it is. `schema` is that of the result, None for
    records without a schema.
    """

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
        self._compiled = lru_cache(1000)(self._compile)

    def apply(self, record: R) -> R | None:
        value = self._side.content(record)
        if value is None:
            return record  # A tombstone has no fields. It must stay, because it deletes its key.
        schema = self._side.schema(record)
        select = self._compiled(record.key_schema, record.value_schema)
        if select.where is not None and select.where.get(record) is not True:
            return None
        if self._is_whole:
            return record
        if schema is None:
            return self._side.replaced(record, None, self._without_schema(record, value))
        fields = as_struct(schema, value, "Sql")
        found: dict[str, Any] = {}
        for name, compiled in select.columns:
            found[name] = fields.get(name) if compiled is None else compiled.get(record)
        return self._side.replaced(record, select.schema, found)

    def _without_schema(self, record: R, value: Any) -> dict[str, Any]:
        fields = as_map(value, "Sql")
        compiled = dict(self._compiled(record.key_schema, record.value_schema).columns)
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

    def _compile(self, key: Schema | None, value: Schema | None) -> _CompiledSelect:
        scope = field_scope(self._side, key, value)
        where = None if self._where is None else compile_expression(self._where, scope)
        if where is not None and where.schema is not None and where.schema.type is not Type.BOOLEAN:
            raise DataError(f"`where` must be a condition; its type is {where.schema.type}")
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
            return _CompiledSelect(where, tuple(columns.items()), None)
        fields = tuple(Field(name, part) for name, part in parts.items())
        # The schema keeps its name, but not its version, which is that of the original fields.
        made = Schema(Type.STRUCT, is_optional=schema.is_optional, name=schema.name, fields=fields)
        return _CompiledSelect(where, tuple(columns.items()), made)

    @staticmethod
    def _schema_of(column: Column, compiled: Compiled, schema: Schema | None) -> Schema:
        if compiled.schema is None and schema is not None:
            raise DataError(
                f"the type of {column.name} is unknown: write CAST(... AS STRING), for example"
            )
        return compiled.schema or Schema(Type.STRING)
