"""Makes the record of an INSERT VALUES statement: the values of a row as the bytes of a record."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid, Place
from odradek.sql.language.dialect import place_of
from odradek.sql.language.statements import InsertValues
from odradek.sql.planning import casting
from odradek.sql.planning.expressions import ROW_ERRORS, coerced, compile_expression
from odradek.sql.planning.scope import ROWTIME, Scope
from odradek.sql.planning.sources import (
    DataSource,
    MakeCodec,
    key_codec,
    make_codec,
    value_codec,
)
from odradek.streams.plan.types import BIGINT, Column, SqlType
from odradek.world.blocking_calls import blocking

_NO_COLUMNS = Scope(())


class NewRecord(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def record_of(
    statement: InsertValues, source: DataSource, make: MakeCodec = make_codec
) -> NewRecord:
    """Returns the record of a statement for the topic of `source`. Raises `Invalid` if the values
    do not fit the columns. It may block, because the first row registers the schema."""
    place = statement.place
    _check(source, place)
    columns = [column for column in source.schema if column.header is None]
    names = statement.columns or tuple(column.name for column in columns)
    if len(names) != len(statement.values):
        if not statement.columns and len(statement.values) == len(columns) + 1:
            raise Invalid(
                f"Failed to prepare statement: Expected one value per column name. Got {len(names)}"
                f" columns and {len(statement.values)} values. If the first is meant for ROWTIME,"
                " write the names of the columns.", place,
            )  # fmt: skip
        raise Invalid(
            "Failed to prepare statement: Expected one value per column name. Got"
            f" {len(names)} columns and {len(statement.values)} values.", place,
        )  # fmt: skip
    kinds = {column.name: column.kind for column in columns} | {ROWTIME: BIGINT}
    given: dict[str, Any] = {}
    for name, node in zip(names, statement.values, strict=True):
        if name in given:
            raise Invalid(f"Column name {name} is given twice", place_of(node))
        if name not in kinds:
            near = did_you_mean(name, list(kinds))
            raise Invalid(f"Column name {name} does not exist in {source.name}{near}", place)
        given[name] = constant_value(node, kinds[name], name)
    return encode(source, given, place, make)


def _check(source: DataSource, place: Place) -> None:
    if source.is_read_only:
        raise Invalid(f"Cannot insert into read-only {source.kind.lower()}: {source.name}", place)
    if source.window is not None:
        raise Invalid("Cannot insert values into windowed stream or table!", place)
    headers = [column.name for column in source.schema if column.header is not None]
    if headers:
        raise Invalid(f"Cannot insert into HEADER columns: {', '.join(headers)}", place)


def constant_value(node: exp.Expr, kind: SqlType, name: str) -> Any:
    """Returns the value of an expression without columns as a value of type `kind`. `name` is the
    column, for messages."""
    compiled = compile_expression(node, _NO_COLUMNS)
    what = f"the value for {name}"
    convert = casting.inserted(compiled.kind, kind)
    is_number = compiled.kind is not None and compiled.kind.is_numeric
    if compiled.is_literal and is_number and kind.is_numeric and _fits(compiled.literal, kind):
        convert = casting.cast(compiled.kind, kind)
    if convert is None:
        compiled = coerced(compiled, kind, node, what)
    try:
        value = compiled.evaluate(())
        return value if convert is None or value is None else convert(value)
    except ROW_ERRORS as error:
        raise Invalid(f"{what}: {error}", place_of(node)) from None


def _fits(value: Any, kind: SqlType) -> bool:
    """Returns whether a type can hold a number without loss."""
    if kind.name in ("INTEGER", "BIGINT"):
        limit = 1 << (31 if kind.name == "INTEGER" else 63)
        return bool(value == int(value)) and -limit <= value < limit
    return True


def encode(
    source: DataSource, given: Mapping[str, Any], place: Place, make: MakeCodec = make_codec
) -> NewRecord:
    """Returns the record with the values of `given`, by column. Other columns are null."""
    key = _row(source.schema.key, given)
    value = _row(source.topic_columns, given)
    if source.is_table and None in key:
        raise Invalid(
            "Failed to insert values. Value for primary key column(s)"
            f" {', '.join(column.name for column in source.schema.key)} is required for tables.",
            place,
        )
    is_keyless = all(part is None for part in key)
    try:
        return NewRecord(
            source.topic,
            blocking(key_codec(source, make).encode, None if is_keyless else key),
            blocking(value_codec(source, make).encode, value),
            given.get(ROWTIME),
        )
    except ValueError as error:
        raise Invalid(f"the row cannot be written: {error}", place) from None


def _row(columns: Sequence[Column], given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(given.get(column.name) for column in columns)
