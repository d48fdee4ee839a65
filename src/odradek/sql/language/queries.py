"""SELECT: what is selected, from where, in which windows and groups."""

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from odradek.sql.errors import Refused, SyntaxProblem
from odradek.sql.language.expressions import CALENDAR_UNITS, UNITS, ExpressionCursor
from odradek.sql.language.statements import (
    Join,
    Query,
    Relation,
    SelectItem,
    WindowClause,
    Within,
)
from odradek.streams.plan.nodes import JoinKind

_NOT_IN_KSQL = {
    "ORDER": "ORDER BY is refused: a stream has no end at which it could be sorted",
    "UNION": "UNION is refused: insert both queries into one stream with INSERT INTO",
    "OFFSET": "OFFSET is refused: a result has no positions",
    "CROSS": "CROSS JOIN is refused: a join needs ON",
    "USING": "USING is refused: write ON",
    "EXCEPT": "EXCEPT is refused: a stream has no end at which it could be compared",
    "INTERSECT": "INTERSECT is refused: join the two",
    "QUALIFY": "QUALIFY is refused: use GROUP BY and HAVING",
    "FETCH": "FETCH is refused: write LIMIT",
    "TABLESAMPLE": "TABLESAMPLE is refused: write a condition, such as RANDOM() < 0.1",
    "ILIKE": "ILIKE is refused: write UCASE(...) LIKE '...'",
    "RLIKE": "RLIKE is refused: write REGEXP_EXTRACT(...) IS NOT NULL",
    "REGEXP": "REGEXP is refused: write REGEXP_EXTRACT(...) IS NOT NULL",
    "OVER": "OVER is refused: use WINDOW and GROUP BY",
}


class QueryCursor(ExpressionCursor):
    def _read_query(self) -> Query:
        place = self._place()
        self._expect_word("SELECT")
        if self._is_word("DISTINCT"):
            raise Refused("SELECT DISTINCT is refused: group by the columns", self._place())
        items = [self._read_item()]
        while self._take(TokenType.COMMA):
            items.append(self._read_item())
        self._refuse_foreign()
        self._expect_word("FROM")
        source = self._read_relation()
        joins = []
        while self._is_word("INNER", "FULL", "LEFT", "RIGHT", "JOIN", "CROSS"):
            joins.append(self._read_join())
        window = self._read_window_clause() if self._take_word("WINDOW") else None
        where = self._read_expression() if self._take_word("WHERE") else None
        group_by = self._read_by() if self._take_words("GROUP BY") else None
        partition_by = self._read_by() if self._take_words("PARTITION BY") else None
        having = self._read_expression() if self._take_word("HAVING") else None
        emit = self._expect_word("CHANGES", "FINAL") if self._take_word("EMIT") else None
        limit = self._read_whole_number() if self._take_word("LIMIT") else None
        self._refuse_foreign()
        return Query(
            place=place, items=tuple(items), source=source, joins=tuple(joins), window=window,
            where=where, group_by=None if group_by is None else tuple(group_by),
            partition_by=None if partition_by is None else tuple(partition_by), having=having,
            emit=emit, limit=limit,
        )  # fmt: skip

    def _refuse_foreign(self) -> None:
        """Refuses by name what other dialects have at this place."""
        if self._is(TokenType.VAR) and self._curr.text.upper() in _NOT_IN_KSQL:
            raise Refused(_NOT_IN_KSQL[self._curr.text.upper()], self._place())

    def _read_item(self) -> SelectItem:
        place = self._place()
        if self._take(TokenType.STAR):
            return SelectItem(None, None, place, star=True)
        index = self._index
        if self._is_name():
            name = self._read_name()
            if self._take(TokenType.DOT) and self._take(TokenType.STAR):
                return SelectItem(None, None, place, star=True, source=name)
            self._retreat(index)
        expression = self._read_expression()
        if self._take(TokenType.ARROW):
            self._expect(TokenType.STAR, "'*'")
            return SelectItem(expression, None, place, struct_star=True)
        alias = None
        if self._take_word("AS"):
            alias = self._read_name("an alias")
        elif self._is_name():
            self._refuse_foreign()
            alias = self._read_name()
        return SelectItem(expression, alias, place)

    def _read_relation(self) -> Relation:
        place = self._place()
        if self._is(TokenType.L_PAREN):
            raise Refused(
                "a query within FROM is refused: create a stream or table of it first", place
            )
        name = self._read_name("the name of a stream or table")
        alias = name
        if self._take_word("AS"):
            alias = self._read_name("an alias")
        elif self._is_name() and not self._is_word("EMIT", "PARTITION"):
            self._refuse_foreign()
            alias = self._read_name()
        return Relation(name, alias, place)

    def _read_join(self) -> Join:
        place = self._place()
        self._refuse_foreign()
        word = self._take_word("INNER", "FULL", "LEFT", "RIGHT") or "INNER"
        if word != "INNER":
            self._take_word("OUTER")
        self._expect_word("JOIN")
        relation = self._read_relation()
        within = self._read_within() if self._take_word("WITHIN") else None
        self._expect_word("ON")
        kinds = {"INNER": JoinKind.INNER, "FULL": JoinKind.OUTER}
        return Join(
            kinds.get(word, JoinKind.LEFT), word == "RIGHT", relation, within,
            self._read_expression(), place,
        )  # fmt: skip

    def _read_within(self) -> Within:
        place = self._place()
        if self._take(TokenType.L_PAREN):
            before_ms = self._read_duration()
            self._expect(TokenType.COMMA, "','")
            after_ms = self._read_duration()
            self._expect(TokenType.R_PAREN, "')'")
        else:
            before_ms = after_ms = self._read_duration()
        grace_ms = self._read_duration() if self._take_words("GRACE PERIOD") else None
        return Within(before_ms, after_ms, grace_ms, place)

    def _read_duration(self) -> int:
        place = self._place()
        number = self._read_whole_number()
        if self._is_word(*CALENDAR_UNITS):
            raise SyntaxProblem(
                f"{self._curr.text.upper()} has no fixed length: count in DAYS", self._place()
            )
        milliseconds = number * UNITS[self._expect_word(*UNITS)]
        if milliseconds < 0:
            raise SyntaxProblem("a duration is not negative", place)
        return milliseconds

    def _read_window_clause(self) -> WindowClause:
        place = self._place()
        if not self._is_word("TUMBLING", "HOPPING", "SESSION"):
            self._read_name()  # A window may have a name, which means nothing.
        kind = self._expect_word("TUMBLING", "HOPPING", "SESSION")
        self._expect(TokenType.L_PAREN, "'('")
        if kind != "SESSION":
            self._expect_word("SIZE")
        size_ms = advance_ms = self._read_duration()
        retention_ms = grace_ms = None
        if kind == "HOPPING":
            self._expect(TokenType.COMMA, "','")
            self._expect_words("ADVANCE BY")
            advance_ms = self._read_duration()
        while self._take(TokenType.COMMA):
            if self._take_word("RETENTION"):
                retention_ms = self._read_duration()
            else:
                self._expect_words("GRACE PERIOD")
                grace_ms = self._read_duration()
        self._expect(TokenType.R_PAREN, "')'")
        return WindowClause(kind, size_ms, advance_ms, retention_ms, grace_ms, place)

    def _read_by(self) -> list[exp.Expr]:
        """Takes expressions, which may be in one pair of parentheses."""
        index = self._index
        if self._take(TokenType.L_PAREN):
            items = self._read_list(TokenType.R_PAREN, "')'", may_be_empty=True)
            ends = ("HAVING", "PARTITION", "EMIT", "LIMIT")
            if self._at_end or self._is_word(*ends) or self._is(TokenType.SEMICOLON):
                return items
            # The parentheses were a part of the first expression: (a + b) * c.
            self._retreat(index)
        items = [self._read_sum()]
        while self._take(TokenType.COMMA):
            items.append(self._read_sum())
        return items
