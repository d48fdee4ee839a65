"""Splits text in ksqlDB's language into tokens, and walks over them.

The tokenizer does not know keywords: the parser decides whether a word is a keyword or a name. So
most keywords can be names of columns without quotes. `RESERVED` lists those that cannot.
"""

from typing import Final, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Place, SyntaxProblem

RESERVED: Final = frozenset((
    "SELECT", "FROM", "AS", "ALL", "DISTINCT", "WHERE", "WITHIN", "WINDOW", "GROUP", "BY",
    "HAVING", "LIMIT", "AT", "OR", "AND", "IN", "NOT", "EXISTS", "BETWEEN", "LIKE", "IS",
    "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "JOIN", "FULL", "OUTER",
    "INNER", "LEFT", "RIGHT", "ON", "WITH", "VALUES", "CREATE", "TABLE", "TOPIC", "STREAM",
    "STREAMS", "INSERT", "DELETE", "INTO", "DESCRIBE", "EXTENDED", "PRINT", "CAST", "LIST",
    "TOPICS", "QUERY", "QUERIES", "TERMINATE", "PAUSE", "RESUME", "LOAD", "DROP", "TO",
    "RENAME", "SAMPLE", "EXPORT", "CATALOG", "PROPERTIES", "BEGINNING", "UNSET", "RUN",
    "SCRIPT", "DECIMAL", "CONNECTOR", "CONNECTORS", "NAMESPACE", "MATERIALIZED", "VIEW",
    "TUMBLING", "HOPPING", "SIZE", "ADVANCE", "RETENTION",
))  # fmt: skip
E = TypeVar("E", bound=exp.Expr)
_STATEMENTS: Final = (
    "SELECT", "CREATE", "INSERT", "DROP", "SHOW", "LIST", "DESCRIBE", "EXPLAIN", "PRINT",
    "TERMINATE", "PAUSE", "RESUME", "SET", "UNSET", "ALTER", "DEFINE", "UNDEFINE", "ASSERT",
    "RUN",
)  # fmt: skip


class KsqlTokenizer(Tokenizer):
    IDENTIFIERS = ["`", '"']  # noqa: RUF012 - as sqlglot declares them
    IDENTIFIER_ESCAPES = ["`", '"']  # noqa: RUF012
    QUOTES = ["'"]  # noqa: RUF012
    STRING_ESCAPES = ["'"]  # noqa: RUF012
    KEYWORDS = {  # noqa: RUF012
        "->": TokenType.ARROW,
        "=>": TokenType.FARROW,
        ":=": TokenType.COLON_EQ,
        "||": TokenType.DPIPE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "/*+": TokenType.HINT,
    }


class Ksql(Dialect):
    """Registered in sqlglot as `ksql`: `sqlglot.tokenize(text, read="ksql")`."""

    Tokenizer = KsqlTokenizer


def tokenize(text: str) -> list[Token]:
    """Returns the tokens of a text. Raises `SyntaxProblem` if a string, a quoted name or a comment
    has no end."""
    try:
        return list(Ksql().tokenize(text))
    except SqlglotError as error:
        raise SyntaxProblem(_reason(error, text), _end(text)) from None


def _reason(error: Exception, text: str) -> str:
    if text.count("'") % 2:
        return "a string is not closed: a single quote (') is missing"
    return f"a name in quotes, or a comment, is not closed ({error})"


def _end(text: str) -> Place:
    return Place(text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)


class Cursor(Parser):
    """Walks over the tokens of one statement.

    A method `_is...` only looks at the next token, `_take...` goes past it if it is the one asked
    for, and `_expect...` and `_read...` go past it or raise `SyntaxProblem` with its place.
    """

    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(dialect=Ksql())
        self.reset()
        self.sql = text
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    # The current token

    @property
    def _at_end(self) -> bool:
        return not self._curr

    def _place(self, token: Token | None = None) -> Place:
        token = token or self._curr or self._prev
        if not token:
            return Place(1, 1)
        # The column of a token in sqlglot is that of its end.
        return Place(token.line, max(1, token.col - (token.end - token.start)))

    def _fail(self, expected: str) -> NoReturn:
        found = "the end of the statement" if self._at_end else f"'{self._curr.text}'"
        raise SyntaxProblem(f"{expected} is expected here, not {found}", self._place())

    def _fail_with_words(self, words: list[str]) -> NoReturn:
        near = "" if self._at_end else did_you_mean(self._curr.text.upper(), words)
        found = "the end of the statement" if self._at_end else f"'{self._curr.text}'"
        raise SyntaxProblem(
            f"one of {', '.join(words)} is expected here, not {found}{near}", self._place()
        )

    # Words

    def _is_word(self, *words: str) -> bool:
        token = self._curr
        return bool(token) and token.token_type is TokenType.VAR and token.text.upper() in words

    def _next_is_word(self, *words: str) -> bool:
        token = self._next
        return bool(token) and token.token_type is TokenType.VAR and token.text.upper() in words

    def _take_word(self, *words: str) -> str | None:
        """Goes past the next word, if it is one of these, and returns it."""
        if not self._is_word(*words):
            return None
        word = self._curr.text.upper()
        self._advance()
        return word

    def _take_words(self, text: str) -> bool:
        """Goes past these words, if all of them follow; returns whether they do."""
        index = self._index
        for word in text.split():
            if self._take_word(word) is None:
                self._retreat(index)
                return False
        return True

    def _expect_word(self, *words: str) -> str:
        word = self._take_word(*words)
        if word is None:
            if len(words) > 1:
                self._fail_with_words(list(words))
            self._fail(words[0])
        return word

    def _expect_words(self, text: str) -> None:
        for word in text.split():
            self._expect_word(word)

    def _expect(self, kind: TokenType, shown: str) -> Token:
        if self._at_end or self._curr.token_type is not kind:
            self._fail(shown)
        token = self._curr
        self._advance()
        return token

    def _take(self, kind: TokenType) -> bool:
        if self._at_end or self._curr.token_type is not kind:
            return False
        self._advance()
        return True

    def _is(self, kind: TokenType) -> bool:
        return not self._at_end and self._curr.token_type is kind

    # Names and literals

    def _read_name(self, expected: str = "a name") -> str:
        """Reads a name. One without quotes is converted to capitals."""
        token = self._curr
        if token and token.token_type is TokenType.IDENTIFIER:
            self._advance()
            return str(token.text)
        if not self._is_name():
            self._fail(expected)
        self._advance()
        return str(token.text.upper())

    def _is_name(self) -> bool:
        token = self._curr
        if not token:
            return False
        if token.token_type is TokenType.IDENTIFIER:
            return True
        return token.token_type is TokenType.VAR and token.text.upper() not in RESERVED

    def _read_text(self, expected: str = "a string in single quotes") -> str:
        return str(self._expect(TokenType.STRING, expected).text)

    def _read_whole_number(self) -> int:
        is_negative = self._take(TokenType.DASH)
        token = self._expect(TokenType.NUMBER, "a whole number")
        if not token.text.isdigit():
            raise SyntaxProblem(
                f"a whole number is expected here, not {token.text}", self._place(token)
            )
        return -int(token.text) if is_negative else int(token.text)

    def _mark(self, node: E, place: Place) -> E:
        """Notes in an expression where it begins; `place_of` returns it."""
        node.meta["place"] = place
        return node

    def _fail_statement(self) -> NoReturn:
        self._fail_with_words(list(_STATEMENTS))


def place_of(node: exp.Expr) -> Place | None:
    """Returns where an expression begins."""
    place = node.meta.get("place")
    return place if isinstance(place, Place) else None
