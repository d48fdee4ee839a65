"""Parses the expressions of transforms, which are written in one of two notations.

SQL: `price * 2 > 10 AND name LIKE 'A%'`, `CASE WHEN a THEN b ELSE c END`.

Groovy, for the transforms of Debezium: `value.op == 'u' && value.after.id > 2 ? 'new' : null`. Such
an expression is the same in JavaScript.

`||` joins strings in SQL, and means OR in Groovy. Double quotes enclose names in SQL, and strings
in Groovy.
"""

from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Final

from odradek.connect.errors import InvalidConfig
from odradek.connect.expressions.syntax import (
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    In,
    Index,
    IsNull,
    Literal,
    Name,
    Unary,
)
from odradek.connect.expressions.tokens import Token, tokens

_MAX_DEPTH: Final = 50
_CONSTANTS: Final[dict[str, Any]] = {"TRUE": True, "FALSE": False, "NULL": None}
_SAME: Final = {"=": "=", "==": "=", "!=": "<>", "<>": "<>"}
_COMPARISONS: Final = frozenset({*_SAME, "<", "<=", ">", ">="})
# Words of SQL that cannot be names without quotes.
_RESERVED: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "AS",
     "FROM", "WHERE"}
)  # fmt: skip


class Notation(Enum):
    SQL = "sql"
    GROOVY = "groovy"


def parse(text: str, notation: Notation = Notation.SQL) -> Expression:
    """Parses an expression. Raises `InvalidConfig` with the position of an error."""
    parser = _Parser(text, notation)
    found = parser.expression()
    parser.expect_end()
    return found


def parse_columns(text: str) -> tuple[Column, ...]:
    """Parses the columns of a SELECT: `*, price * 2 AS double_price`, `* EXCEPT (secret)`."""
    parser = _Parser(text, Notation.SQL)
    columns = [parser.column()]
    while parser.accepts(","):
        columns.append(parser.column())
    parser.expect_end()
    return tuple(columns)


class _Parser:
    """A recursive descent parser, with a method for each level of precedence."""

    def __init__(self, text: str, notation: Notation) -> None:
        self._tokens = tokens(text)
        self._position = 0
        self._is_sql = notation is Notation.SQL
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._position += 1
        return token

    def accepts(self, *expected: str) -> str | None:
        """Goes past the next token if it is one of these operators or words, and returns it."""
        token = self._next
        found = token.text if token.kind == "operator" else token.word
        if found in expected and token.kind in {"operator", "name"}:
            self._take()
            return found
        return None

    def _expect(self, expected: str) -> None:
        if self.accepts(expected) is None:
            raise self._wrong(f"{expected} is expected")

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._wrong("it is not expected here")

    def _wrong(self, reason: str) -> InvalidConfig:
        token = self._next
        return InvalidConfig(f"{token.text!r} at character {token.at}: {reason}")

    # Levels of precedence

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidConfig(
                f"the expression is nested too deeply; at most {_MAX_DEPTH} levels are allowed"
            )
        found = self._or()
        if not self._is_sql:
            if self.accepts("?:"):
                other = self.expression()
                found = Call("COALESCE", (found, other))
            elif self.accepts("?"):
                then = self.expression()
                self._expect(":")
                found = Case(((found, then),), self.expression())
        self._depth -= 1
        return found

    def _or(self) -> Expression:
        found = self._and()
        while self.accepts("OR") or (not self._is_sql and self.accepts("||")):
            found = Binary("OR", found, self._and())
        return found

    def _and(self) -> Expression:
        found = self._not()
        while self.accepts("AND", "&&"):
            found = Binary("AND", found, self._not())
        return found

    def _not(self) -> Expression:
        count = 0
        while self.accepts("NOT"):
            count += 1
        found = self._comparison()
        return Unary("NOT", found) if count % 2 else found

    def _comparison(self) -> Expression:
        found = self._sum()
        while True:
            operator = self.accepts(*_COMPARISONS)
            if operator is not None:
                right = self._sum()
                if not self._is_sql and right == Literal(None) and operator in _SAME:
                    found = IsNull(found)
                    found = found if _SAME[operator] == "=" else Unary("NOT", found)
                else:
                    found = Binary(_SAME.get(operator, operator), found, right)
                continue
            special = self._predicate(found) if self._is_sql else None
            if special is None:
                return found
            found = special

    def _predicate(self, left: Expression) -> Expression | None:
        """Parses IS NULL, IN, LIKE or BETWEEN after its left operand; None if there is none."""
        if self.accepts("IS"):
            is_negated = self.accepts("NOT") is not None
            self._expect("NULL")
            return _negated(IsNull(left), is_negated)
        is_negated = self.accepts("NOT") is not None
        if self.accepts("IN"):
            self._expect("(")
            return _negated(In(left, self._arguments()), is_negated)
        if self.accepts("LIKE"):
            return _negated(Call("LIKE", (left, self._sum())), is_negated)
        if self.accepts("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            within = Binary("AND", Binary(">=", left, low), Binary("<=", left, self._sum()))
            return _negated(within, is_negated)
        if is_negated:
            raise self._wrong("IN, LIKE or BETWEEN is expected")
        return None

    def _sum(self) -> Expression:
        found = self._product()
        operators = ("+", "-", "||") if self._is_sql else ("+", "-")
        while (operator := self.accepts(*operators)) is not None:
            found = Binary(operator, found, self._product())
        return found

    def _product(self) -> Expression:
        found = self._sign()
        while (operator := self.accepts("*", "/", "%")) is not None:
            found = Binary(operator, found, self._sign())
        return found

    def _sign(self) -> Expression:
        count = 0
        if not self._is_sql:
            while self.accepts("!"):
                count += 1
            if count:
                of = self._sign()
                return Unary("NOT", of) if count % 2 else of
        while (operator := self.accepts("-", "+")) is not None:
            count += operator == "-"
        found = self._postfix()
        return Unary("-", found) if count % 2 else found

    def _postfix(self) -> Expression:
        found = self._primary()
        while True:
            if self.accepts("["):
                key = self.expression()
                self._expect("]")
                found = Index(found, key)
            elif self.accepts(".", "?."):
                name = self._name()
                if self.accepts("("):
                    found = self._method(found, name)
                elif isinstance(found, Name):
                    found = Name((*found.path, name))
                else:
                    found = Index(found, Literal(name))
            else:
                return found

    def _method(self, of: Expression, name: str) -> Expression:
        """Parses a call of a method of Groovy. Some methods of strings are available; each has a
        function of SQL that does the same."""
        arguments = self._arguments()
        function = _METHODS.get(name)
        if function is None:
            raise self._wrong(f"there is no method {name}; there are {', '.join(_METHODS)}")
        return Call(function, (of, *arguments))

    def _name(self) -> str:
        token = self._next
        if token.kind not in {"name", "quoted"}:
            raise self._wrong("a name is expected")
        return self._take().text

    def _primary(self) -> Expression:
        token = self._next
        if self.accepts("("):
            found = self.expression()
            self._expect(")")
            return found
        if token.kind == "number":
            return Literal(_number(self._take().text))
        if token.kind == "text" or (token.kind == "quoted" and not self._is_sql):
            return Literal(self._take().text)
        if token.kind == "quoted":
            return Name((self._take().text,))
        if token.kind == "name":
            return self._word(token)
        raise self._wrong("a value is expected")

    def _word(self, token: Token) -> Expression:
        self._take()
        if token.word in _CONSTANTS:
            return Literal(_CONSTANTS[token.word])
        if self._is_sql:
            if token.word == "CASE":
                return self._case()
            if token.word in _RESERVED:
                self._position -= 1
                raise self._wrong("a value is expected")
            if token.word in {"DATE", "TIMESTAMP"} and self._next.kind == "text":
                return Literal(_moment(token.word, self._take().text))
        if not self.accepts("("):
            return Name((token.text,))
        if token.word == "CAST":
            of = self.expression()
            self._expect("AS")
            kind = self._name()
            self._expect(")")
            return Cast(of, kind)
        return Call(token.word, self._arguments())

    def _arguments(self) -> tuple[Expression, ...]:
        """Parses arguments after an opening parenthesis, and the closing one."""
        if self.accepts(")"):
            return ()
        found = [self.expression()]
        while self.accepts(","):
            found.append(self.expression())
        self._expect(")")
        return tuple(found)

    def _case(self) -> Expression:
        subject = None if self._next.word == "WHEN" else self.expression()
        branches = []
        while self.accepts("WHEN"):
            condition = self.expression()
            self._expect("THEN")
            if subject is not None:
                condition = Binary("=", subject, condition)
            branches.append((condition, self.expression()))
        if not branches:
            raise self._wrong("WHEN is expected")
        otherwise = self.expression() if self.accepts("ELSE") else Literal(None)
        self._expect("END")
        return Case(tuple(branches), otherwise)

    def column(self) -> Column:
        if self.accepts("*"):
            excluded: list[str] = []
            if self.accepts("EXCEPT", "EXCLUDE"):
                self._expect("(")
                excluded.append(self._name())
                while self.accepts(","):
                    excluded.append(self._name())
                self._expect(")")
            return Column("*", None, tuple(excluded))
        found = self.expression()
        if self.accepts("AS") or self._next.kind in {"name", "quoted"}:
            return Column(self._name(), found)
        if isinstance(found, Name):
            return Column(found.path[-1], found)
        raise self._wrong("an expression needs a name: AS name")


# Methods of strings in Groovy and JavaScript, with the equivalent functions of SQL.
_METHODS: Final = {
    "startsWith": "STARTS_WITH",
    "endsWith": "ENDS_WITH",
    "contains": "CONTAINS",
    "includes": "CONTAINS",
    "toLowerCase": "LOWER",
    "toUpperCase": "UPPER",
    "trim": "TRIM",
    "length": "LENGTH",
    "size": "LENGTH",
    "toString": "TO_STRING",
    "matches": "REGEXP_MATCHES",
}


def _negated(found: Expression, is_negated: bool) -> Expression:
    return Unary("NOT", found) if is_negated else found


def _number(text: str) -> int | float:
    if text.isdigit():
        return int(text)
    return float(text)


def _moment(word: str, text: str) -> date | datetime:
    try:
        if word == "DATE":
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidConfig(f"{text!r} is not a {word} in ISO 8601 format") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
