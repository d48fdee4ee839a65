"""Statements as text: what they become, and where they are refused."""

import pytest

from odradek.sql.errors import Invalid, Refused, SqlError, SyntaxProblem
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse, split
from odradek.sql.language.variables import substitute

_KINDS = {
    "SELECT * FROM a": s.Query,
    "SHOW PROPERTIES": s.Show,
    "LIST ALL TOPICS EXTENDED": s.Show,
    "SHOW STREAMS EXTENDED": s.Show,
    "SHOW TABLES": s.Show,
    "SHOW FUNCTIONS": s.Show,
    "SHOW SOURCE CONNECTORS": s.Show,
    "SHOW CONNECTOR PLUGINS": s.Show,
    "SHOW TYPES": s.Show,
    "SHOW VARIABLES": s.Show,
    "SHOW QUERIES EXTENDED": s.Show,
    "DESCRIBE a EXTENDED": s.DescribeSource,
    "DESCRIBE STREAMS": s.DescribeStreams,
    "DESCRIBE TABLES EXTENDED": s.DescribeStreams,
    "DESCRIBE FUNCTION abs": s.DescribeFunction,
    "DESCRIBE CONNECTOR c": s.DescribeConnector,
    "PRINT 'a' FROM BEGINNING INTERVAL 2 LIMIT 3": s.PrintTopic,
    "TERMINATE CSAS_A_1": s.ControlQuery,
    "PAUSE ALL": s.ControlQuery,
    "RESUME q": s.ControlQuery,
    "SET 'a' = 'b'": s.SetProperty,
    "ALTER SYSTEM 'a' = 'b'": s.AlterSystem,
    "UNSET 'a'": s.UnsetProperty,
    "DEFINE a = 'b'": s.Define,
    "UNDEFINE a": s.Undefine,
    "CREATE OR REPLACE SOURCE STREAM a (x INT) WITH (value_format='JSON')": s.CreateSource,
    "CREATE STREAM a (x INT) WITH (topic='a')": s.CreateSource,
    "CREATE TABLE IF NOT EXISTS a (x INT PRIMARY KEY) WITH (value_format='JSON')": s.CreateSource,
    "CREATE STREAM a WITH (partitions=2) AS SELECT * FROM b": s.CreateAsSelect,
    "CREATE SINK CONNECTOR IF NOT EXISTS c WITH ('a.b'='c')": s.CreateConnector,
    "INSERT INTO a SELECT * FROM b": s.InsertInto,
    "INSERT INTO a (x) VALUES (1)": s.InsertValues,
    "DROP STREAM IF EXISTS a DELETE TOPIC": s.DropSource,
    "DROP CONNECTOR c": s.DropConnector,
    "EXPLAIN CSAS_A_1": s.Explain,
    "EXPLAIN SELECT * FROM a": s.Explain,
    "CREATE TYPE t AS STRUCT<a INT, b ARRAY<STRING>>": s.CreateType,
    "DROP TYPE IF EXISTS t": s.DropType,
    "ALTER STREAM a ADD COLUMN b INT, ADD c STRING": s.AlterSource,
    "ASSERT NOT EXISTS TOPIC a WITH (partitions=1) TIMEOUT 3 SECONDS": s.AssertTopic,
    "ASSERT SCHEMA SUBJECT a ID 3": s.AssertSchema,
    "ASSERT VALUES a (x) VALUES (1)": s.AssertValues,
    "ASSERT NULL VALUES a (x) KEY (1)": s.AssertValues,
    "ASSERT TABLE a (x INT PRIMARY KEY) WITH (value_format='JSON')": s.AssertSource,
    "RUN SCRIPT 'a.sql'": s.RunScript,
}


@pytest.mark.parametrize("text", _KINDS)
def test_kinds(text: str) -> None:
    statement = parse(f"{text};")
    assert type(statement) is _KINDS[text]
    assert statement.text == text


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("SELECT FROM x", SyntaxProblem, "line 1:8: an expression is expected here"),
        ("SELECT *\nFORM x", SyntaxProblem, "line 2:1: FROM is expected here"),
        ("SELECT * FROM x ORDER BY y", Refused, "line 1:17: ORDER BY is refused"),
        ("SELECT * FROM x UNION SELECT * FROM y", Refused, "line 1:17: UNION is refused"),
        ("SELECT DISTINCT a FROM x", Refused, "line 1:8: SELECT DISTINCT is refused"),
        ("SELECT * FROM (SELECT * FROM y)", Refused, "line 1:15: a query within FROM is refused"),
        ("SELECT sum(a) OVER (w) FROM x", Refused, "line 1:15: OVER is refused"),
        ("SELECT * FROM a JOIN b USING (x)", Refused, "line 1:24: USING is refused"),
        ("SET CLI COLUMN-WIDTH 20", Refused, "line 1:1: SET CLI is refused"),
        ("SELECT a FROM x WHERE b ILIKE 'c'", Refused, "line 1:25: ILIKE is refused"),
        ("SELECT a FROM x WHERE b IN (SELECT c FROM y)", Refused, "line 1:29: a query within an"),
        ("SELECT a FROM x EXCEPT SELECT b FROM y", Refused, "line 1:17: EXCEPT is refused"),
        ("SPOOL OFF", Refused, "line 1:1: SPOOL is refused"),
        ("UPDATE x SET a = 1", Refused, "line 1:1: UPDATE is refused"),
        ("CREATE VIEW x AS SELECT 1", Refused, "line 1:1: CREATE VIEW is refused"),
        ("ALTER STREAM a DROP COLUMN b", Refused, "line 1:16: DROP COLUMN is refused"),
        ("INSERT INTO a VALUES (1), (2)", Refused, "line 1:25: several rows in one INSERT"),
        ("CREATE STREM x", SyntaxProblem, "did you mean STREAM?"),
        ("SHOW STREAM", SyntaxProblem, "did you mean STREAMS?"),
        (
            "CREATE STREAM x (a INTT)",
            Invalid,
            "line 1:20: there is no type INTT; did you mean INT?",
        ),
        ("CREATE STREAM x (a DECIMAL(2, 3))", Invalid, "DECIMAL(2, 3) is not a type"),
        ("SELECT 'abc FROM x", SyntaxProblem, "a single quote (') is missing"),
        ("SELECT a FROM x WINDOW TUMBLING (SIZE 1 MONTH)", SyntaxProblem, "has no fixed length"),
        ("SELECT a FROM x extra words", SyntaxProblem, "the end of the statement is expected"),
        (f"SELECT {'(' * 500}a FROM x", SyntaxProblem, "nested more than"),
    ],
)
def test_refusals(text: str, error: type[SqlError], reason: str) -> None:
    with pytest.raises(error) as caught:
        parse(text)
    assert reason in str(caught.value)
    assert caught.value.place is not None


def test_script_is_divided() -> None:
    parts = split("SHOW TABLES; -- a comment; with a semicolon\n\n SELECT ';' FROM a;;")
    assert [part.text for part in parts] == ["SHOW TABLES", "SELECT ';' FROM a"]


def test_names() -> None:
    query = parse('SELECT a AS `Keep`, "Quo""ted" FROM MyStream AS m')
    assert isinstance(query, s.Query)
    assert [item.alias for item in query.items] == ["Keep", None]
    assert query.source.name == "MYSTREAM"
    assert query.items[1].expression is not None
    assert query.items[1].expression.this.name == 'Quo"ted'


def test_variables() -> None:
    variables = {"topic": "orders", "n": "3"}
    text = "CREATE STREAM ${TOPIC} -- ${n}\n WITH (kafka_topic='${topic}', x=${n}) ${other}"
    expected = "CREATE STREAM orders -- ${n}\n WITH (kafka_topic='orders', x=3) ${other}"
    assert substitute(text, variables) == expected


def test_what_looks_like_a_variable_can_be_a_text() -> None:
    assert substitute("SELECT '$${format}', '${format}'", {"format": "AVRO"}) == (
        "SELECT '${format}', 'AVRO'"
    )


def test_statement_that_is_explained_has_its_own_text() -> None:
    explained = parse("EXPLAIN  SELECT * FROM a EMIT CHANGES;")
    assert isinstance(explained, s.Explain)
    assert explained.statement is not None
    assert explained.statement.text == "SELECT * FROM a EMIT CHANGES"


def test_variables_cost_time_and_memory_in_proportion() -> None:
    # Each of the comments has no end: minutes, if each is looked for on its own.
    comments = "/* " * 100_000
    assert substitute("${a}" + comments, {"a": "b"}) == f"b{comments}"
    with pytest.raises(Invalid, match="more than 20,000,000 characters"):
        substitute("${a}" * 100_000, {"a": "b" * 1_000_000})
