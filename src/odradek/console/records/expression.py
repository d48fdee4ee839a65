"""Filter expressions: a small part of Python's syntax, interpreted and never executed.

    value.customer.country == "NL" and value.total > 100
    "timeout" in lower(value.message) or headers.retries >= 3
    like(key, "order-*") and value.items[0].sku != "A-1"

An expression is parsed to Python's syntax tree, of which only the node types below are known: no
loop, no comprehension, no assignment, no call but of the functions in `_FUNCTIONS`, no attribute of
a Python object. `value.total` is the field `total` of a JSON object and nothing else. A field that
is missing is None, and a comparison of things that do not compare is false, so a filter over
records of many shapes does not fail.

Limits: the length of the expression and the number of its nodes, so each record costs a bounded
number of steps; arithmetic with numbers only, whose size is bounded; no regular expressions. How
many records are looked at, and for how long, is limited by the reader.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.config.spelling import did_you_mean
from odradek.console.records.globs import matches_glob

MAX_LENGTH: Final = 2000
_MAX_NODES: Final = 200
_MAX_NUMBER: Final = 1e30
NAMES: Final = ("key", "value", "headers", "partition", "offset", "timestamp", "size")


class BadExpression(ValueError):
    """An expression that cannot be used; the message says why and what there is."""


class _NoValue(Exception):
    """Something in a record does not allow the operation, so the record does not match."""


class Filter:
    """A checked expression. `matches` never raises."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise BadExpression(f"a filter has at most {MAX_LENGTH} characters")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            words = error.msg if isinstance(error, SyntaxError) else "it is too complex"
            raise BadExpression(
                f"this is not an expression ({words}); an example: value.total > 100 and"
                ' "NL" in value.country'
            ) from None
        nodes = list(ast.walk(tree))
        if len(nodes) > _MAX_NODES:
            raise BadExpression(f"the filter has {len(nodes)} parts; {_MAX_NODES} are allowed")
        for node in nodes:
            _check(node)
        self._body = tree.body

    def matches(self, names: Mapping[str, Any]) -> bool:
        try:
            return bool(_value(self._body, names))
        except _NoValue:
            return False


def _check(node: ast.AST) -> None:
    """Raises for a node that is not part of the language."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id not in NAMES and node.id not in _FUNCTIONS and node.id not in _CONSTANTS:
            known = [*NAMES, *_FUNCTIONS]
            near = did_you_mean(node.id, known) or f"; there are {', '.join(NAMES)}"
            raise BadExpression(f"there is no {node.id!r}{near}")
    elif isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
            raise BadExpression(f"only these functions can be called: {', '.join(_FUNCTIONS)}")
        wanted = _FUNCTIONS[node.func.id][1]
        if len(node.args) != wanted:
            raise BadExpression(f"{node.func.id} takes {wanted} value{'s' * (wanted != 1)}")
    elif isinstance(node, ast.BinOp):
        if type(node.op) not in _ARITHMETIC:
            raise BadExpression("of arithmetic there are + - * / %")
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | bool | None):
            raise BadExpression("values are texts, numbers, True, False and None")
    elif not isinstance(node, _PLAIN):
        raise BadExpression(
            "a filter compares fields: it has no loops, no assignments and no own functions"
        )


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    return _EVALUATED[type(node)](node, names)


def _name(node: Any, names: Mapping[str, Any]) -> Any:
    if node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if node.id not in names:
        raise _NoValue  # the name of a function, as a value
    return names[node.id]


def _field(node: Any, names: Mapping[str, Any]) -> Any:
    holder = _value(node.value, names)
    return holder.get(node.attr) if isinstance(holder, dict) else None


def _item(node: Any, names: Mapping[str, Any]) -> Any:
    holder, index = _value(node.value, names), _value(node.slice, names)
    if isinstance(holder, dict) and isinstance(index, str):
        return holder.get(index)
    if isinstance(holder, list | str) and isinstance(index, int) and abs(index) <= len(holder):
        return holder[index] if -len(holder) <= index < len(holder) else None
    return None


def _compare(node: Any, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for operation, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, names)
        try:
            if not _COMPARISONS[type(operation)](left, right):
                return False
        except TypeError:
            return False
        left = right
    return True


def _both(node: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(node.op, ast.And):
        return all(_truth(part, names) for part in node.values)
    return any(_truth(part, names) for part in node.values)


def _truth(node: ast.expr, names: Mapping[str, Any]) -> bool:
    try:
        return bool(_value(node, names))
    except _NoValue:
        return False


def _unary(node: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(node.op, ast.Not):
        return not _truth(node.operand, names)
    return -_number(_value(node.operand, names))


def _arithmetic(node: Any, names: Mapping[str, Any]) -> float:
    left, right = _number(_value(node.left, names)), _number(_value(node.right, names))
    try:
        return _number(_ARITHMETIC[type(node.op)](left, right))
    except (ZeroDivisionError, OverflowError):
        raise _NoValue from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _MAX_NUMBER:
        raise _NoValue
    return value


def _call(node: Any, names: Mapping[str, Any]) -> Any:
    function = _FUNCTIONS[node.func.id][0]
    try:
        return function(*(_value(argument, names) for argument in node.args))
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise _NoValue from None


def _constant(node: Any, names: Mapping[str, Any]) -> Any:
    return node.value


def _list(node: Any, names: Mapping[str, Any]) -> list[Any]:
    return [_value(item, names) for item in node.elts]


def _is_in(left: Any, right: Any) -> bool:
    return not isinstance(right, int | float | None) and left in right


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        raise TypeError
    return str(value)


def _as_number(value: Any) -> float:
    if isinstance(value, str) and len(value) > 40:
        raise ValueError
    return float(value)


_CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], int]]] = {
    "len": (len, 1),
    "lower": (lambda text: text.lower(), 1),
    "upper": (lambda text: text.upper(), 1),
    "starts": (lambda text, with_: text.startswith(with_), 2),
    "ends": (lambda text, with_: text.endswith(with_), 2),
    "like": (lambda text, pattern: matches_glob(pattern, text), 2),
    "number": (_as_number, 1),
    "text": (_text, 1),
}
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: _is_in,
    ast.NotIn: lambda left, right: not _is_in(left, right),
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}
_EVALUATED: Final[dict[type[ast.expr], Callable[[Any, Mapping[str, Any]], Any]]] = {
    ast.Name: _name,
    ast.Attribute: _field,
    ast.Subscript: _item,
    ast.Compare: _compare,
    ast.BoolOp: _both,
    ast.UnaryOp: _unary,
    ast.BinOp: _arithmetic,
    ast.Call: _call,
    ast.Constant: _constant,
    ast.List: _list,
    ast.Tuple: _list,
}
_PLAIN: Final = (
    ast.Expression,
    ast.Attribute,
    ast.Subscript,
    ast.Compare,
    ast.BoolOp,
    ast.UnaryOp,
    ast.List,
    ast.Tuple,
    ast.Load,
    ast.And,
    ast.Or,
    ast.Not,
    ast.USub,
    *_ARITHMETIC,
    *_COMPARISONS,
)
