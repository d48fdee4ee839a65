"""Whole queries: statements with inserted rows and the rows that are expected, in `cases/`."""

# ruff: noqa: E501 - a case is a line

from pathlib import Path

import pytest

from odradek.sql.engine.handing_over import QueryText
from odradek.sql.errors import SqlError
from odradek.sql.language.parser import parse
from odradek.sql.language.statements import Query
from odradek.sql.planning.parts import Context
from odradek.sql.planning.queries import compile_query
from odradek.sql.planning.sources import make_codec
from odradek.sql.testing import SqlTester, TestFailed, run_tests

_CASES = sorted((Path(__file__).parent / "cases").glob("*.sql"))


@pytest.mark.parametrize("path", _CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    text = path.read_text()
    tester = SqlTester()
    assert tester.run(text) == text.count("\nASSERT")
    assert all("is null" not in note for note in tester.notes)


def test_wrong_row_is_noticed() -> None:
    tester = SqlTester()
    tester.run(
        "CREATE STREAM s (id INT KEY, x STRING)"
        " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
        "INSERT INTO s VALUES (1, 'a');"
    )
    with pytest.raises(TestFailed, match=r"line 1:1: row 1 of S has X = 'a', and X = 'b'"):
        tester.run("ASSERT VALUES s (id, x) VALUES (1, 'b');")
    with pytest.raises(TestFailed, match="S has 1 rows, and one more is expected"):
        tester.run("ASSERT VALUES s (id, x) VALUES (1, 'b');")


_PRELUDE = """
CREATE STREAM s (id INT KEY, x STRING, n BIGINT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM r (id INT KEY, y STRING) WITH (kafka_topic='r', value_format='JSON');
CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='t', value_format='JSON');
"""


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE STREAM o AS SELECT x FROM s;", "line 1:27: Key missing from projection"),
        ("CREATE STREAM o AS SELECT x, y FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id;", "line 1:27: Key missing from projection (ie, SELECT). The query must include the join expressions S.ID or R.ID in its projection (eg, SELECT S.ID...)."),
        ("CREATE STREAM o AS SELECT id, n FROM s PARTITION BY x;", "must include the partitioning expression X"),
        ("ALTER STREAM s ADD x INT;", "line 1:20: Cannot add column X: it is there"),
        ("ALTER STREAM s ADD a INT, ADD a INT;", "line 1:31: Cannot add column A: it is there"),
        ("ALTER STREAM s ADD ROWTIME INT;", "line 1:20: 'ROWTIME' is a reserved column name"),
        ("ALTER TABLE s ADD a INT;", "Incompatible data source type is STREAM, but statement was ALTER TABLE"),
        ("CREATE STREAM o AS SELECT * FROM s; ALTER STREAM o ADD a INT;", "line 1:37: ALTER command is not supported for CREATE ... AS statements: O"),
        ("DROP TYPE nope;", "line 1:1: Type NOPE does not exist."),
        ("CREATE STREAM o AS SELECT * FROM t;", "Please use CREATE TABLE AS SELECT"),
        ("CREATE TABLE o AS SELECT * FROM s;", "Please use CREATE STREAM AS SELECT"),
        ("CREATE TABLE o AS SELECT id, n, COUNT(*) FROM s GROUP BY id;", "not part of GROUP BY: N"),
        ("CREATE TABLE o AS SELECT id, COUNT(*) FROM s;", "requires a GROUP BY clause"),
        ("CREATE TABLE o AS SELECT id, MAX(v) FROM t GROUP BY id;", "cannot be applied to a table"),
        ("CREATE STREAM o AS SELECT s.id, y FROM s JOIN r ON s.id = r.id;", "must have a WITHIN clause"),
        ("CREATE STREAM o AS SELECT s.id FROM s JOIN t ON s.id = t.v;", "line 1:54: Invalid join condition: types don't match. Got S.ID{INTEGER} = T.V{STRING}."),
        ("CREATE STREAM o AS SELECT id, ROWTIME FROM s;", "reserved column name"),
        ("CREATE STREAM o AS SELECT id, x, x FROM s;", "two columns X"),
        ("CREATE STREAM o AS SELECT id, nope FROM s;", "Column 'NOPE' cannot be resolved"),
        ("CREATE STREAM o AS SELECT id, x FROM s WHERE n;", "condition of type BOOLEAN"),
        ("CREATE STREAM o AS SELECT id, x FROM s EMIT FINAL;", "EMIT FINAL is only supported"),
        ("CREATE STREAM o AS SELECT id, x FROM s LIMIT 3;", "LIMIT ends a query"),
        ("CREATE STREAM o WITH (partitons=1) AS SELECT * FROM s;", "did you mean PARTITIONS"),
        ("CREATE TABLE o (id INT, x STRING) WITH (value_format='JSON');", "PRIMARY KEY"),
        ("CREATE STREAM o (id INT PRIMARY KEY, x STRING) WITH (value_format='JSON');", "use 'KEY'"),
        ("CREATE STREAM o (id INT KEY, x STRING) WITH (kafka_topic='o');", "missing the 'VALUE_F"),
        ("CREATE STREAM o (rowtime INT) WITH (value_format='JSON');", "reserved column name"),
        ("CREATE STREAM s (x INT) WITH (value_format='JSON');", "S exists already"),
        ("INSERT INTO s (id, x) VALUES (1);", "2 columns and 1 values"),
        ("INSERT INTO s VALUES (1, 2, 'a', 3);", "4 values. If the first is meant for ROWTIME,"),
        ("INSERT INTO s (id, x) VALUES ('a', 'b');", "for ID: 'a' is no INTEGER"),
        ("CREATE STREAM o AS SELECT * FROM ss;", "SS does not exist. Did you mean S?"),
        ("CREATE STREAM o AS SELECT * FROM nowhere;", "NOWHERE does not exist. SHOW STREAMS; and"),
        (
            "CREATE TABLE o AS SELECT id, COUNTT(*) FROM s GROUP BY id;",
            "there is no function COUNTT; did you mean COUNT?",
        ),
        (
            "SET 'auto.offset.reset' = 'earlyest';",
            "auto.offset.reset is earliest or latest, not 'earlyest'; did you mean earliest?",
        ),
        ("SET 'ksql.functions.collect_set.limit' = 'many';", "ksql.functions.collect_set.limit is a whole number, not 'many'"),
        ("SET 'ksql.persistence.default.format.value' = 'JASON';", "did you mean JSON?"),
        ("SET 'ksql.persistence.wrap.single.values' = 'no';", "is true or false, not 'no'"),
        ("CREATE STREAM o (x INT) WITH (kafka_topic='o', value_format='JASON');", "line 1:48: Unknown format: JASON; did you mean JSON"),
        ("CREATE STREAM o (x INT) WITH (kafka_topic='', value_format='JSON');", "line 1:31: KAFKA_TOPIC is the name of a topic"),
        ("CREATE STREAM o (x INT) WITH (kafka_topic='o', value_format='JSON', timestamp='y');", "line 1:69: The TIMESTAMP column"),
        ("CREATE STREAM o WITH (value_format='KAFKA', partitions=1) AS SELECT * FROM s;", "line 1:23: The 'KAFKA' format only supports a single field"),
        ("INSERT INTO t (v) VALUES ('b');", "primary key column"),
        ("INSERT INTO s (id, id) VALUES (1, 2);", "line 1:35: Column name ID is given twice"),
        ("INSERT INTO s (id, n) VALUES (1, 1 / 0);", "line 1:36: the value for N: integer division"),
        ("CREATE STREAM z (e DECIMAL(4, 2)) WITH (kafka_topic='z', value_format='JSON'); INSERT INTO z VALUES (1234);", "the value for E: 1234 does not fit into DECIMAL(4, 2)"),
        ("CREATE TABLE o AS SELECT id, COUNT(DISTINCT n) FROM s GROUP BY id;", "line 1:36: COUNT(DISTINCT ...) is refused"),
        ("INSERT INTO r SELECT id, n FROM s;", "Incompatible schema"),
        ("INSERT INTO r WITH (query_id='a b') SELECT id, x AS y FROM s;", "only alphanumeric"),
        ("DROP STREAM nope;", "Could not find STREAM/TABLE 'NOPE'"),
        (
            (
                "CREATE TABLE o AS SELECT id, COUNT(*) FROM s WINDOW TUMBLING"
                " (SIZE 1 HOUR, RETENTION 1 MINUTE, GRACE PERIOD 1 HOUR) GROUP BY id;"
            ),
            "retention of 60000 ms is shorter",
        ),
        ("CREATE TABLE o AS SELECT id, x, COUNT(*) FROM s GROUP BY id, x;", "single field"),
        ("CREATE STREAM o AS SELECT t.id, x FROM t JOIN s ON s.id = t.id;", "line 1:42: Invalid join order: table-stream joins are not supported; only stream-table joins. Got T INNER S."),
        ("CREATE STREAM o AS SELECT s.id, x FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id AND s.x = r.y;", "line 1:78: Invalid join condition: joins on multiple conditions"),
        ("CREATE STREAM o AS SELECT s.id, x FROM s JOIN r WITHIN 1 HOUR ON s.id > r.id;", "Only equality join criteria is supported"),
        ("CREATE STREAM o AS SELECT s.id, x FROM s JOIN t WITHIN 1 HOUR ON s.id = t.id;", "A window definition was provided for a Stream-Table join"),
        ("CREATE STREAM o AS SELECT s.id, x FROM s FULL JOIN t ON s.id = t.id;", "full-outer join not supported for stream-table join"),
        ("CREATE STREAM o AS SELECT id FROM s;", "no value columns"),
        ("CREATE STREAM o AS SELECT id, x AS rowtime FROM s;", "`ROWTIME` is a reserved column name"),
        ("CREATE STREAM o AS SELECT id, id AS k, x FROM s;", "a key column (ID) more than once, aliased as: ID and K"),
        ("CREATE STREAM o AS SELECT MAP('a' := n) AS k, x FROM s PARTITION BY MAP('a' := n);", "Map keys, including types that contain maps"),
        ("CREATE STREAM o (k MAP<STRING, INT> KEY, x INT) WITH (value_format='JSON');", "Map keys, including types that contain maps"),
        ("CREATE STREAM o AS SELECT id, CASE WHEN n = 1 THEN null END AS c FROM s;", "All case branches have NULL type"),
        ("CREATE STREAM o (h STRING HEADER('a')) WITH (value_format='JSON');", "Invalid type for HEADER('a') column: expected BYTES, got STRING"),
        ("CREATE STREAM o (a BYTES HEADER('a'), b BYTES HEADER('a')) WITH (value_format='JSON');", "Schema already contains a HEADER('a') column"),
        ("CREATE OR REPLACE STREAM s (id INT KEY, x STRING) WITH (kafka_topic='s', value_format='JSON');", "changed, missing or reordered: [`N` BIGINT]"),
        ("CREATE OR REPLACE STREAM s (id STRING KEY, x STRING, n BIGINT) WITH (kafka_topic='s', value_format='JSON');", "Key columns must be identical"),
        ("CREATE OR REPLACE STREAM s (id INT KEY, x STRING, n BIGINT) WITH (kafka_topic='s2', value_format='JSON');", "cannot be upgraded to topic = s2"),
        ("CREATE TABLE o AS SELECT id, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) WHERE WINDOWSTART > 1 GROUP BY id;", "line 1:82: Window bounds column WINDOWSTART can only be used in the SELECT clause"),
        ("CREATE TABLE o AS SELECT id, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id HAVING WINDOWEND > 1;", "line 1:95: Window bounds column WINDOWEND can only be used in the SELECT clause"),
        ("CREATE TABLE o AS SELECT id, MAX(WINDOWEND) FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;", "line 1:34: Window bounds column WINDOWEND"),
        ("CREATE TABLE o AS SELECT id, MAX(n = 1) FROM s GROUP BY id;", "'MAX' does not accept parameters (BOOLEAN)"),
    ],
)  # fmt: skip
def test_refusals(statement: str, reason: str) -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    with pytest.raises(SqlError) as caught:
        tester.run(statement)
    assert reason in str(caught.value)


def test_sum_that_is_too_large_leaves_the_row_out() -> None:
    tester = SqlTester()
    tester.run(
        "CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE TABLE t AS SELECT id, SUM(n) AS total, COUNT(*) AS c FROM s GROUP BY id;"
        "INSERT INTO s VALUES (1, 2147483647); INSERT INTO s VALUES (1, 1);"
    )
    rows = [(row["TOTAL"], row["C"]) for row, _ in tester.rows("T")]
    assert rows == [(2147483647, 1), (2147483647, 2)]
    assert any("too large for INTEGER" in note for note in tester.notes)


def test_collections_have_as_many_values_as_properties_say() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    tester.run(
        "SET 'ksql.functions.collect_list.limit' = '2'; SET 'ksql.functions.collect_set.limit' = '1';"
        "CREATE TABLE few AS SELECT id, COLLECT_LIST(n) AS l, COLLECT_SET(n) AS k FROM s GROUP BY id;"
        "UNSET 'ksql.functions.collect_list.limit';"
        "CREATE TABLE all_of_them AS SELECT id, COLLECT_LIST(n) AS l FROM s GROUP BY id;"
        "INSERT INTO s VALUES (1, 'a', 7); INSERT INTO s VALUES (1, 'a', 8); INSERT INTO s VALUES (1, 'a', 9);"
    )
    few, everything = tester.rows("FEW")[-1][0], tester.rows("ALL_OF_THEM")[-1][0]
    assert (few["L"], few["K"], everything["L"]) == ([7, 8], [7], [7, 8, 9])


def test_properties_say_what_holds_without_with() -> None:
    tester = SqlTester()
    tester.run(
        "SET 'ksql.persistence.default.format.value' = 'json';"
        "SET 'ksql.persistence.default.format.key' = 'DELIMITED';"
        "SET 'ksql.persistence.wrap.single.values' = 'false';"
        "CREATE STREAM one (id INT KEY, n INT) WITH (kafka_topic='one');"
        "CREATE STREAM two AS SELECT id, n, n AS m FROM one;"
        "CREATE STREAM wrapped WITH (wrap_single_value=true) AS SELECT id, n FROM one;"
        "CREATE STREAM text WITH (value_format='DELIMITED') AS SELECT id, n FROM one;"
        "INSERT INTO one VALUES (1, 2);"
    )
    written = {name: records[0] for name, records in tester.topics.items()}
    assert written["one"].key == b"1"
    assert {name: record.value for name, record in written.items()} == {
        "one": b"2", "TWO": b'{"N":2,"M":2}', "WRAPPED": b'{"N":2}', "TEXT": b"2",
    }  # fmt: skip


def test_variables_are_replaced_once() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    tester.run(
        "DEFINE name = 'x'; DEFINE Name = 's'; DEFINE text = '''it''';"
        "CREATE STREAM o AS SELECT id, '$${name}' AS a, ${TEXT} AS b FROM ${name};"
        "SET 'ksql.variable.substitution.enable' = 'false';"
        "CREATE STREAM p AS SELECT id, '${name}' AS a FROM s;"
        "INSERT INTO s VALUES (1, 'a', 1);"
    )
    assert tester.session.variables == {"Name": "s", "text": "'it'"}
    (row, _), (other, _) = tester.rows("O")[0], tester.rows("P")[0]
    assert (row["A"], row["B"], other["A"]) == ("${name}", "it", "${name}")


_TESTS = """\
--@test: it passes
CREATE STREAM s (id INT KEY, x INT) WITH (kafka_topic='s', value_format='JSON');
INSERT INTO s VALUES (1, 2);
ASSERT VALUES s (id, x) VALUES (1, 2);
--@test: it fails as it should
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: NOPE does not exist
CREATE STREAM s AS SELECT * FROM nope;
"""


def test_file_with_several_tests() -> None:
    assert run_tests(_TESTS) == 2
    with pytest.raises(TestFailed, match="it fails as it should: line 8:34: NOPE does not exist"):
        run_tests(_TESTS.replace("NOPE does", "YES does"))
    with pytest.raises(TestFailed, match="it passes: an error is expected, and there is none"):
        run_tests(_TESTS.replace("--@test: it passes", "--@test: it passes\n--@expected.error: E"))


def test_format_of_keys_is_kept_where_there_are_none() -> None:
    tester = SqlTester()
    tester.run(
        "CREATE STREAM s (x STRING, n INT) WITH (kafka_topic='s', format='JSON');"
        "CREATE TABLE t AS SELECT x, n, COUNT(*) AS c FROM s GROUP BY x, n;"
        "CREATE STREAM o AS SELECT * FROM s;"
        "CREATE STREAM p AS SELECT * FROM s PARTITION BY null;"
        "CREATE STREAM k (x STRING) WITH (kafka_topic='k', value_format='JSON');"
        "INSERT INTO s VALUES ('a', 1);"
    )
    (record,) = tester.topics["T"]
    assert record.key == b'{"X":"a","N":1}'
    formats = {name: source.key_format.name for name, source in tester.catalogue.sources.items()}
    assert formats == {"S": "JSON", "T": "JSON", "O": "JSON", "P": "NONE", "K": "KAFKA"}


def test_query_has_the_columns_of_when_it_was_made() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    tester.run(
        "CREATE STREAM o AS SELECT * FROM r;"
        "CREATE OR REPLACE STREAM r (id INT KEY, y STRING, more INT)"
        " WITH (kafka_topic='r', value_format='JSON');"
    )
    # After a restart it is compiled once more.
    again = QueryText.of(tester.catalogue.queries["QUERY_1"], tester.defaults, None).prepared()
    assert again.sink.schema == tester.catalogue.sources["O"].schema


_PURCHASES = """
CREATE STREAM p (id INT KEY, cost DOUBLE, n INT) WITH (kafka_topic='p', value_format='JSON');
CREATE TABLE stats AS SELECT id, COUNT(*) AS sales, SUM(n) AS total FROM p GROUP BY id;
CREATE STREAM valid AS SELECT * FROM p WHERE cost > 0;
INSERT INTO p VALUES (1, -1.0, 1); INSERT INTO p VALUES (1, 1.0, 2);
"""


def test_query_with_state_is_replaced_and_goes_on_with_it() -> None:
    tester = SqlTester()
    tester.run(_PURCHASES)
    tester.run(
        "CREATE OR REPLACE TABLE stats AS SELECT id, COUNT(*) AS sales, SUM(n) AS total,"
        " SUM(n) / COUNT(*) AS mean FROM p WHERE cost > 0 GROUP BY id HAVING SUM(n) > 2;"
        "CREATE OR REPLACE STREAM valid AS SELECT *, 'new' AS v FROM p WHERE cost < 0;"
        "INSERT INTO p VALUES (1, -2.0, 100); INSERT INTO p VALUES (1, 2.0, 9);"
        "CREATE OR REPLACE TABLE stats AS SELECT id, COUNT(*) AS sales, SUM(n) AS total,"
        " SUM(n) / COUNT(*) AS mean FROM p GROUP BY id;"
        "INSERT INTO p VALUES (1, -3.0, 8);"
    )
    rows = [(row["SALES"], row["TOTAL"], row["MEAN"]) for row, _ in tester.rows("STATS")]
    # The first version wrote no mean.
    assert rows == [(1, 1, None), (2, 3, None), (3, 12, 4), (4, 20, 5)]
    assert [row["V"] for row, _ in tester.rows("VALID")] == [None, "new", "new"]
    assert list(tester.catalogue.queries) == ["QUERY_1", "QUERY_2"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id, COUNT(*) AS sales, MAX(n) AS total FROM p GROUP BY id", "other aggregates"),
        ("SELECT id, COUNT(*) AS sales, SUM(n) AS total, MAX(n) AS m FROM p GROUP BY id", "other aggregates"),
        ("SELECT id + 1 AS id, COUNT(*) AS sales, SUM(n) AS total FROM p GROUP BY id + 1", "other groups"),
        ("SELECT id, COUNT(*) AS sales, SUM(n) AS total FROM valid GROUP BY id", "another source"),
        ("SELECT id, COUNT(*) AS sales, SUM(n) AS total FROM p WINDOW TUMBLING (SIZE 1 DAY) GROUP BY id", "other windows"),
        ("SELECT p.id AS id, COUNT(*) AS sales, SUM(p.n) AS total FROM p JOIN valid WITHIN 1 DAY ON p.id = valid.id GROUP BY p.id", "that of a join"),
    ],
)  # fmt: skip
def test_other_state_is_not_taken_over(query: str, reason: str) -> None:
    tester = SqlTester()
    tester.run(_PURCHASES)
    with pytest.raises(SqlError) as caught:
        tester.run(f"CREATE OR REPLACE TABLE stats AS {query};")
    assert "line 1:1: CREATE OR REPLACE keeps the state of a query, and" in str(caught.value)
    assert reason in str(caught.value)


def test_query_of_a_table_is_replaced() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    tester.run(
        "CREATE TABLE o AS SELECT * FROM t WHERE v <> 'a';"
        "INSERT INTO t VALUES (1, 'b'); INSERT INTO t VALUES (2, 'c');"
        "CREATE OR REPLACE TABLE o AS SELECT *, UCASE(v) AS large FROM t WHERE v <> 'x';"
        "INSERT INTO t VALUES (1, 'x'); INSERT INTO t VALUES (3, 'a');"
    )
    rows = [(row["ID"], row["LARGE"], is_deleted) for row, is_deleted in tester.rows("O")]
    # That 1 had a row is known from the state of the first version.
    assert rows == [(1, None, False), (2, None, False), (1, None, True), (3, "A", False)]
    with pytest.raises(SqlError, match="that of groups of a table cannot be kept"):
        tester.run(
            "CREATE TABLE g AS SELECT v, COUNT(*) AS c FROM t GROUP BY v;"
            "CREATE OR REPLACE TABLE g AS SELECT v, COUNT(*) AS c FROM t WHERE id > 1 GROUP BY v;"
        )


def test_what_is_there_already_is_kept() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    tester.run(
        "CREATE STREAM IF NOT EXISTS s (other INT) WITH (kafka_topic='o', value_format='JSON');"
        "CREATE TABLE IF NOT EXISTS t AS SELECT id, COUNT(*) AS c FROM s GROUP BY id;"
    )
    assert [column.name for column in tester.catalogue.sources["S"].schema] == ["ID", "X", "N"]
    assert not tester.catalogue.queries


def test_query_in_use_is_not_dropped() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    tester.run("CREATE STREAM o AS SELECT * FROM s;")
    with pytest.raises(SqlError, match="queries read from this source: \\[QUERY_1\\]"):
        tester.run("DROP STREAM s;")
    tester.run("DROP STREAM o; DROP STREAM s;")
    assert list(tester.catalogue.sources) == ["R", "T"]


def test_aggregate_without_groups_in_a_query_that_is_read() -> None:
    tester = SqlTester()
    tester.run(_PRELUDE)
    context = Context(
        tester.catalogue.sources.get,
        make_codec,
        is_transient=True,
        sources=tester.catalogue.sources,
    )
    query = parse("SELECT COUNT(*) AS c, MAX(n) FROM s EMIT CHANGES;")
    assert isinstance(query, Query)
    assert str(compile_query(query, context).schema) == "`C` BIGINT, `KSQL_COL_0` BIGINT"
