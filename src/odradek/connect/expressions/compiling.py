"""Compiles an expression for records of one schema: to a function, and the schema of its results.

Null is as in SQL: what is computed with null is null, and a condition that is null is not true.
Types are checked when an expression is compiled if records have a schema, and for each value
otherwise: then a field that is not there is null.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from operator import add, ge, gt, le, lt, mod, mul, sub
from typing import Any, Final, NamedTuple

from odradek.config.spelling import did_you_mean
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import INTEGERS, Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.expressions.functions import FUNCTIONS
from odradek.connect.expressions.syntax import (
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    In,
    Index,
    IsNull,
    Literal,
    Name,
    Unary,
)
from odradek.connect.transforms.cast import cast_value

Get = Callable[[Any], Any]


class Compiled(NamedTuple):
    """`schema` is None where it is not known before there is a value."""

    get: Get
    schema: Schema | None = None
    is_null: bool = False


class Scope:
    """What names mean. `fields` gets the value whose fields they are, out of what expressions are
    called with; `schema` is its schema. `special` are names that are no fields."""

    def __init__(self, schema: Schema | None, fields: Get, special: Mapping[str, Compiled]) -> None:
        self._schema = schema
        self._fields = fields
        self._special = special

    def name(self, path: tuple[str, ...]) -> Compiled:
        first, rest = path[0], path[1:]
        fields, schema = self._fields, self._schema
        special = self._special.get(first)
        if schema is not None and schema.type is Type.STRUCT:
            part = schema.field(first)
            if part is not None:
                found = Compiled(lambda scope: _member(fields(scope), first), part.schema)
                return _within(found, rest)
        if special is not None:
            return _within(special, rest)
        if schema is not None:
            known = [part.name for part in schema.fields] + [*self._special]
            raise DataError(f"there is no field {first}{did_you_mean(first, known)}")
        return _within(Compiled(lambda scope: _member(fields(scope), first)), rest)


def _within(found: Compiled, path: tuple[str, ...]) -> Compiled:
    for name in path:
        found = _field_of(found, name)
    return found


def _field_of(of: Compiled, name: str) -> Compiled:
    get, schema = of.get, of.schema
    if schema is None:
        return Compiled(lambda scope: _member(get(scope), name))
    if schema.type is Type.MAP:
        return Compiled(lambda scope: _member(get(scope), name), schema.elements.optional())
    part = schema.field(name) if schema.type is Type.STRUCT else None
    if part is None:
        near = did_you_mean(name, [part.name for part in schema.fields])
        raise DataError(f"there is no field {name} in {schema.name or schema.type}{near}")
    made = part.schema.optional() if schema.is_optional else part.schema
    return Compiled(lambda scope: _member(get(scope), name), made)


def _member(value: Any, name: Any) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def compile_expression(found: Expression, scope: Scope) -> Compiled:
    """Raises `DataError` if the expression does not fit the schema."""
    match found:
        case Literal(value):
            return _literal(value)
        case Name(path):
            return scope.name(path)
        case Index(of, Literal(str() as name)):
            return _field_of(compile_expression(of, scope), name)
        case IsNull(of):
            get = compile_expression(of, scope).get
            return Compiled(lambda one: get(one) is None, schemas.BOOLEAN)
    return _composed(found, scope)


def _composed(found: Any, scope: Scope) -> Compiled:
    made: Compiled
    match found:
        case Index(of, key):
            made = _element(compile_expression(of, scope), compile_expression(key, scope))
        case Unary("NOT", of):
            made = _not(compile_expression(of, scope))
        case Unary(_, of):
            made = _binary("-", _literal(0), compile_expression(of, scope))
        case Binary(operator, left, right):
            made = _binary(
                operator, compile_expression(left, scope), compile_expression(right, scope)
            )
        case In(of, members):
            made = _in(
                compile_expression(of, scope),
                [compile_expression(member, scope) for member in members],
            )
        case Case(branches, otherwise):
            made = _case(
                [(compile_expression(c, scope), compile_expression(r, scope)) for c, r in branches],
                compile_expression(otherwise, scope),
            )
        case Cast(of, kind):
            made = _cast(compile_expression(of, scope), kind)
        case Call("COALESCE", arguments):
            made = _coalesce([compile_expression(part, scope) for part in arguments])
        case Call(name, arguments):
            made = _call(name, [compile_expression(part, scope) for part in arguments])
    return made


def _literal(value: Any) -> Compiled:
    schema = None if value is None else values.infer(value)
    return Compiled(lambda scope: value, schema, is_null=value is None)


def _element(of: Compiled, key: Compiled) -> Compiled:
    """An element of an array, from 0 on, or of a map; null if there is none."""
    get, at = of.get, key.get

    def element(scope: Any) -> Any:
        found, index = get(scope), at(scope)
        if isinstance(found, list | tuple):
            is_there = isinstance(index, int) and -len(found) <= index < len(found)
            return found[index] if is_there else None
        return _member(found, index)

    schema = None
    if of.schema is not None:
        if of.schema.type not in {Type.ARRAY, Type.MAP}:
            raise DataError(f"{of.schema.type} has no elements")
        schema = of.schema.elements.optional()
    return Compiled(element, schema)


def _not(of: Compiled) -> Compiled:
    get = of.get

    def negated(scope: Any) -> Any:
        found = _truth(get(scope))
        return None if found is None else not found

    return Compiled(negated, schemas.BOOLEAN.optional())


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise DataError(f"a condition is needed, and this is {type(value).__name__}")


def _joined_by(decisive: bool, left: Get, right: Get) -> Get:
    """Returns AND, which one false decides, or OR, which one true decides."""

    def joined(scope: Any) -> Any:
        one = _truth(left(scope))
        if one is decisive:
            return decisive
        other = _truth(right(scope))
        if other is decisive:
            return decisive
        return None if one is None or other is None else not decisive

    return joined


def _binary(operator: str, left: Compiled, right: Compiled) -> Compiled:
    if operator in {"AND", "OR"}:
        joined = _joined_by(operator == "OR", left.get, right.get)
        return Compiled(joined, schemas.BOOLEAN.optional())
    compute: Callable[[Any, Any], Any]
    schema: Schema | None
    if operator in _COMPARISONS:
        compute, schema = _COMPARISONS[operator], schemas.BOOLEAN.optional()
    elif operator == "||":
        compute, schema = _joined, schemas.OPTIONAL_STRING
    else:
        compute = _ARITHMETIC[operator]
        schema = _result_schema(operator, left.schema, right.schema)
    one, other = left.get, right.get

    def computed(scope: Any) -> Any:
        first = one(scope)
        if first is None:
            return None
        second = other(scope)
        return None if second is None else compute(first, second)

    return Compiled(computed, schema)


def _result_schema(operator: str, left: Schema | None, right: Schema | None) -> Schema | None:
    """Returns the schema of a sum, a difference, a product, a quotient or a remainder."""
    if left is None or right is None:
        return None
    if operator == "+" and left.type is right.type is Type.STRING:
        return schemas.OPTIONAL_STRING
    for schema in (left, right):
        is_decimal = schema.name == schemas.DECIMAL
        is_number = schema.name is None and schema.type in {*INTEGERS, Type.FLOAT32, Type.FLOAT64}
        if not is_decimal and not is_number:
            raise DataError(f"{schema.name or schema.type} is not a number for {operator}")
    decimals = [schema.scale for schema in (left, right) if schema.name == schemas.DECIMAL]
    is_float = bool({left.type, right.type} & {Type.FLOAT32, Type.FLOAT64})
    if operator == "/" or is_float:
        return schemas.FLOAT64.optional()
    if not decimals:
        return schemas.INT64.optional()
    scale = sum(decimals) if operator == "*" else max(decimals)
    return schemas.decimal(scale, is_optional=True)


def _numbers(one: Any, other: Any) -> tuple[Any, Any]:
    """Returns two numbers that can be computed with each other."""
    for value in (one, other):
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise DataError(f"a number is needed, and this is {type(value).__name__}")
    if isinstance(one, float) or isinstance(other, float):
        return float(one), float(other)
    return one, other


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(one: Any, other: Any) -> Any:
        try:
            return compute(*_numbers(one, other))
        except (ZeroDivisionError, InvalidOperation):
            raise DataError("a division by zero") from None
        except OverflowError:
            raise DataError("a number is too large") from None

    return computed


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    return _add(one, other)


def _quotient(one: Any, other: Any) -> float:
    return float(one) / float(other)


_add: Final = _arithmetic(add)
_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": _sum,
    "-": _arithmetic(sub),
    "*": _arithmetic(mul),
    "/": _arithmetic(_quotient),
    "%": _arithmetic(mod),
}


def _joined(one: Any, other: Any) -> str:
    joined: str = FUNCTIONS["CONCAT"].call(one, other)
    return joined


def _is_equal(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(one: Any, other: Any) -> bool:
        if isinstance(one, datetime) is not isinstance(other, datetime) and isinstance(one, date):
            raise DataError("a date and a timestamp cannot be compared")
        try:
            return bool(compare(one, other))
        except TypeError:
            kinds = f"{type(one).__name__} and {type(other).__name__}"
            raise DataError(f"{kinds} cannot be compared") from None

    return compared


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": _is_equal,
    "<>": lambda one, other: not _is_equal(one, other),
    "<": _ordering(lt),
    "<=": _ordering(le),
    ">": _ordering(gt),
    ">=": _ordering(ge),
}


def _in(of: Compiled, members: list[Compiled]) -> Compiled:
    get, others = of.get, [member.get for member in members]

    def is_in(scope: Any) -> Any:
        found = get(scope)
        if found is None:
            return None
        several = [other(scope) for other in others]
        if any(one is not None and _is_equal(found, one) for one in several):
            return True
        return None if None in several else False

    return Compiled(is_in, schemas.BOOLEAN.optional())


def _common(parts: list[Compiled]) -> Schema | None:
    """Returns the schema of all results; None if one is not known."""
    known = [part.schema for part in parts if part.schema is not None]
    if not known or any(part.schema is None and not part.is_null for part in parts):
        return None
    bare = {replace(schema, is_optional=True, default=None) for schema in known}
    if len(bare) == 1:
        return bare.pop()
    kinds = {schema.type for schema in known}
    if all(schema.name is None for schema in known):
        if kinds <= INTEGERS.keys():
            return schemas.INT64.optional()
        if kinds <= {*INTEGERS, Type.FLOAT32, Type.FLOAT64}:
            return schemas.FLOAT64.optional()
    shown = ", ".join(sorted(schema.name or schema.type for schema in known))
    raise DataError(f"results of several types: {shown}; CAST makes them one")


def _case(branches: list[tuple[Compiled, Compiled]], otherwise: Compiled) -> Compiled:
    steps = [(condition.get, result.get) for condition, result in branches]
    last = otherwise.get

    def chosen(scope: Any) -> Any:
        for condition, result in steps:
            if _truth(condition(scope)):
                return result(scope)
        return last(scope)

    results = [*(result for _, result in branches), otherwise]
    return _as_common(chosen, results)


def _as_common(get: Get, parts: list[Compiled]) -> Compiled:
    schema = _common(parts)
    if schema is not None and schema.type is Type.FLOAT64 and schema.name is None:
        # Whole numbers among them become floats too.
        return Compiled(lambda scope: _float(get(scope)), schema)
    return Compiled(get, schema)


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _coalesce(parts: list[Compiled]) -> Compiled:
    if not parts:
        raise InvalidConfig("coalesce needs an argument")
    gets = [part.get for part in parts]

    def first(scope: Any) -> Any:
        for get in gets:
            found = get(scope)
            if found is not None:
                return found
        return None

    return _as_common(first, parts)


_TYPES: Final = {
    "TINYINT": schemas.INT8,
    "SMALLINT": schemas.INT16,
    "INT": schemas.INT32,
    "INTEGER": schemas.INT32,
    "BIGINT": schemas.INT64,
    "FLOAT": schemas.FLOAT32,
    "REAL": schemas.FLOAT32,
    "DOUBLE": schemas.FLOAT64,
    "BOOLEAN": schemas.BOOLEAN,
    "STRING": schemas.STRING,
    "VARCHAR": schemas.STRING,
    "TEXT": schemas.STRING,
}


def _cast(of: Compiled, name: str) -> Compiled:
    schema = _TYPES.get(name.upper())
    if schema is None:
        raise InvalidConfig(f"{name} is not one of the types {', '.join(_TYPES)}")
    get, given, kind = of.get, of.schema, schema.type
    return Compiled(lambda scope: cast_value(given, get(scope), kind), schema.optional())


def _call(name: str, arguments: list[Compiled]) -> Compiled:
    function = FUNCTIONS.get(name)
    if function is None:
        near = did_you_mean(name, FUNCTIONS)
        raise InvalidConfig(f"there is no function {name.lower()}{near}")
    if not function.least <= len(arguments) <= function.most:
        several = "" if function.least == function.most else f" to {function.most}"
        raise InvalidConfig(
            f"{name.lower()} takes {function.least}{several} arguments, and has {len(arguments)}"
        )
    gets, call = [argument.get for argument in arguments], function.call

    def called(scope: Any) -> Any:
        given = [get(scope) for get in gets]
        return None if None in given else call(*given)

    schema = arguments[0].schema if function.schema is None else function.schema
    return Compiled(called, None if schema is None else schema.optional())
