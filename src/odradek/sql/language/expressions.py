"""Expressions, by precedence: OR, AND, NOT, comparison, sum, product, sign, and what stands alone.

Each node of the tree has its place in the statement (`dialect.place_of`).
"""

from typing import Any, Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from odradek.sql.errors import Invalid, Refused, SyntaxProblem
from odradek.sql.language.dialect import RESERVED
from odradek.sql.language.types import TypeCursor

Expression = exp.Expr

UNITS: Final = {
    "MILLISECOND": 1, "MILLISECONDS": 1, "SECOND": 1000, "SECONDS": 1000,
    "MINUTE": 60_000, "MINUTES": 60_000, "HOUR": 3_600_000, "HOURS": 3_600_000,
    "DAY": 86_400_000, "DAYS": 86_400_000,
}  # fmt: skip
"""Milliseconds of a unit of time."""
CALENDAR_UNITS: Final = ("YEAR", "YEARS", "MONTH", "MONTHS")

_COMPARISONS: Final[dict[TokenType, type[exp.Binary]]] = {
    TokenType.EQ: exp.EQ,
    TokenType.NEQ: exp.NEQ,
    TokenType.LT: exp.LT,
    TokenType.LTE: exp.LTE,
    TokenType.GT: exp.GT,
    TokenType.GTE: exp.GTE,
}
_SUMS: Final[dict[TokenType, type[exp.Binary]]] = {
    TokenType.PLUS: exp.Add,
    TokenType.DASH: exp.Sub,
    TokenType.DPIPE: exp.DPipe,
}
_PRODUCTS: Final[dict[TokenType, type[exp.Binary]]] = {
    TokenType.STAR: exp.Mul,
    TokenType.SLASH: exp.Div,
    TokenType.MOD: exp.Mod,
}
_MAX_DEPTH: Final = 50
"""How deeply expressions may be nested: Python's stack is what limits them."""


class ExpressionCursor(TypeCursor):
    _depth = 0

    def _read_expression(self) -> Expression:
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                raise SyntaxProblem(
                    f"expressions are nested more than {_MAX_DEPTH} deep", self._place()
                )
            return self._read_or()
        finally:
            self._depth -= 1

    def _read_or(self) -> Expression:
        left = self._read_and()
        while self._is_word("OR"):
            place = self._place()
            self._advance()
            left = self._mark(exp.Or(this=left, expression=self._read_and()), place)
        return left

    def _read_and(self) -> Expression:
        left = self._read_not()
        while self._is_word("AND"):
            place = self._place()
            self._advance()
            left = self._mark(exp.And(this=left, expression=self._read_not()), place)
        return left

    def _read_not(self) -> Expression:
        place = self._place()
        negations = 0
        while self._take_word("NOT"):
            negations += 1
        node = self._read_predicate()
        for _ in range(negations):
            node = self._mark(exp.Not(this=node), place)
        return node

    def _read_predicate(self) -> Expression:
        left = self._read_sum()
        while True:
            place = self._place()
            if not self._at_end and self._curr.token_type in _COMPARISONS:
                kind = _COMPARISONS[self._curr.token_type]
                self._advance()
                left = self._mark(kind(this=left, expression=self._read_sum()), place)
            elif self._is_word("IS"):
                left = self._read_is(left)
            elif self._is_word("BETWEEN", "IN", "LIKE"):
                left = self._read_range(left)
            elif self._is_word("NOT") and self._next_is_word("BETWEEN", "IN", "LIKE"):
                self._advance()
                left = self._mark(exp.Not(this=self._read_range(left)), place)
            else:
                return left

    def _read_is(self, left: Expression) -> Expression:
        place = self._place()
        self._expect_word("IS")
        is_not = bool(self._take_word("NOT"))
        if self._take_words("DISTINCT FROM"):
            kind = exp.NullSafeEQ if is_not else exp.NullSafeNEQ
            return self._mark(kind(this=left, expression=self._read_sum()), place)
        self._expect_word("NULL", "DISTINCT")
        node = self._mark(exp.Is(this=left, expression=exp.Null()), place)
        return self._mark(exp.Not(this=node), place) if is_not else node

    def _read_range(self, left: Expression) -> Expression:
        place = self._place()
        word = self._expect_word("BETWEEN", "IN", "LIKE")
        if word == "BETWEEN":
            low = self._read_sum()
            self._expect_word("AND")
            node: Expression = exp.Between(this=left, low=low, high=self._read_sum())
        elif word == "IN":
            self._expect(TokenType.L_PAREN, "'('")
            node = exp.In(this=left, expressions=self._read_list(TokenType.R_PAREN, "')'"))
        else:
            node = exp.Like(this=left, expression=self._read_sum())
            if self._take_word("ESCAPE"):
                escape = self._read_text("the escape character in single quotes")
                if len(escape) != 1:
                    raise Invalid(f"an escape is one character, not {escape!r}", place)
                node = exp.Escape(this=node, expression=exp.Literal.string(escape))
        return self._mark(node, place)

    def _read_sum(self) -> Expression:
        left = self._read_product()
        while not self._at_end and self._curr.token_type in _SUMS:
            place, kind = self._place(), _SUMS[self._curr.token_type]
            self._advance()
            left = self._mark(kind(this=left, expression=self._read_product()), place)
        return left

    def _read_product(self) -> Expression:
        left = self._read_sign()
        while not self._at_end and self._curr.token_type in _PRODUCTS:
            place, kind = self._place(), _PRODUCTS[self._curr.token_type]
            self._advance()
            left = self._mark(kind(this=left, expression=self._read_sign()), place)
        return left

    def _read_sign(self) -> Expression:
        place = self._place()
        if self._take(TokenType.DASH):
            node = self._read_sign()
            if isinstance(node, exp.Literal) and not node.is_string:
                text = node.this
                node.set("this", text[1:] if text.startswith("-") else f"-{text}")
                return self._mark(node, place)
            return self._mark(exp.Neg(this=node), place)
        if self._take(TokenType.PLUS):
            return self._read_sign()
        node = self._read_primary()
        while self._take_words("AT TIME ZONE"):
            zone = exp.Literal.string(self._read_text("a time zone in single quotes"))
            node = self._mark(exp.AtTimeZone(this=node, zone=zone), place)
        return node

    def _read_primary(self) -> Expression:
        place = self._place()
        node = self._read_atom()
        while True:
            if self._take(TokenType.ARROW):
                if self._is(TokenType.STAR):
                    # The caller takes `->*`, which stands in a SELECT alone.
                    self._retreat(self._index - 1)
                    return node
                name = exp.to_identifier(self._read_name("the name of a field"), quoted=True)
                node = self._mark(exp.Dot(this=node, expression=name), place)
            elif self._take(TokenType.L_BRACKET):
                index = self._read_expression()
                self._expect(TokenType.R_BRACKET, "']'")
                node = self._mark(exp.Bracket(this=node, expressions=[index]), place)
            else:
                return node

    def _read_atom(self) -> Expression:
        place = self._place()
        if self._at_end:
            self._fail("an expression")
        kind = self._curr.token_type
        if kind is TokenType.NUMBER or kind is TokenType.DOT:
            return self._mark(self._read_number(), place)
        if kind is TokenType.STRING:
            return self._mark(exp.Literal.string(self._read_text()), place)
        if kind is TokenType.L_PAREN:
            return self._read_parentheses()
        if kind is TokenType.IDENTIFIER:
            return self._read_column_or_call()
        if kind is not TokenType.VAR:
            self._fail("an expression")
        return self._read_word()

    def _read_number(self) -> Expression:
        if self._take(TokenType.DOT):
            token = self._expect(TokenType.NUMBER, "a number")
            return exp.Literal.number(f"0.{token.text}")
        text = self._curr.text
        self._advance()
        if not text[0].isdigit() or not _is_number(text):
            self._retreat(self._index - 1)
            self._fail("a number")
        return exp.Literal.number(text)

    def _read_parentheses(self) -> Expression:
        place = self._place()
        self._expect(TokenType.L_PAREN, "'('")
        node = self._read_expression()
        self._expect(TokenType.R_PAREN, "')'")
        return self._mark(exp.Paren(this=node), place)

    def _read_word(self) -> Expression:
        place = self._place()
        word = self._curr.text.upper()
        simple = {"NULL": exp.Null(), "TRUE": exp.true(), "FALSE": exp.false()}
        if word in simple:
            self._advance()
            return self._mark(simple[word], place)
        following = self._next.token_type if self._next else None
        constructors = {
            ("CASE", following): self._read_case,
            ("CAST", TokenType.L_PAREN): self._read_cast,
            ("ARRAY", TokenType.L_BRACKET): self._read_array,
            ("MAP", TokenType.L_PAREN): self._read_map_or_struct,
            ("STRUCT", TokenType.L_PAREN): self._read_map_or_struct,
        }
        if (word, following) in constructors:
            return constructors[word, following]()
        if word == "EXISTS" or (word == "SELECT" and self._prev):
            raise Refused("a query within an expression is refused: join the two", place)
        if word in RESERVED:
            self._fail("an expression")
        return self._read_column_or_call()

    def _read_case(self) -> Expression:
        place = self._place()
        self._expect_word("CASE")
        operand = None if self._is_word("WHEN") else self._read_expression()
        branches = []
        while self._take_word("WHEN"):
            condition = self._read_expression()
            self._expect_word("THEN")
            branches.append(exp.If(this=condition, true=self._read_expression()))
        if not branches:
            self._fail("WHEN")
        default = self._read_expression() if self._take_word("ELSE") else None
        self._expect_word("END")
        return self._mark(exp.Case(this=operand, ifs=branches, default=default), place)

    def _read_cast(self) -> Expression:
        place = self._place()
        self._expect_word("CAST")
        self._expect(TokenType.L_PAREN, "'('")
        node = self._read_expression()
        self._expect_word("AS")
        kind = self._read_type()
        self._expect(TokenType.R_PAREN, "')'")
        cast = exp.Cast(this=node, to=exp.DataType.build("STRING"))
        cast.meta["kind"] = kind
        return self._mark(cast, place)

    def _read_array(self) -> Expression:
        place = self._place()
        self._expect_word("ARRAY")
        self._expect(TokenType.L_BRACKET, "'['")
        items = self._read_list(TokenType.R_BRACKET, "']'", may_be_empty=True)
        return self._mark(exp.Array(expressions=items), place)

    def _read_map_or_struct(self) -> Expression:
        place = self._place()
        word = self._expect_word("MAP", "STRUCT")
        self._advance()
        pairs: list[tuple[Expression, Expression]] = []
        while not self._is(TokenType.R_PAREN):
            if pairs:
                self._expect(TokenType.COMMA, "','")
            if word == "STRUCT":
                name = self._read_name("the name of a field")
                key: Expression = exp.to_identifier(name, quoted=True)
            else:
                key = self._read_expression()
            self._expect(TokenType.COLON_EQ, "':='")
            pairs.append((key, self._read_expression()))
        self._expect(TokenType.R_PAREN, "')'")
        if word == "STRUCT":
            fields = [exp.PropertyEQ(this=key, expression=value) for key, value in pairs]
            return self._mark(exp.Struct(expressions=fields), place)
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
        node = exp.VarMap(keys=exp.Array(expressions=keys), values=exp.Array(expressions=values))
        return self._mark(node, place)

    def _read_column_or_call(self) -> Expression:
        place = self._place()
        name = self._read_name("an expression")
        if self._is(TokenType.L_PAREN):
            return self._read_call(name)
        if self._is(TokenType.STRING) and name in ("DATE", "TIME", "TIMESTAMP"):
            raise SyntaxProblem(
                f"{name} before a text is not a literal here: write the text alone, or CAST it",
                place,
            )
        if self._take(TokenType.DOT):
            column = exp.to_identifier(self._read_name("the name of a column"), quoted=True)
            source = exp.to_identifier(name, quoted=True)
            return self._mark(exp.Column(this=column, table=source), place)
        return self._mark(exp.Column(this=exp.to_identifier(name, quoted=True)), place)

    def _read_call(self, name: str) -> Expression:
        place = self._place(self._prev)
        self._expect(TokenType.L_PAREN, "'('")
        if self._take(TokenType.STAR):
            self._expect(TokenType.R_PAREN, "')'")
            return self._mark(exp.Anonymous(this=name, expressions=[exp.Star()]), place)
        if self._is_word("DISTINCT"):
            raise Refused(
                f"{name}(DISTINCT ...) is refused: there is COUNT_DISTINCT(...), and"
                " COLLECT_SET(...) for other functions", self._place(),
            )  # fmt: skip
        arguments: list[Expression] = []
        while not self._is(TokenType.R_PAREN):
            if arguments:
                self._expect(TokenType.COMMA, "',' or ')'")
            arguments.append(self._read_argument())
        self._expect(TokenType.R_PAREN, "')'")
        return self._mark(exp.Anonymous(this=name.upper(), expressions=arguments), place)

    def _read_argument(self) -> Expression:
        place = self._place()
        if self._is_word(*UNITS, *CALENDAR_UNITS) and self._next_ends_argument():
            word = self._curr.text.upper()
            self._advance()
            return self._mark(exp.Var(this=word), place)
        names = self._read_lambda_names()
        if names is None:
            return self._read_expression()
        identifiers = [exp.to_identifier(name, quoted=True) for name in names]
        body = self._read_expression()
        return self._mark(exp.Lambda(this=body, expressions=identifiers), place)

    def _next_ends_argument(self) -> bool:
        following = self._next.token_type if self._next else None
        return following in (TokenType.COMMA, TokenType.R_PAREN)

    def _read_lambda_names(self) -> list[str] | None:
        """Takes `x =>` or `(x, y) =>`, if that is next."""
        index = self._index
        names: list[str] = []
        if self._is_name() and self._next and self._next.token_type is TokenType.FARROW:
            names = [self._read_name()]
        elif self._take(TokenType.L_PAREN):
            while self._is_name():
                names.append(self._read_name())
                if not self._take(TokenType.COMMA):
                    break
            if not names or not self._take(TokenType.R_PAREN):
                self._retreat(index)
                return None
        if names and self._take(TokenType.FARROW):
            return names
        self._retreat(index)
        return None

    def _read_list(self, end: TokenType, shown: str, *, may_be_empty: bool = False) -> list[Any]:
        """Takes expressions with commas between, and the symbol at the end."""
        if may_be_empty and self._take(end):
            return []
        items = [self._read_expression()]
        while self._take(TokenType.COMMA):
            items.append(self._read_expression())
        self._expect(end, f"',' or {shown}")
        return items


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
