"""An expression as a Python function of a row, with the type of its value.

`compile_expression` checks names and types, and refuses by name what the language does not have.
The function raises what goes wrong with the values of one row: division by zero, a text that is no
number. Who calls it makes a null of it, and notes it in the processing log
(`parts.Context.evaluate`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from odradek.sql.errors import Invalid, Refused
from odradek.sql.functions.java_times import moment_of, read_timestamp, timestamp_of, zone
from odradek.sql.language.dialect import place_of
from odradek.sql.planning import casting, operators
from odradek.sql.planning.like import like_pattern
from odradek.sql.planning.scope import Scope
from odradek.streams.plan.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    STRING,
    DecimalType,
    SqlType,
)

Row = Sequence[Any]
Evaluate = Callable[[Any], Any]

ROW_ERRORS: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
"""What the values of a row can make an expression raise."""


@dataclass(frozen=True, slots=True)
class Compiled:
    kind: SqlType | None
    """None for a null, which has every type."""
    evaluate: Evaluate
    literal: Any = None
    """The value, if it is a literal."""
    is_literal: bool = False


def constant(value: Any, kind: SqlType | None, *, is_literal: bool = True) -> Compiled:
    return Compiled(kind, lambda _: value, value, is_literal)


def compile_expression(node: exp.Expr, scope: Scope) -> Compiled:
    """Returns the function of an expression. Raises `Invalid` or `Refused` with the place."""
    compile_node = _COMPILERS.get(type(node))
    if compile_node is None:
        name = type(node).__name__.upper()
        raise Refused(f"{name} is refused here: {node.sql()}", place_of(node))
    return compile_node(node, scope)


def coerced(compiled: Compiled, target: SqlType, node: exp.Expr, what: str) -> Compiled:
    """Returns an expression as a type, if it becomes that by itself. A literal becomes more."""
    if compiled.kind == target:
        return compiled
    if compiled.is_literal and compiled.kind == STRING and target != STRING:
        try:
            return constant(casting.literal(compiled.literal, target), target)
        except ValueError as error:
            raise Invalid(f"{what}: {error}", place_of(node)) from None
    if compiled.is_literal and target == STRING and compiled.kind is not None:
        return constant(casting.shown(compiled.literal, compiled.kind), STRING)
    convert = casting.implicit(compiled.kind, target)
    if convert is None:
        raise Invalid(f"{what}: {compiled.kind} is no {target}; use CAST", place_of(node))
    return converted(compiled, convert, target)


def converted(compiled: Compiled, convert: casting.Cast, target: SqlType) -> Compiled:
    evaluate = compiled.evaluate

    def evaluate_converted(row: Any) -> Any:
        value = evaluate(row)
        return None if value is None else convert(value)

    return Compiled(target, evaluate_converted)


def common_type(
    compiled: Sequence[Compiled], nodes: Sequence[exp.Expr], what: str
) -> tuple[SqlType | None, list[Compiled]]:
    """Returns the type that all have in common, and the expressions as that type. The first that is
    not null decides what kind of type it is, and text literals follow."""
    kind = next((one.kind for one in compiled if one.kind is not None), None)
    if kind is None:
        return None, list(compiled)
    given: list[Compiled] = []
    for one, node in zip(compiled, nodes, strict=True):
        if kind.is_numeric and one.is_literal and one.kind == STRING:
            number = casting.number_in_text(one.literal)
            if number is None:
                raise Invalid(f"{what}: '{one.literal}' is not a number", place_of(node))
            one = constant(*number)  # noqa: PLW2901 - it is the same value
        given.append(one)
        if one.is_literal and STRING in (one.kind, kind):
            continue
        merged = casting.common(kind, one.kind)
        if merged is None:
            raise Invalid(f"{what}: {one.kind} does not go with {kind}; use CAST", place_of(node))
        kind = merged
    return kind, [coerced(one, kind, node, what) for one, node in zip(given, nodes, strict=True)]


# Literals and columns


def _literal(node: Any, _: Scope) -> Compiled:
    if node.is_string:
        return constant(node.this, STRING)
    number = casting.number_in_text(node.this)
    if number is None:
        raise Invalid(f"{node.this} is not a number", place_of(node))
    value, kind = number
    if kind.is_numeric and isinstance(kind, DecimalType) and "." not in node.this:
        raise Invalid(f"{node.this} is too large for BIGINT", place_of(node))
    return constant(value, kind)


def _null(_: Any, __: Scope) -> Compiled:
    return constant(None, None)


def _boolean(node: Any, _: Scope) -> Compiled:
    return constant(bool(node.this), BOOLEAN)


def _column(node: Any, scope: Scope) -> Compiled:
    source = node.args.get("table")
    column = scope.find(node.this.name, source.name if source else None, place_of(node))
    index = column.index
    return Compiled(column.kind, lambda row: row[index])


def _paren(node: Any, scope: Scope) -> Compiled:
    return compile_expression(node.this, scope)


# Arithmetic


def _two(node: Any, scope: Scope) -> tuple[Compiled, Compiled]:
    return compile_expression(node.this, scope), compile_expression(node.expression, scope)


def _arithmetic(sign: str) -> Callable[[Any, Scope], Compiled]:
    def compile_arithmetic(node: Any, scope: Scope) -> Compiled:
        left, right = _two(node, scope)
        if (
            sign == "+"
            and {left.kind, right.kind} <= {STRING, BYTES, None}
            and (left.kind is not None or right.kind is not None)
        ):
            return _binary(left, right, lambda a, b: a + b, left.kind or right.kind)
        one, other = left.kind or right.kind, right.kind or left.kind
        found = None if one is None or other is None else operators.arithmetic(sign, one, other)
        if found is None:
            raise Invalid(
                f"Unsupported arithmetic types. {left.kind or 'NULL'} {right.kind or 'NULL'}:"
                f" '{sign}' is not defined for them", place_of(node),
            )  # fmt: skip
        kind, compute = found
        return _binary(left, right, compute, kind)

    return compile_arithmetic


def _binary(
    left: Compiled, right: Compiled, compute: Callable[[Any, Any], Any], kind: SqlType | None
) -> Compiled:
    one, other = left.evaluate, right.evaluate

    def evaluate(row: Any) -> Any:
        a, b = one(row), other(row)
        return None if a is None or b is None else compute(a, b)

    return Compiled(kind, evaluate)


def _negate(node: Any, scope: Scope) -> Compiled:
    operand = compile_expression(node.this, scope)
    if operand.kind is None or not operand.kind.is_numeric:
        raise Invalid(f"'-' is not defined for {operand.kind or 'NULL'}", place_of(node))
    return converted(operand, lambda value: -value, operand.kind)


def _concatenate(node: Any, scope: Scope) -> Compiled:
    left, right = _two(node, scope)
    kinds = {left.kind, right.kind} - {None}
    if kinds not in ({STRING}, {BYTES}):
        raise Invalid(
            f"'||' joins two texts, not {left.kind or 'NULL'} and {right.kind or 'NULL'}",
            place_of(node),
        )
    return _binary(left, right, lambda a, b: a + b, left.kind or right.kind)


# Conditions. As in ksqlDB, a comparison with null is false, not null.


def _comparison(sign: str) -> Callable[[Any, Scope], Compiled]:
    def compile_comparison(node: Any, scope: Scope) -> Compiled:
        left, right = _matched(node.this, node.expression, *_two(node, scope))
        if left.kind is None or right.kind is None:
            raise Invalid(
                f"Comparison with NULL not supported: {left.kind or 'NULL'} {sign}"
                f" {right.kind or 'NULL'}. Use 'IS NULL' or 'IS NOT NULL' instead.",
                place_of(node),
            )
        compare = operators.comparison(sign, left.kind, right.kind)
        if isinstance(compare, str):
            raise Invalid(compare, place_of(node))
        one, other = left.evaluate, right.evaluate
        return Compiled(BOOLEAN, lambda row: compare(one(row), other(row)))

    return compile_comparison


def _matched(
    left_node: exp.Expr, right_node: exp.Expr, left: Compiled, right: Compiled
) -> tuple[Compiled, Compiled]:
    """Returns two operands of a comparison; a text literal becomes what the other one is."""
    if left.kind is None or right.kind is None:
        return left, right
    if right.is_literal and right.kind == STRING and left.kind != STRING:
        return left, _as_compared(right, left.kind, right_node)
    if left.is_literal and left.kind == STRING and right.kind != STRING:
        return _as_compared(left, right.kind, left_node), right
    if left.kind == STRING and right.kind.name in _TIMES:
        return _read_as(left, right.kind), right
    if right.kind == STRING and left.kind.name in _TIMES:
        return left, _read_as(right, left.kind)
    return left, right


_TIMES: Final = ("DATE", "TIME", "TIMESTAMP")


def _read_as(text: Compiled, kind: SqlType) -> Compiled:
    """Returns a text that is compared with a time as one."""
    convert = casting.cast(STRING, kind)
    assert convert is not None
    return converted(text, convert, kind)


def _as_compared(text: Compiled, kind: SqlType, node: exp.Expr) -> Compiled:
    if kind.name not in ("DATE", "TIME", "TIMESTAMP", "BIGINT", "INTEGER", "DOUBLE", "DECIMAL"):
        return text
    if kind.is_numeric:
        # ROWTIME is compared with times as texts, as well as with numbers.
        number = casting.number_in_text(text.literal)
        if number is not None:
            return constant(*number)
        kind_read: SqlType = kind
        if kind == BIGINT:
            try:
                return constant(read_timestamp(text.literal), BIGINT)
            except ValueError:
                pass
        raise Invalid(f"'{text.literal}' is no {kind_read}", place_of(node))
    return coerced(text, kind, node, "the comparison")


def _distinct(is_not: bool) -> Callable[[Any, Scope], Compiled]:
    def compile_distinct(node: Any, scope: Scope) -> Compiled:
        left, right = _matched(node.this, node.expression, *_two(node, scope))
        why = operators.comparison("=", left.kind, right.kind)
        if isinstance(why, str):
            raise Invalid(why, place_of(node))
        one, other = left.evaluate, right.evaluate
        return Compiled(BOOLEAN, lambda row: (one(row) != other(row)) is not is_not)

    return compile_distinct


def condition(node: exp.Expr, scope: Scope, what: str) -> Compiled:
    """Returns an expression that must be BOOLEAN."""
    compiled = compile_expression(node, scope)
    if compiled.kind not in (BOOLEAN, None):
        raise Invalid(
            f"{what} is a condition of type BOOLEAN, and this is {compiled.kind}", place_of(node)
        )
    return compiled


def _and(node: Any, scope: Scope) -> Compiled:
    one = condition(node.this, scope, "an operand of AND").evaluate
    other = condition(node.expression, scope, "an operand of AND").evaluate

    def evaluate(row: Any) -> Any:
        left = one(row)
        return other(row) if left else left

    return Compiled(BOOLEAN, evaluate)


def _or(node: Any, scope: Scope) -> Compiled:
    one = condition(node.this, scope, "an operand of OR").evaluate
    other = condition(node.expression, scope, "an operand of OR").evaluate

    def evaluate(row: Any) -> Any:
        left = one(row)
        return left if left is None or left else other(row)

    return Compiled(BOOLEAN, evaluate)


def _not(node: Any, scope: Scope) -> Compiled:
    operand = condition(node.this, scope, "the operand of NOT").evaluate

    def evaluate(row: Any) -> Any:
        value = operand(row)
        return None if value is None else not value

    return Compiled(BOOLEAN, evaluate)


def _is_null(node: Any, scope: Scope) -> Compiled:
    operand = compile_expression(node.this, scope).evaluate
    return Compiled(BOOLEAN, lambda row: operand(row) is None)


def _between(node: Any, scope: Scope) -> Compiled:
    nodes = (node.this, node.args["low"], node.args["high"])
    value, low, high = (compile_expression(one, scope) for one in nodes)
    value_low, low = _matched(nodes[0], nodes[1], value, low)
    value_high, high = _matched(nodes[0], nodes[2], value, high)
    above = operators.comparison(">=", value_low.kind, low.kind)
    below = operators.comparison("<=", value_high.kind, high.kind)
    for why in (above, below):
        if isinstance(why, str):
            raise Invalid(why, place_of(node))
    assert callable(above)
    assert callable(below)
    evaluate_low, evaluate_high, first = low.evaluate, high.evaluate, value_low.evaluate
    second = value_high.evaluate

    def evaluate(row: Any) -> bool:
        is_above = above(first(row), evaluate_low(row))
        return bool(is_above and below(second(row), evaluate_high(row)))

    return Compiled(BOOLEAN, evaluate)


def _in(node: Any, scope: Scope) -> Compiled:
    nodes = [node.this, *node.expressions]
    _, compiled = common_type([compile_expression(one, scope) for one in nodes], nodes, "IN")
    value, *choices = (one.evaluate for one in compiled)

    def evaluate(row: Any) -> bool:
        wanted = value(row)
        return wanted is not None and any(choice(row) == wanted for choice in choices)

    return Compiled(BOOLEAN, evaluate)


def _like(node: Any, scope: Scope, escape: str | None = None) -> Compiled:
    value, pattern = _two(node, scope)
    for one, operand in ((value, node.this), (pattern, node.expression)):
        if one.kind not in (STRING, None):
            raise Invalid(f"LIKE compares texts, and this is {one.kind}", place_of(operand))
    read, read_pattern = value.evaluate, pattern.evaluate
    fixed = like_pattern(pattern.literal, escape) if pattern.is_literal and pattern.kind else None

    def evaluate(row: Any) -> bool:
        text = read(row)
        if text is None:
            return False
        compiled = fixed
        if compiled is None:
            wanted = read_pattern(row)
            if wanted is None:
                return False
            compiled = like_pattern(wanted, escape)
        return compiled.fullmatch(text) is not None

    return Compiled(BOOLEAN, evaluate)


def _escaped_like(node: Any, scope: Scope) -> Compiled:
    return _like(node.this, scope, node.expression.this)


def _case(node: Any, scope: Scope) -> Compiled:
    branches = node.args["ifs"]
    conditions: list[Compiled] = []
    for branch in branches:
        if node.this is not None:
            equal = exp.EQ(this=node.this.copy(), expression=branch.this)
            conditions.append(compile_expression(equal, scope))
        else:
            conditions.append(condition(branch.this, scope, "the condition of WHEN"))
    results = [branch.args["true"] for branch in branches]
    default = node.args.get("default")
    if default is not None:
        results.append(default)
    kind, values = common_type(
        [compile_expression(result, scope) for result in results], results, "CASE"
    )
    if kind is None:
        raise Invalid("Invalid Case expression. All case branches have NULL type", place_of(node))
    if default is None:
        values.append(constant(None, None))
    tests = [one.evaluate for one in conditions]
    choices = [value.evaluate for value in values]

    def evaluate(row: Any) -> Any:
        for test, choice in zip(tests, choices, strict=False):
            if test(row):
                return choice(row)
        return choices[-1](row)

    return Compiled(kind, evaluate)


# Types, arrays, maps and structs


def _cast(node: Any, scope: Scope) -> Compiled:
    compiled = compile_expression(node.this, scope)
    target: SqlType = node.meta["kind"]
    convert = casting.cast(compiled.kind, target)
    if convert is None:
        raise Invalid(f"Cast of {compiled.kind} to {target} is not supported", place_of(node))
    return converted(compiled, convert, target)


def _constructed(node: Any, scope: Scope) -> Compiled:
    from odradek.sql.planning.constructing import compile_part  # noqa: PLC0415 - it calls us

    return compile_part(node, scope)


def _at_time_zone(node: Any, scope: Scope) -> Compiled:
    operand = compile_expression(node.this, scope)
    if operand.kind is None or operand.kind.name != "TIMESTAMP":
        raise Invalid(f"AT TIME ZONE needs a TIMESTAMP, not {operand.kind}", place_of(node))
    try:
        where = zone(node.args["zone"].this)
    except ValueError as error:
        raise Invalid(str(error), place_of(node)) from None

    def convert(value: int) -> int:
        return timestamp_of(moment_of(value, where).replace(tzinfo=moment_of(0).tzinfo))

    return converted(operand, convert, operand.kind)


def _call(node: Any, scope: Scope) -> Compiled:
    from odradek.sql.planning.calls import compile_call  # noqa: PLC0415 - it calls us

    return compile_call(node, scope)


def _misplaced(node: Any, _: Scope) -> Compiled:
    what = {exp.Lambda: "a lambda", exp.Var: f"the unit {node.name}"}.get(type(node), "'*'")
    raise Invalid(f"{what} stands only among the arguments of some functions", place_of(node))


_COMPILERS: Final[dict[type, Callable[[Any, Scope], Compiled]]] = {
    exp.Literal: _literal, exp.Null: _null, exp.Boolean: _boolean, exp.Column: _column,
    exp.Paren: _paren, exp.Add: _arithmetic("+"), exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"), exp.Div: _arithmetic("/"), exp.Mod: _arithmetic("%"),
    exp.Neg: _negate, exp.DPipe: _concatenate, exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"), exp.LT: _comparison("<"), exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"), exp.GTE: _comparison(">="), exp.NullSafeEQ: _distinct(is_not=True),
    exp.NullSafeNEQ: _distinct(is_not=False), exp.And: _and, exp.Or: _or, exp.Not: _not,
    exp.Is: _is_null, exp.Between: _between, exp.In: _in, exp.Like: _like,
    exp.Escape: _escaped_like, exp.Case: _case, exp.Cast: _cast, exp.Array: _constructed,
    exp.VarMap: _constructed, exp.Struct: _constructed, exp.Dot: _constructed,
    exp.Bracket: _constructed,
    exp.AtTimeZone: _at_time_zone, exp.Anonymous: _call, exp.Lambda: _misplaced,
    exp.Var: _misplaced, exp.Star: _misplaced,
}  # fmt: skip
