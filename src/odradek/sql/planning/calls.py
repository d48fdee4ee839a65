"""Functions in expressions: which of their signatures fits the arguments, and what is called."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid, Refused
from odradek.sql.functions.declaring import (
    UNIT,
    Bindings,
    LambdaType,
    Scalar,
    Signature,
    Variant,
    as_decimal,
    cost,
    resolved,
)
from odradek.sql.functions.json_ import json_text_of
from odradek.sql.functions.table import AGGREGATES, NAMES, SCALARS
from odradek.sql.functions.tabular import TABULAR
from odradek.sql.language.dialect import place_of
from odradek.sql.planning import casting
from odradek.sql.planning.expressions import (
    Compiled,
    coerced,
    compile_expression,
    constant,
    converted,
)
from odradek.sql.planning.scope import Scope
from odradek.streams.plan.types import STRING, SimpleType, SqlType

Arguments = list[Compiled | exp.Lambda]


def check_function_names(expressions: Iterable[exp.Expr]) -> None:
    """Raises `Invalid` for the first call of a function that there is not."""
    for expression in expressions:
        for call in expression.find_all(exp.Anonymous):
            if call.this not in NAMES:
                raise _no_function(call)


def _no_function(node: Any) -> Invalid:
    near = did_you_mean(node.this, NAMES)
    return Invalid(f"there is no function {node.this}{near}", place_of(node))


def compile_call(node: Any, scope: Scope) -> Compiled:
    name = node.this
    if name == "TO_JSON_STRING":
        return _to_json_string(node, scope)
    function = SCALARS.get(name)
    if function is None:
        if name in AGGREGATES:
            raise Invalid(
                f"{name} is an aggregate: it stands in SELECT or HAVING, with GROUP BY, and not"
                " within another aggregate", place_of(node),
            )  # fmt: skip
        if name in TABULAR:
            raise Invalid(
                f"{name} makes several rows: it stands alone in SELECT, or within functions there",
                place_of(node),
            )
        raise _no_function(node)
    arguments = compile_arguments(node.expressions, scope)
    variant, bindings, kinds = _choose(function, node, arguments, scope)
    evaluates = _evaluates(variant.signature, bindings, node, arguments, scope)
    return _called(variant, bindings, kinds, evaluates)


def _to_json_string(node: Any, scope: Scope) -> Compiled:
    if len(node.expressions) != 1:
        raise Invalid("TO_JSON_STRING takes one argument", place_of(node))
    operand = compile_expression(node.expressions[0], scope)
    evaluate, kind = operand.evaluate, operand.kind
    return Compiled(STRING, lambda row: json_text_of(evaluate(row), kind))


def compile_arguments(nodes: Sequence[exp.Expr], scope: Scope) -> Arguments:
    """Returns the arguments; lambdas stay as they are until their types are known."""
    arguments: Arguments = []
    for node in nodes:
        if isinstance(node, exp.Lambda):
            arguments.append(node)
        elif isinstance(node, exp.Var) and scope.has(node.name):
            # A column may be called as a unit of time.
            column = exp.Column(this=exp.to_identifier(node.name, quoted=True))
            column.meta.update(node.meta)
            arguments.append(compile_expression(column, scope))
        elif isinstance(node, exp.Var):
            arguments.append(constant(node.name, UNIT))
        else:
            arguments.append(compile_expression(node, scope))
    return arguments


def match(
    signature: Signature, arguments: Arguments, scope: Scope
) -> tuple[int, Bindings, list[SqlType | None]] | None:
    """Returns how far arguments are from a signature, with its variables bound, or None."""
    if not signature.takes(len(arguments)):
        return None
    bindings: Bindings = {}
    total = 0
    kinds: list[SqlType | None] = []
    for index, argument in enumerate(arguments):
        parameter = signature.parameter(index)
        assert parameter is not None
        if isinstance(argument, exp.Lambda) != isinstance(parameter, LambdaType):
            return None
        if isinstance(argument, exp.Lambda):
            kinds.append(None)
            continue
        kinds.append(argument.kind)
        distance = cost(parameter, argument.kind, bindings)
        if distance is None:
            distance = _literal_cost(parameter, argument)
        if distance is None:
            return None
        total += distance
    for index, argument in enumerate(arguments):
        if isinstance(argument, exp.Lambda):
            parameter = signature.parameter(index)
            assert isinstance(parameter, LambdaType)
            if len(argument.expressions) != len(parameter.parameters):
                return None
            body = _lambda_body(argument, parameter, bindings, scope)
            if cost(parameter.result, body.kind, bindings) is None:
                return None
    return total, bindings, kinds


def _literal_cost(parameter: SqlType, argument: Compiled) -> int | None:
    """Returns the distance of a literal that becomes the parameter's type, or None."""
    if not argument.is_literal or argument.kind is None:
        return None
    if argument.kind == STRING and isinstance(parameter, SimpleType):
        if parameter.name in ("DATE", "TIME", "TIMESTAMP"):
            try:
                casting.literal(argument.literal, parameter)
            except ValueError:
                return None
            return 5
        # A unit of time may be written as a text.
        return 5 if parameter == UNIT else None
    return None


def _choose(
    function: Scalar, node: Any, arguments: Arguments, scope: Scope
) -> tuple[Variant, Bindings, list[SqlType | None]]:
    found = []
    for place, variant in enumerate(function.variants):
        matched = match(variant.signature, arguments, scope)
        if matched is not None:
            total, bindings, kinds = matched
            found.append((total, variant.signature.is_variadic, place, variant, bindings, kinds))
    if not found:
        raise no_match(function.name, [one.signature for one in function.variants], node, arguments)
    best = min(found, key=lambda one: one[:3])
    return best[3], best[4], best[5]


def no_match(
    name: str, signatures: Sequence[Signature], node: Any, arguments: Arguments
) -> Invalid:
    given = ", ".join(
        "LAMBDA" if isinstance(argument, exp.Lambda) else str(argument.kind or "NULL")
        for argument in arguments
    )
    choices = "; ".join(
        f"{name}({signature.text.rpartition('->')[0].strip()})" for signature in signatures
    )
    return Invalid(
        f"Function '{name}' does not accept parameters ({given}). There is: {choices}",
        place_of(node),
    )


def _lambda_body(node: exp.Lambda, kind: LambdaType, bindings: Bindings, scope: Scope) -> Compiled:
    kinds = [resolved(parameter, bindings) for parameter in kind.parameters]
    names = [identifier.name for identifier in node.expressions]
    inner = scope.with_variables(list(zip(names, kinds, strict=True)))
    return compile_expression(node.this, inner)


def _evaluates(
    signature: Signature, bindings: Bindings, node: Any, arguments: Arguments, scope: Scope
) -> list[Any]:
    """Returns what computes the arguments, each as the type that the function expects."""
    evaluates: list[Any] = []
    for index, argument in enumerate(arguments):
        parameter = signature.parameter(index)
        assert parameter is not None
        if isinstance(argument, exp.Lambda):
            assert isinstance(parameter, LambdaType)
            evaluates.append(_closure(_lambda_body(argument, parameter, bindings, scope)))
        else:
            evaluates.append(_prepared(argument, parameter, bindings, node).evaluate)
    return evaluates


def _called(
    variant: Variant, bindings: Bindings, kinds: list[SqlType | None], evaluates: list[Any]
) -> Compiled:
    kind = resolved(variant.signature.result, bindings)
    if variant.returns is not None:
        kind = variant.returns(kinds)
    call = variant.call
    if variant.nulls:
        return Compiled(kind, lambda row: call(*[evaluate(row) for evaluate in evaluates]))

    def evaluate(row: Any) -> Any:
        values = [evaluate(row) for evaluate in evaluates]
        return None if None in values and _has_null(values) else call(*values)

    return Compiled(kind, evaluate)


def _has_null(values: list[Any]) -> bool:
    # `None in values` compares with ==, which a value might answer in its own way.
    return any(value is None for value in values)


def _closure(body: Compiled) -> Any:
    """Returns the argument that a lambda is: a function of the row that makes a function."""
    evaluate = body.evaluate

    def bind(row: Any) -> Any:
        return lambda *values: evaluate((*row, *values))

    return bind


def _prepared(
    argument: Compiled, parameter: SqlType, bindings: Bindings, node: exp.Expr
) -> Compiled:
    """Returns an argument as the type that the function expects."""
    if parameter == UNIT or argument.kind is None or parameter.name in ("ANY", "STRUCT"):
        return argument
    if parameter.name == "DECIMAL" and isinstance(parameter, SimpleType):
        target: SqlType = as_decimal(argument.kind)
    else:
        target = resolved(parameter, bindings)
    if target == argument.kind:
        return argument
    convert = casting.implicit(argument.kind, target)
    if convert is not None:
        return converted(argument, convert, target)
    return coerced(argument, target, node, "the argument")


def refuse_calls(node: exp.Expr, where: str) -> None:
    """Raises for an aggregate or a table function in a clause that has none."""
    for call in node.find_all(exp.Anonymous):
        if call.this in AGGREGATES or call.this in TABULAR:
            raise Refused(f"{call.this} cannot be used in {where}", place_of(call))
