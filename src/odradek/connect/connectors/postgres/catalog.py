"""What the catalog of PostgreSQL says of tables, their keys and the types of their columns."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from odradek.connect.connectors.postgres.database import Database
from odradek.connect.connectors.postgres.types import TypeRow

_TYPE = """SELECT t.typname, n.nspname, t.typtype, t.typelem, t.typbasetype, t.typtypmod,
       CASE WHEN e.typarray = t.oid THEN e.typdelim END,
       (SELECT json_agg(l.enumlabel ORDER BY l.enumsortorder) FROM pg_enum l
        WHERE l.enumtypid = t.oid)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_type e ON e.oid = t.typelem
WHERE t.oid = $1::oid"""

_TABLES = """SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY 1, 2"""

_TABLE = """SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = $1::oid"""

_OID = """SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')"""

# For names with points in them, which do not say where the name of the schema ends.
_OID_OF_FULL_NAME = """SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname || '.' || c.relname = $1 AND c.relkind IN ('r', 'p')"""

_COLUMNS = """SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull OR t.typnotnull,
       pg_get_expr(d.adbin, d.adrelid), a.attgenerated <> '', col_description(a.attrelid, a.attnum)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""

# The primary key first, then the unique indexes by name, as JDBC gives them.
_KEYS = """SELECT json_agg(a.attname ORDER BY k.number),
       bool_and(a.attnotnull) AND i.indpred IS NULL AND i.indimmediate
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid,
     unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, number)
     JOIN pg_attribute a ON a.attnum = k.attnum
WHERE i.indrelid = $1::oid AND a.attrelid = i.indrelid AND i.indisunique AND i.indisvalid
  AND i.indexprs IS NULL AND k.number <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisprimary, i.indpred, i.indimmediate, c.relname
ORDER BY i.indisprimary DESC, c.relname"""


class ColumnRow(NamedTuple):
    name: str
    type: TypeRow
    modifier: int
    is_required: bool
    default: str | None
    is_generated: bool
    comment: str | None


class TableRow(NamedTuple):
    """`key` is the primary key, or else the first unique index. `unique` is a key whose columns are
    never null, by which the table can be read in chunks; both are empty without one."""

    oid: int
    schema: str
    name: str
    columns: tuple[ColumnRow, ...]
    key: tuple[str, ...]
    unique: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Catalog:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._types: dict[int, TypeRow] = {}

    def tables(self) -> list[tuple[str, str]]:
        """Returns schema and name of all tables of users."""
        return [(str(row[0]), str(row[1])) for row in self._database.query(_TABLES).rows]

    def table_named(self, full_name: str) -> TableRow | None:
        """Returns the table that is called SCHEMA.TABLE, without quotes; None if there is none."""
        schema, _, name = full_name.partition(".")
        oid = self._database.value(_OID, schema, name)
        if oid is None and "." in name:
            oid = self._database.value(_OID_OF_FULL_NAME, full_name)
        return None if oid is None else self.table(int(oid))

    def table(self, oid: int) -> TableRow | None:
        """Returns the table as it is now; None if it is gone."""
        found = self._database.query(_TABLE, str(oid)).rows
        if not found:
            return None
        schema, name = found[0]
        columns = tuple(
            ColumnRow(
                str(row[0]),
                self.type(int(row[1] or 0)),
                int(row[2] or -1),
                row[3] == "t",
                row[4],
                row[5] == "t",
                row[6],
            )
            for row in self._database.query(_COLUMNS, str(oid)).rows
        )
        keys = [
            (tuple(json.loads(row[0] or "[]")), row[1] == "t")
            for row in self._database.query(_KEYS, str(oid)).rows
        ]
        key = keys[0][0] if keys else ()
        unique = next((columns_ for columns_, is_strict in keys if is_strict), ())
        return TableRow(oid, str(schema), str(name), columns, key, unique)

    def type(self, oid: int) -> TypeRow:
        """Returns a type; labels of an enum are those that it had when it was first asked for."""
        known = self._types.get(oid)
        if known is None:
            known = self._types[oid] = self._read_type(oid)
        return known

    def forget_types(self, oids: Iterable[int]) -> None:
        """Types that a table uses may have changed: an enum can get more labels."""
        for oid in oids:
            self._types.pop(oid, None)

    def _read_type(self, oid: int) -> TypeRow:
        found = self._database.query(_TYPE, str(oid)).rows
        if not found:
            return TypeRow(oid, f"type {oid}", "", "?")
        name, schema, kind, element, base, modifier, delimiter, labels = found[0]
        return TypeRow(
            oid,
            str(name),
            str(schema),
            str(kind),
            None if delimiter is None else self.type(int(element or 0)),
            None if base in (None, "0") else self.type(int(base or 0)),
            int(modifier or -1),
            tuple(json.loads(labels)) if labels else (),
            delimiter or ",",
        )
