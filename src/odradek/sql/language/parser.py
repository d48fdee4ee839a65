"""All statements. `split` divides a script, `parse` makes a statement of one part.

A script is parsed one statement at a time, because CREATE TYPE names types for those that follow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from odradek.sql.errors import Invalid, Place, Refused
from odradek.sql.language import statements as s
from odradek.sql.language.dialect import tokenize
from odradek.sql.language.queries import QueryCursor
from odradek.streams.plan.types import SqlType

_REFUSED = {
    "ALTER": {"TYPE": "ALTER TYPE is refused: drop it and create it again"},
    "CREATE": {
        "VIEW": "CREATE VIEW is refused: create a table as a query",
        "FUNCTION": "CREATE FUNCTION is refused: write it in Python (@odradek.sql.udf)",
        "TOPIC": "CREATE TOPIC is refused: CREATE STREAM with PARTITIONS makes its topic",
        "MATERIALIZED": "CREATE MATERIALIZED VIEW is refused: CREATE TABLE AS SELECT is one",
        "INDEX": "CREATE INDEX is refused: a table is found by its key",
    },
    "DELETE": {"FROM": "DELETE is refused: insert a row without values into the topic"},
    "UPDATE": {"": "UPDATE is refused: insert a row with the same key"},
    "WITH": {"": "WITH before a query is refused: create a stream or table of it first"},
    "MERGE": {"": "MERGE is refused: insert rows with the same keys"},
    "SET": {"CLI": "SET CLI is refused: columns are as wide as what is in them"},
    "SPOOL": {"": "SPOOL is refused: odradek sql -f FILE writes to where its output goes"},
    "TRUNCATE": {"": "TRUNCATE is refused: DROP ... DELETE TOPIC, and create it again"},
}


class Part(NamedTuple):
    """One statement of a script."""

    text: str
    tokens: list[Token]


def split(text: str) -> list[Part]:
    """Divides a script at its semicolons. The last statement may be without one."""
    parts: list[Part] = []
    tokens: list[Token] = []
    for token in tokenize(text):
        if token.token_type is not TokenType.SEMICOLON:
            tokens.append(token)
        elif tokens:
            parts.append(Part(text[tokens[0].start : token.start].strip(), tokens))
            tokens = []
    if tokens:
        parts.append(Part(text[tokens[0].start : tokens[-1].end + 1], tokens))
    return parts


def parse(part: Part | str, custom_types: Mapping[str, SqlType] | None = None) -> s.Statement:
    """Returns a statement. Raises `SqlError` with the place of what is wrong."""
    if isinstance(part, str):
        parts = split(part)
        if len(parts) != 1:
            raise Invalid(f"one statement is expected, not {len(parts)}")
        part = parts[0]
    return StatementCursor(part, custom_types or {}).statement()


def parse_expression(text: str, custom_types: Mapping[str, SqlType] | None = None) -> Any:
    """Returns an expression that stands alone."""
    cursor = StatementCursor(Part(text, tokenize(text)), custom_types or {})
    return cursor.lone_expression()


class StatementCursor(QueryCursor):
    def __init__(self, part: Part, custom_types: Mapping[str, SqlType]) -> None:
        super().__init__(part.text, part.tokens, custom_types)
        self._own_text = part.text

    def statement(self) -> s.Statement:
        statement = self._read_statement()
        if not self._at_end:
            self._refuse_foreign()
            self._fail("the end of the statement")
        return statement

    def lone_expression(self) -> exp.Expr:
        node = self._read_expression()
        if not self._at_end:
            self._fail("the end of the expression")
        return node

    def _common(self, place: Place) -> dict[str, Any]:
        return {"text": self._own_text, "place": place}

    def _read_statement(self) -> s.Statement:
        place = self._place()
        self._refuse_statements()
        if self._is_word("SELECT"):
            query = self._read_query()
            return s.Query(**{**vars(query), "text": self._own_text})
        known = {
            "CREATE": self._create, "INSERT": self._insert, "DROP": self._drop,
            "SHOW": self._show, "LIST": self._show, "DESCRIBE": self._describe,
            "EXPLAIN": self._explain, "PRINT": self._print, "TERMINATE": self._control,
            "PAUSE": self._control, "RESUME": self._control, "SET": self._set,
            "UNSET": self._unset, "ALTER": self._alter, "DEFINE": self._define,
            "UNDEFINE": self._undefine, "ASSERT": self._assert, "RUN": self._run,
        }  # fmt: skip
        if not self._is_word(*known):
            self._fail_statement()
        return known[self._curr.text.upper()](place)

    def _refuse_statements(self) -> None:
        word = self._curr.text.upper() if self._is(TokenType.VAR) else ""
        following = self._next.text.upper() if self._next else ""
        reasons = _REFUSED.get(word, {})
        reason = reasons.get(following) or reasons.get("")
        if reason is not None:
            raise Refused(reason, self._place())

    # CREATE

    def _create(self, place: Place) -> s.Statement:
        self._expect_word("CREATE")
        or_replace = self._take_words("OR REPLACE")
        if self._take_word("TYPE"):
            return self._create_type(place)
        index = self._index
        kind = self._take_word("SOURCE", "SINK")
        if kind is not None and self._take_word("CONNECTOR"):
            return self._create_connector(place, kind)
        self._retreat(index)
        is_read_only = bool(self._take_word("SOURCE"))
        is_table = self._expect_word("STREAM", "TABLE") == "TABLE"
        if_not_exists = self._take_words("IF NOT EXISTS")
        name = self._read_name("the name of the new one")
        common = {
            **self._common(place), "name": name, "is_table": is_table, "or_replace": or_replace,
            "if_not_exists": if_not_exists,
        }  # fmt: skip
        columns = self._read_columns() if self._is(TokenType.L_PAREN) else None
        properties = self._read_properties() if self._take_word("WITH") else {}
        if columns is None and self._take_word("AS"):
            if is_read_only:
                raise Invalid("a SOURCE stream or table cannot be made by a query", place)
            return s.CreateAsSelect(**common, properties=properties, query=self._read_query())
        return s.CreateSource(
            **common, columns=columns, properties=properties, is_read_only=is_read_only
        )

    def _read_columns(self) -> tuple[s.ColumnDefinition, ...]:
        self._expect(TokenType.L_PAREN, "'('")
        columns = [self._read_column_definition()]
        while self._take(TokenType.COMMA):
            columns.append(self._read_column_definition())
        self._expect(TokenType.R_PAREN, "',' or ')'")
        return tuple(columns)

    def _read_column_definition(self) -> s.ColumnDefinition:
        place = self._place()
        name = self._read_name("the name of a column")
        kind = self._read_type()
        is_primary = self._take_words("PRIMARY KEY")
        is_key = is_primary or bool(self._take_word("KEY"))
        header = None
        if not is_key and self._take_word("HEADERS"):
            header = ""
        elif not is_key and self._take_word("HEADER"):
            self._expect(TokenType.L_PAREN, "'('")
            header = self._read_text("the name of a header in single quotes")
            self._expect(TokenType.R_PAREN, "')'")
        return s.ColumnDefinition(name, kind, place, is_key, is_primary, header)

    def _read_properties(self) -> s.GivenProperties:
        self._expect(TokenType.L_PAREN, "'('")
        properties = s.GivenProperties()
        while True:
            place = self._place()
            name = self._read_text() if self._is(TokenType.STRING) else self._read_property_name()
            self._expect(TokenType.EQ, "'='")
            if name in properties:
                raise Invalid(f"{name} is given twice", place)
            properties.places[name] = place
            properties[name] = self._read_plain_value()
            if not self._take(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN, "',' or ')'")
        return properties

    def _read_property_name(self) -> str:
        """Reads a word, also one that cannot be a name: `topic`, for example, is answered with the
        properties that there are."""
        token = self._curr
        if not token or not token.text.isidentifier():
            return self._read_name()
        self._advance()
        is_quoted = token.token_type is TokenType.IDENTIFIER
        return str(token.text if is_quoted else token.text.upper())

    def _read_plain_value(self) -> Any:
        if self._is(TokenType.STRING):
            return self._read_text()
        word = self._take_word("TRUE", "FALSE", "NULL")
        if word is not None:
            return {"TRUE": True, "FALSE": False, "NULL": None}[word]
        is_negative = self._take(TokenType.DASH)
        token = self._expect(TokenType.NUMBER, "a text, a number, true or false")
        number = int(token.text) if token.text.isdigit() else float(token.text)
        return -number if is_negative else number

    def _create_type(self, place: Place) -> s.Statement:
        if_not_exists = self._take_words("IF NOT EXISTS")
        name = self._read_name("the name of the type")
        self._expect_word("AS")
        return s.CreateType(
            **self._common(place), name=name, kind=self._read_type(), if_not_exists=if_not_exists
        )

    def _create_connector(self, place: Place, kind: str) -> s.Statement:
        if_not_exists = self._take_words("IF NOT EXISTS")
        name = self._read_name("the name of the connector")
        self._expect_word("WITH")
        return s.CreateConnector(
            **self._common(place), name=name, kind=kind, properties=self._read_properties(),
            if_not_exists=if_not_exists,
        )  # fmt: skip

    # Rows

    def _insert(self, place: Place) -> s.Statement:
        self._expect_words("INSERT INTO")
        name = self._read_name("the name of a stream or table")
        columns: list[str] = []
        if self._take(TokenType.L_PAREN):
            columns = self._read_names()
        if columns or self._is_word("VALUES"):
            values = self._read_values()
            return s.InsertValues(
                **self._common(place), name=name, columns=tuple(columns), values=values
            )
        properties = self._read_properties() if self._take_word("WITH") else {}
        if not self._is_word("SELECT"):
            self._fail_with_words(["VALUES", "SELECT", "WITH"])
        return s.InsertInto(
            **self._common(place), name=name, properties=properties, query=self._read_query()
        )

    def _read_names(self) -> list[str]:
        names = [self._read_name("the name of a column")]
        while self._take(TokenType.COMMA):
            names.append(self._read_name("the name of a column"))
        self._expect(TokenType.R_PAREN, "',' or ')'")
        return names

    def _read_values(self) -> tuple[exp.Expr, ...]:
        self._expect_word("VALUES")
        self._expect(TokenType.L_PAREN, "'('")
        values = self._read_list(TokenType.R_PAREN, "')'", may_be_empty=True)
        if self._is(TokenType.COMMA):
            raise Refused("several rows in one INSERT are refused: write one each", self._place())
        return tuple(values)

    # DROP and ALTER

    def _drop(self, place: Place) -> s.Statement:
        self._expect_word("DROP")
        kind = self._expect_word("STREAM", "TABLE", "CONNECTOR", "TYPE")
        if_exists = self._take_words("IF EXISTS")
        name = self._read_name("a name")
        common = {**self._common(place), "name": name, "if_exists": if_exists}
        if kind == "CONNECTOR":
            return s.DropConnector(**common)
        if kind == "TYPE":
            return s.DropType(**common)
        return s.DropSource(
            **common, is_table=kind == "TABLE", delete_topic=self._take_words("DELETE TOPIC")
        )

    def _alter(self, place: Place) -> s.Statement:
        self._expect_word("ALTER")
        if self._take_word("SYSTEM"):
            name, value = self._read_assignment()
            return s.AlterSystem(**self._common(place), name=name, value=value)
        is_table = self._expect_word("STREAM", "TABLE", "SYSTEM") == "TABLE"
        name = self._read_name("the name of a stream or table")
        columns = []
        while True:
            if self._is_word("DROP", "RENAME", "ALTER"):
                raise Refused(
                    f"{self._curr.text.upper()} COLUMN is refused: columns can be added alone",
                    self._place(),
                )
            self._expect_word("ADD")
            self._take_word("COLUMN")
            column_place = self._place()
            column = self._read_name("the name of a column")
            columns.append(s.ColumnDefinition(column, self._read_type(), column_place))
            if not self._take(TokenType.COMMA):
                break
        return s.AlterSource(
            **self._common(place), name=name, is_table=is_table, columns=tuple(columns)
        )

    # What there is

    def _show(self, place: Place) -> s.Statement:
        self._expect_word("SHOW", "LIST")
        includes_all = bool(self._take_word("ALL"))
        if includes_all and not self._is_word("TOPICS"):
            self._fail("TOPICS")
        kind = self._take_word("SOURCE", "SINK")
        what = "CONNECTORS" if kind else ""
        if self._take_words("CONNECTOR PLUGINS"):
            what = "CONNECTOR PLUGINS"
        elif kind:
            self._expect_word("CONNECTORS")
        else:
            what = self._expect_word(
                "PROPERTIES", "TOPICS", "STREAMS", "TABLES", "FUNCTIONS", "CONNECTORS", "TYPES",
                "VARIABLES", "QUERIES",
            )  # fmt: skip
        may_be_extended = what in ("TOPICS", "STREAMS", "TABLES", "QUERIES")
        return s.Show(
            **self._common(place), what=what, includes_all=includes_all, connector_kind=kind,
            is_extended=may_be_extended and bool(self._take_word("EXTENDED")),
        )  # fmt: skip

    def _describe(self, place: Place) -> s.Statement:
        self._expect_word("DESCRIBE")
        common = self._common(place)
        if self._take_word("FUNCTION"):
            return s.DescribeFunction(**common, name=self._read_name("the name of a function"))
        if self._take_word("CONNECTOR"):
            return s.DescribeConnector(**common, name=self._read_name("the name of a connector"))
        word = self._take_word("STREAMS")
        if word is None and self._is_word("TABLES") and self._next_ends():
            word = self._take_word("TABLES")
        if word is not None:
            extended = bool(self._take_word("EXTENDED"))
            return s.DescribeStreams(**common, is_extended=extended, is_table=word == "TABLES")
        name = self._read_name("the name of a stream or table")
        return s.DescribeSource(**common, name=name, is_extended=bool(self._take_word("EXTENDED")))

    def _next_ends(self) -> bool:
        return not self._next or self._next_is_word("EXTENDED")

    def _explain(self, place: Place) -> s.Statement:
        self._expect_word("EXPLAIN")
        if self._is_name() and not self._next:
            return s.Explain(**self._common(place), query=self._read_name())
        skipped = 0 if self._at_end else self._curr.start - self._tokens[0].start
        explained = self._read_statement()
        text = self._own_text[skipped:]
        return s.Explain(**self._common(place), statement=replace(explained, text=text))

    def _print(self, place: Place) -> s.Statement:
        self._expect_word("PRINT")
        topic = self._read_resource()
        from_beginning = self._take_words("FROM BEGINNING")
        has_interval = self._take_word("INTERVAL", "SAMPLE") is not None
        interval = self._read_whole_number() if has_interval else None
        limit = self._read_whole_number() if self._take_word("LIMIT") else None
        return s.PrintTopic(
            **self._common(place), topic=topic, from_beginning=from_beginning, interval=interval,
            limit=limit,
        )  # fmt: skip

    def _read_resource(self) -> str:
        """Takes the name of a topic or subject, which keeps the case that it is written in."""
        if self._is(TokenType.STRING):
            return self._read_text()
        text = str(self._curr.text) if self._is_name() else ""
        self._read_name("the name of a topic")
        # A name with hyphens and points is several tokens, as it is several words in SQL.
        while self._is(TokenType.DASH) or self._is(TokenType.DOT):
            text += str(self._curr.text)
            self._advance()
            if not self._at_end:
                text += str(self._curr.text)
                self._advance()
        return text

    # Queries that run, and the session

    def _control(self, place: Place) -> s.Statement:
        action = self._expect_word("TERMINATE", "PAUSE", "RESUME")
        query = None if self._take_word("ALL") else self._read_name("the id of a query, or ALL")
        return s.ControlQuery(**self._common(place), action=action, query=query)

    def _read_assignment(self) -> tuple[str, str]:
        name = self._read_text("the name of a property in single quotes")
        self._expect(TokenType.EQ, "'='")
        return name, self._read_text("a value in single quotes")

    def _set(self, place: Place) -> s.Statement:
        self._expect_word("SET")
        name, value = self._read_assignment()
        return s.SetProperty(**self._common(place), name=name, value=value)

    def _unset(self, place: Place) -> s.Statement:
        self._expect_word("UNSET")
        name = self._read_text("the name of a property in single quotes")
        return s.UnsetProperty(**self._common(place), name=name)

    def _define(self, place: Place) -> s.Statement:
        self._expect_word("DEFINE")
        name = self._read_variable()
        self._expect(TokenType.EQ, "'='")
        return s.Define(**self._common(place), name=name, value=self._read_text())

    def _read_variable(self) -> str:
        """Takes the name of a variable, which is shown as it is written."""
        text = "" if self._at_end else str(self._curr.text)
        self._read_name("the name of a variable")
        return text

    def _undefine(self, place: Place) -> s.Statement:
        self._expect_word("UNDEFINE")
        return s.Undefine(**self._common(place), name=self._read_variable())

    def _run(self, place: Place) -> s.Statement:
        self._expect_words("RUN SCRIPT")
        return s.RunScript(**self._common(place), path=self._read_text("a path in single quotes"))

    # ASSERT

    def _assert(self, place: Place) -> s.Statement:
        self._expect_word("ASSERT")
        common = self._common(place)
        exists = not self._take_words("NOT EXISTS")
        if exists and self._is_word("VALUES", "NULL"):
            return self._assert_values(common)
        if exists and (kind := self._take_word("STREAM", "TABLE")):
            name = self._read_name("the name of a stream or table")
            columns = self._read_columns() if self._is(TokenType.L_PAREN) else None
            properties = self._read_properties() if self._take_word("WITH") else {}
            return s.AssertSource(
                **common, name=name, is_table=kind == "TABLE", columns=columns,
                properties=properties,
            )  # fmt: skip
        if self._take_word("TOPIC"):
            topic = self._read_resource()
            properties = self._read_properties() if self._take_word("WITH") else {}
            return s.AssertTopic(
                **common, topic=topic, exists=exists, properties=properties,
                timeout_ms=self._read_timeout(),
            )  # fmt: skip
        words = ("TOPIC", "SCHEMA") if not exists else (
            "TOPIC", "SCHEMA", "VALUES", "NULL", "STREAM", "TABLE",
        )  # fmt: skip
        if not self._take_word("SCHEMA"):
            self._fail_with_words(list(words))
        subject = self._read_resource() if self._take_word("SUBJECT") else None
        schema_id = self._read_whole_number() if self._take_word("ID") else None
        if subject is None and schema_id is None:
            self._fail_with_words(["SUBJECT", "ID"])
        return s.AssertSchema(
            **common, subject=subject, schema_id=schema_id, exists=exists,
            timeout_ms=self._read_timeout(),
        )  # fmt: skip

    def _read_timeout(self) -> int | None:
        return self._read_duration() if self._take_word("TIMEOUT") else None

    def _assert_values(self, common: dict[str, Any]) -> s.Statement:
        is_tombstone = bool(self._take_word("NULL"))
        self._expect_word("VALUES")
        name = self._read_name("the name of a stream or table")
        columns = tuple(self._read_names()) if self._take(TokenType.L_PAREN) else ()
        if is_tombstone:
            self._expect_word("KEY")
            self._expect(TokenType.L_PAREN, "'('")
            values = tuple(self._read_list(TokenType.R_PAREN, "')'", may_be_empty=True))
        else:
            values = self._read_values()
        return s.AssertValues(
            **common, name=name, columns=columns, values=values, is_tombstone=is_tombstone
        )


def statements(text: str, custom_types: Mapping[str, SqlType]) -> Iterator[s.Statement]:
    """Yields the statements of a script. `custom_types` may grow between them."""
    for part in split(text):
        yield parse(part, custom_types)
