"""Arrays, maps and structs in expressions: how they are made, and their parts."""

import logging
from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid
from odradek.sql.language.dialect import place_of
from odradek.sql.planning.expressions import (
    ROW_ERRORS,
    Compiled,
    Evaluate,
    coerced,
    common_type,
    compile_expression,
)
from odradek.sql.planning.scope import Scope
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan.types import (
    BIGINT,
    INTEGER,
    STRING,
    ArrayType,
    MapType,
    SqlType,
    StructType,
)

_log: Final = logging.getLogger("odradek.sql.processing")


def compile_part(node: Any, scope: Scope) -> Compiled:
    """Returns the function of an expression that makes a collection, or takes a part of one."""
    return _COMPILERS[type(node)](node, scope)


def _or_null(compiled: Compiled, node: exp.Expr) -> Evaluate:
    """Returns what computes a part of a collection: null where it fails, as in ksqlDB, so that the
    other parts are kept."""
    if compiled.is_literal:
        return compiled.evaluate
    evaluate = compiled.evaluate

    def safe(row: Any) -> Any:
        try:
            return evaluate(row)
        except ROW_ERRORS as error:
            _log.warning("%s is null: %s", node.sql(), error)
            return None

    return safe


def _array(node: Any, scope: Scope) -> Compiled:
    if not node.expressions:
        raise Invalid(
            "Array constructor cannot be empty. Please supply at least one element", place_of(node)
        )
    items = [compile_expression(expression, scope) for expression in node.expressions]
    kind, items = common_type(items, node.expressions, "ARRAY")
    if kind is None:
        raise Invalid(
            "Cannot construct an array with all NULL elements: CAST one of them to a type",
            place_of(node),
        )
    evaluates = [_or_null(item, one) for item, one in zip(items, node.expressions, strict=True)]
    return Compiled(ArrayType(kind), lambda row: [evaluate(row) for evaluate in evaluates])


def _map(node: Any, scope: Scope) -> Compiled:
    key_nodes = node.args["keys"].expressions
    value_nodes = node.args["values"].expressions
    if not key_nodes:
        raise Invalid(
            "Map constructor cannot be empty. Please supply at least one key value pair",
            place_of(node),
        )
    keys = [compile_expression(key_node, scope) for key_node in key_nodes]
    values = [compile_expression(value_node, scope) for value_node in value_nodes]
    key_kind, keys = common_type(keys, key_nodes, "MAP")
    value_kind, values = common_type(values, value_nodes, "MAP")
    if key_kind is None or value_kind is None:
        raise Invalid(
            "Cannot construct a map with all NULL keys or values: CAST one of them to a type",
            place_of(node),
        )
    pairs = [
        (_or_null(key, key_node), _or_null(value, value_node))
        for key, value, key_node, value_node in zip(
            keys, values, key_nodes, value_nodes, strict=True
        )
    ]
    return Compiled(
        MapType(key_kind, value_kind),
        lambda row: {hashable(key(row)): value(row) for key, value in pairs},
    )


def _struct(node: Any, scope: Scope) -> Compiled:
    fields: list[tuple[str, SqlType]] = []
    evaluates: list[tuple[str, Evaluate]] = []
    for pair in node.expressions:
        name = pair.this.name
        compiled = compile_expression(pair.expression, scope)
        if any(name == other for other, _ in fields):
            raise Invalid(f"the field {name} is given twice", place_of(node))
        fields.append((name, compiled.kind or STRING))
        evaluates.append((name, _or_null(compiled, pair.expression)))
    return Compiled(
        StructType(tuple(fields)),
        lambda row: {name: evaluate(row) for name, evaluate in evaluates},
    )


def _dereference(node: Any, scope: Scope) -> Compiled:
    base = compile_expression(node.this, scope)
    name = node.expression.name
    if not isinstance(base.kind, StructType):
        raise Invalid(f"'->{name}' needs a STRUCT, and this is {base.kind}", place_of(node))
    kind = base.kind.field_type(name)
    if kind is None:
        near = did_you_mean(name, [field for field, _ in base.kind.fields])
        raise Invalid(f"there is no field {name} in {base.kind}{near}", place_of(node))
    evaluate = base.evaluate

    def read(row: Any) -> Any:
        value = evaluate(row)
        return None if value is None else value.get(name)

    return Compiled(kind, read)


def _subscript(node: Any, scope: Scope) -> Compiled:
    base = compile_expression(node.this, scope)
    (index_node,) = node.expressions
    index = compile_expression(index_node, scope)
    evaluate, evaluate_index = base.evaluate, index.evaluate
    if isinstance(base.kind, MapType):
        index = coerced(index, base.kind.key, index_node, "the key of a map")
        evaluate_index = index.evaluate

        def read_map(row: Any) -> Any:
            value, key = evaluate(row), evaluate_index(row)
            return None if value is None else value.get(key)

        return Compiled(base.kind.value, read_map)
    if not isinstance(base.kind, ArrayType):
        raise Invalid(f"'[]' needs an ARRAY or a MAP, and this is {base.kind}", place_of(node))
    if index.kind not in (INTEGER, BIGINT):
        raise Invalid(f"the place in an array is INTEGER, not {index.kind}", place_of(index_node))

    def read_array(row: Any) -> Any:
        values, place = evaluate(row), evaluate_index(row)
        if values is None or place is None or place == 0 or abs(place) > len(values):
            return None
        return values[place - 1] if place > 0 else values[place]

    return Compiled(base.kind.element, read_array)


_COMPILERS: Final[dict[type, Callable[[Any, Scope], Compiled]]] = {
    exp.Array: _array, exp.VarMap: _map, exp.Struct: _struct, exp.Dot: _dereference,
    exp.Bracket: _subscript,
}  # fmt: skip
