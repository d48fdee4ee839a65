"""The JDBC source: modes, offsets, rows that come late, tables that come and go."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from odradek.connect.connectors.jdbc.settings import JdbcSourceSettings
from odradek.connect.connectors.jdbc.source import JdbcSource
from odradek.connect.connectors.positions import Positions
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from tests.unit.connect.connectors.jdbc.databases import KINDS, SERVERS, Db, Reader, opened


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Iterator[Db]:
    yield from opened(request)


of_all = pytest.mark.parametrize("db", KINDS, indirect=True)
of_servers = pytest.mark.parametrize("db", SERVERS, indirect=True)


@contextmanager
def reading(
    db: Db, settings: dict[str, str] | None = None, at: Positions | None = None, **more: str
) -> Iterator[Reader]:
    with closing(db.source(**(settings or {}), **more).task()) as task:
        yield Reader(task, at)


def invoices(db: Db) -> None:
    moment = db.sql(sqlite="TIMESTAMP", postgres="TIMESTAMP(3)", mariadb="DATETIME(3)")
    counter = db.sql(
        sqlite="INTEGER PRIMARY KEY",
        postgres="SERIAL PRIMARY KEY",
        mariadb="INT AUTO_INCREMENT PRIMARY KEY",
    )
    db.run(
        f"CREATE TABLE invoices (id {counter}, amount INT, updated {moment} NOT NULL)",
    )


def add(db: Db, amount: int, seconds_ago: float = 10) -> None:
    db.run(f"INSERT INTO invoices (amount, updated) VALUES ({amount}, {db.ago(seconds_ago)})")


def amounts(values: list[Any]) -> list[int]:
    return [value["amount"] for value in values]


BOTH = {
    "mode": "timestamp+incrementing",
    "incrementing_column_name": "id",
    "timestamp_column_name": "updated",
}


@of_all
def test_rows_arrive_as_they_are_inserted_and_updated(db: Db) -> None:
    invoices(db)
    with reading(db, BOTH) as reader:
        assert reader.all() == []
        add(db, 1, 30)
        add(db, 2, 20)
        first, second = reader.read()
        assert (first.topic, first.key, first.key_schema) == ("p-invoices", None, None)
        assert first.value_schema is not None
        assert first.value_schema.name == "invoices"
        assert amounts([first.value, second.value]) == [1, 2]
        assert second.source_offset == reader.offset
        assert set(reader.offset) == {"incrementing", "timestamp", "timestamp_nanos"}
        db.run(f"UPDATE invoices SET amount = 10, updated = {db.ago(5)} WHERE id = 1")
        assert reader.values()[0]["amount"] == 10
        assert reader.all() == []
    positions = reader.positions
    add(db, 3, 3)
    with reading(db, BOTH, positions) as reader:
        assert amounts(reader.all()) == [3]


@of_all
def test_a_range_can_be_read_again_by_another_task(db: Db) -> None:
    invoices(db)
    for amount in range(7):
        add(db, amount, 60 - amount)
    for mode in ("incrementing", "timestamp", "timestamp+incrementing", "bulk"):
        settings = {**BOTH, "mode": mode}
        with reading(db, settings) as reader, reading(db, settings) as other:
            start = reader.positions
            end = reader.task.reach(start, 3)
            records = [*reader.task.read(start, end)]
            assert amounts([record.value for record in records]) == [0, 1, 2]
            assert [*other.task.read(start, end)] == records
            after = reader.task.reach(end, 100)
            assert [*other.task.read(end, after)] == [*reader.task.read(end, after)]


@of_all
def test_offsets_have_the_form_of_aivens_connector(db: Db) -> None:
    invoices(db)
    add(db, 1)
    with reading(db, BOTH) as reader:
        reader.read()
    ((partition, offset),) = reader.positions
    table = db.sql(
        sqlite="invoices",
        postgres="public.invoices",
        mariadb=f"{db.dialect.session.url.database}.invoices",
    )
    assert partition == {"protocol": "1", "table": table}
    assert offset["incrementing"] == 1
    assert offset["timestamp"] % 1000 == offset["timestamp_nanos"] // 1_000_000


def test_offsets_of_older_connectors_are_taken_over(db: Db) -> None:
    invoices(db)
    for amount in (1, 2, 3):
        add(db, amount)
    old = Positions([({"table": "invoices"}, {"incrementing": 2})])
    with reading(db, at=old, mode="incrementing") as reader:
        assert amounts(reader.values()) == [3]
    assert reader.positions.of({"table": "invoices"}) == {"incrementing": 2}
    assert reader.positions.of({"protocol": "1", "table": "invoices"}) == {"incrementing": 3}


@pytest.mark.parametrize("db", SERVERS[:1], indirect=True)
def test_offsets_with_the_name_of_the_database_are_taken_over(db: Db) -> None:
    invoices(db)
    add(db, 1)
    add(db, 2)
    named = {"protocol": "1", "table": f"{db.dialect.session.url.database}.public.invoices"}
    with reading(db, at=Positions([(named, {"incrementing": 1})]), mode="incrementing") as reader:
        assert amounts(reader.values()) == [2]
    assert reader.positions == Positions([(named, {"incrementing": 2})])


@of_all
def test_a_column_that_counts_up_is_found(db: Db) -> None:
    invoices(db)
    add(db, 1)
    with reading(db, mode="incrementing") as reader:
        assert amounts(reader.all()) == [1]
        assert reader.offset == {"incrementing": 1}


@of_all
def test_rows_of_one_time_stay_together(db: Db) -> None:
    invoices(db)
    same = db.ago(10)
    for amount in range(9):
        moment = db.ago(20) if amount == 0 else same
        db.run(f"INSERT INTO invoices (amount, updated) VALUES ({amount}, {moment})")
    with reading(db, mode="timestamp", timestamp_column_name="updated") as reader:
        assert amounts(reader.values(3)) == [0]
        assert sorted(amounts(reader.values(3))) == [*range(1, 9)]
        assert reader.all() == []


@of_all
def test_a_row_waits_until_no_other_can_have_its_time(db: Db) -> None:
    """The row of a whole second may be followed by another one, with a lower number."""
    coarse = db.sql(sqlite="TIMESTAMP", postgres="TIMESTAMP(0)", mariadb="DATETIME")
    now = db.sql(
        sqlite="datetime('now')",
        postgres="date_trunc('second', clock_timestamp())",
        mariadb="UTC_TIMESTAMP()",
    )
    db.run(f"CREATE TABLE t (id INT PRIMARY KEY, amount INT, updated {coarse} NOT NULL)")
    with reading(db, BOTH) as reader:
        seen: list[Any] = []
        for number in range(12, 0, -1):
            db.run(f"INSERT INTO t VALUES ({number}, {number}, {now})")
            seen += reader.values()
            time.sleep(0.1)  # The rows must be of several seconds.
        seen += reader.wait_for(lambda more: len(seen) + len(more) >= 12)
    assert sorted(amounts(seen)) == [*range(1, 13)]


@of_servers
@pytest.mark.parametrize("mode", ["incrementing", "timestamp+incrementing"])
def test_rows_that_are_committed_late_are_not_missed(db: Db, mode: str) -> None:
    invoices(db)
    settings = {**BOTH, "mode": mode}
    with db.connected() as slow, reading(db, settings) as reader:
        text = f"INSERT INTO invoices (amount, updated) VALUES (1, {db.ago(10)})"
        slow.cursor().execute(text)  # It has the number 1 and is not committed.
        add(db, 2, 5)
        assert reader.all() == []
        slow.commit()
        found = reader.wait_for(lambda found: len(found) == 2)
        assert amounts(found) == [1, 2]


@of_servers
def test_the_wait_for_transactions_can_be_turned_off(db: Db) -> None:
    invoices(db)
    settings = {"mode": "incrementing", "odradek_wait_for_transactions": "false"}
    with db.connected() as slow, reading(db, settings) as reader:
        text = f"INSERT INTO invoices (amount, updated) VALUES (1, {db.ago(10)})"
        slow.cursor().execute(text)
        add(db, 2)
        assert amounts(reader.all()) == [2]


@of_all
def test_bulk_reads_everything_each_time(db: Db) -> None:
    invoices(db)
    for amount in range(5):
        add(db, amount)
    with reading(db, mode="bulk", poll_interval_ms="3600000") as reader:
        assert amounts(reader.values(2)) == [0, 1]
        assert reader.offset["after"] == [2]
    with reading(db, at=reader.positions, mode="bulk", poll_interval_ms="3600000") as reader:
        assert amounts(reader.all()) == [2, 3, 4]
        assert set(reader.offset) == {"round"}
    again = {"mode": "bulk", "poll_interval_ms": "1"}
    with reading(db, settings=again, at=reader.positions) as reader:
        assert len(reader.wait_for(lambda found: len(found) >= 5)) == 5


def test_bulk_reads_a_table_without_a_key_in_one_piece(db: Db) -> None:
    db.run("CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ('x'), ('y'), (NULL)")
    with reading(db, mode="bulk", poll_interval_ms="3600000") as reader:
        assert reader.values(1) == [{"a": "x"}, {"a": "y"}, {"a": None}]
        assert reader.values(1) == []


@of_all
def test_a_query_is_read_with_what_it_selects(db: Db) -> None:
    invoices(db)
    db.run("CREATE TABLE names (id INT, name VARCHAR(20))", "INSERT INTO names VALUES (1, '5%')")
    add(db, 1)
    add(db, 2)
    query = (
        "SELECT i.id, i.amount * 2 AS doubled, n.name FROM invoices i"
        " JOIN names n ON n.id = i.id WHERE n.name LIKE '%\\%' OR 1 = 1;"
    )
    settings = {"query": query, "mode": "incrementing", "incrementing_column_name": "id"}
    with reading(db, settings) as reader:
        (record,) = reader.read()
        assert record.value == {"id": 1, "doubled": 2, "name": "5%"}
        assert record.topic == "p-"
        assert record.source_partition == {"query": "query"}
        assert record.value_schema is not None
        assert record.value_schema.name is None


@of_all
def test_tables_are_divided_among_tasks_and_found_again(db: Db) -> None:
    for name in ("a", "b", "c"):
        db.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    connector = db.source(mode="incrementing", incrementing_column_name="id")
    assert connector.replan_s == 60
    given = {"connector.class": "x", **db.properties}
    tasks = connector.task_properties(given, 2)
    assert [len(task["tables"].split(",")) for task in tasks] == [1, 2]
    assert all(task["connector.class"] == "x" for task in tasks)
    db.run("CREATE TABLE d (id INT PRIMARY KEY, n INT)", "INSERT INTO d VALUES (1, 5)")
    *_, last = connector.task_properties(given, 4)
    settings = {**last, "topic.prefix": "", "mode": "bulk"}
    with closing(JdbcSource(JdbcSourceSettings.read(settings)).task()) as task:
        assert Reader(task).values() == [{"id": 1, "n": 5}]


def test_no_tables_make_no_tasks(db: Db) -> None:
    db.run("CREATE TABLE a (id INT)")
    connector = db.source(mode="bulk", table_whitelist="b")
    assert connector.task_properties({}, 4) == []


@of_all
def test_tables_are_chosen_by_name_pattern_and_type(db: Db) -> None:
    for name in ("orders", "orders_old", "people"):
        db.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    db.run("CREATE VIEW many AS SELECT * FROM people")

    def chosen(**settings: str) -> list[str]:
        tasks = db.source(mode="bulk", **settings).task_properties({}, 10)
        return [db.dialect.parse_table(task["tables"]).name for task in tasks]

    assert chosen() == ["orders", "orders_old", "people"]
    assert chosen(table_whitelist="orders,people") == ["orders", "people"]
    assert chosen(table_blacklist="orders") == ["orders_old", "people"]
    assert chosen(table_include_list=r"(.*\.)?orders.*") == ["orders", "orders_old"]
    assert chosen(table_exclude_list=".*old") == ["orders", "people"]
    assert chosen(table_types="VIEW") == ["many"]


@pytest.mark.parametrize("db", SERVERS[:1], indirect=True)
def test_tables_of_one_name_need_topics_of_their_own(db: Db) -> None:
    for schema in ("s1", "s2"):
        db.run(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
        db.run(f"INSERT INTO {schema}.t VALUES (1)")
    with pytest.raises(DataError, match=r"would go to one topic.*odradek.topic.format"):
        db.source(mode="bulk").task_properties({}, 1)
    with reading(db, mode="bulk", odradek_topic_format="${prefix}${schema}.${table}") as reader:
        assert [record.topic for record in reader.read()] == ["p-s1.t", "p-s2.t"]
    with reading(db, mode="bulk", schema_pattern="%2") as reader:
        assert [record.topic for record in reader.read()] == ["p-t"]


def test_tables_may_have_modes_of_their_own(db: Db) -> None:
    db.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    db.run("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (2)")
    settings = {"mode": "incrementing", "incrementing_column_name": "id"}
    modes = {"odradek_table_modes": "b:bulk", "poll_interval_ms": "3600000"}
    with reading(db, {**settings, **modes}) as reader:
        assert reader.values() == [{"id": 1}, {"id": 2}]
        offsets = {partition["table"]: set(offset) for partition, offset in reader.positions}
        assert offsets == {"a": {"incrementing"}, "b": {"round"}}


@of_all
def test_columns_that_may_be_null_are_refused(db: Db) -> None:
    db.run("CREATE TABLE t (a INT PRIMARY KEY, id INT, updated TIMESTAMP NULL)")
    settings = {"mode": "incrementing", "incrementing_column_name": "id"}
    with pytest.raises(DataError, match=r"id of table .*t may be null"):
        db.source(**settings).task()
    reader = db.source(**settings, validate_non_null="false").task()
    reader.close()
    ((name, (reason,)),) = db.source(**settings).wrong_outside().items()
    assert name == "incrementing.column.name"
    assert "validate.non.null=false" in reason
    wrong = db.source(mode="timestamp", timestamp_column_name="none").wrong_outside()
    assert "has no column none" in wrong["timestamp.column.name"][0]


@of_all
def test_validation_asks_the_database(db: Db) -> None:
    db.run("CREATE TABLE invoices (id INT PRIMARY KEY)")
    assert db.source(mode="bulk", table_whitelist="invoices").wrong_outside() == {}
    wrong = db.source(mode="bulk", table_whitelist="invoice").wrong_outside()
    assert "there is no table invoice" in wrong["table.whitelist"][0]
    wrong = db.source(mode="bulk", query="SELECT * FROM nothing").wrong_outside()
    assert "nothing" in next(iter(wrong.values()))[0]


def test_a_file_that_is_not_there_is_not_made(db: Db) -> None:
    wrong = db.source(mode="bulk").wrong_outside()
    assert "there is no file" in wrong["connection.url"][0]


@of_servers
def test_a_server_that_does_not_answer_is_tried_again(db: Db) -> None:
    db.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with reading(db, mode="incrementing", incrementing_column_name="id") as reader:
        assert reader.values() == [{"id": 1}]
        kill = db.sql(
            sqlite="",
            postgres="SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
            " pid <> pg_backend_pid() AND datname = current_database()",
            mariadb="SELECT concat('KILL ', id) FROM information_schema.processlist WHERE"
            " db = database() AND id <> connection_id()",
        )
        found = db.rows(kill)
        if db.kind == "mariadb":
            db.run(*(statement for (statement,) in found))
        db.run("INSERT INTO t VALUES (2)")
        with pytest.raises(Unavailable):
            reader.read()
        assert reader.values() == [{"id": 2}]
    url = db.properties["connection.url"]
    nobody = {
        **db.properties,
        "connection.url": url.replace(f":{db.dialect.session.url.port}", ":22499"),
    }
    given = {**nobody, "topic.prefix": "", "mode": "bulk"}
    wrong = JdbcSource(JdbcSourceSettings.read(given)).wrong_outside()
    assert "22499" in wrong["connection.url"][0]


@pytest.mark.parametrize(
    ("settings", "name", "reason"),
    [
        ({"connection_url": "postgres://x"}, "connection.url", "begins with jdbc:sqlite:"),
        ({"connection_url": "jdbc:sqlit:x"}, "connection.url", "did you mean sqlite"),
        ({"connection_url": "jdbc:postgresql://h"}, "connection.url", "name the database"),
        ({"mode": "inkrementing"}, "mode", "must be one of bulk"),
        ({"mode": "timestamp"}, "timestamp.column.name", "needs the name"),
        ({"table_whitelist": "a", "table_blacklist": "b"}, "table.whitelist", "only one of"),
        ({"query": "SELECT 1", "table_whitelist": "a"}, "query", "may not be combined"),
        ({"db_timezone": "Mars"}, "db.timezone", "not a time zone"),
        ({"odradek_table_modes": "a:quick"}, "odradek.table.modes", "TABLE:MODE"),
        ({"table_types": "TABEL"}, "table.types", "none of TABLE"),
        ({"dialect_name": "OracleDatabaseDialect"}, "dialect.name", "must be one of"),
    ],
)
def test_settings_are_checked(settings: dict[str, str], name: str, reason: str) -> None:
    given = {"connection_url": "jdbc:sqlite:x", "mode": "bulk", "topic_prefix": "", **settings}
    dotted = {key.replace("_", "."): value for key, value in given.items()}
    problems = JdbcSourceSettings.validate(dotted)
    assert reason in problems[name][0]


def test_a_password_in_a_url_is_not_shown(db: Db) -> None:
    given = {"connection.url": "jdbc:postgresql://u:geheim@h", "mode": "bulk", "topic.prefix": ""}
    with pytest.raises(InvalidConfig) as caught:
        JdbcSourceSettings.read(given)
    assert "geheim" not in str(caught.value)


def test_offsets_that_a_user_sets_are_checked(db: Db) -> None:
    connector = db.source(mode="incrementing")
    partition = {"protocol": "1", "table": "t"}
    connector.check_offset(partition, {"incrementing": 5})
    connector.check_offset({"query": "query"}, None)
    wrong: list[tuple[dict[str, str], dict[str, object]]] = [
        ({"file": "t"}, {"incrementing": 5}),
        (partition, {"incrementing": "5"}),
        (partition, {"position": 5}),
    ]
    for wrong_partition, offset in wrong:
        with pytest.raises(DataError):
            connector.check_offset(wrong_partition, offset)
