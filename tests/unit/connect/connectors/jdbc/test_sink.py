"""The JDBC sink: modes, keys, tables that are made and changed, records that fail, lost servers."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from odradek.connect.connectors.connector import FailedRecord
from odradek.connect.connectors.jdbc.names import TableId
from odradek.connect.connectors.jdbc.settings import JdbcSinkSettings
from odradek.connect.connectors.jdbc.sink import JdbcSinkTask
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError, Unavailable
from odradek.connect.records import SinkRecord
from tests.unit.connect.connectors.jdbc.databases import KINDS, SERVERS, Db, opened

KEY = schemas.struct(Field("id", schemas.INT64))
VALUE = schemas.struct(
    Field("name", schemas.STRING.optional()), Field("amount", schemas.INT32.optional())
)
UPSERT = {
    "insert_mode": "upsert",
    "pk_mode": "record_key",
    "auto_create": "true",
    "delete_enabled": "true",
}


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Iterator[Db]:
    yield from opened(request)


of_all = pytest.mark.parametrize("db", KINDS, indirect=True)


@contextmanager
def writing(db: Db, **settings: str) -> Iterator[JdbcSinkTask]:
    with closing(db.sink(**settings)) as task:
        yield task


def record(number: int, topic: str = "t", schema: Schema = VALUE, **value: Any) -> SinkRecord:
    return SinkRecord(
        topic,
        {"id": number},
        value or None,
        KEY,
        schema if value else None,
        partition=0,
        offset=number,
        original_topic=topic,
    )


def written(task: JdbcSinkTask, records: Sequence[SinkRecord]) -> None:
    assert not task.write(records)


def rows(db: Db, columns: str = "id, name, amount", table: str = "t") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in db.rows(f"SELECT {columns} FROM {table} ORDER BY 1")]


@of_all
@pytest.mark.parametrize("count", [1, 50])
def test_upserts_and_deletions_leave_the_last_of_each_key(db: Db, count: int) -> None:
    changes = [record(1, name="a", amount=1), record(2, name="b"), record(1, name="c", amount=3)]
    more = [record(100 + number, name="x") for number in range(count)]
    with writing(db, **UPSERT) as task:
        written(task, [*changes, *more])
        assert rows(db)[:2] == [(1, "c", 3), (2, "b", None)]
        written(task, [record(2), *(record(100 + number) for number in range(count))])
        written(task, [record(2), record(2, name="again"), record(1)])
        written(task, [*changes, *more])  # After a failure records come again.
    assert rows(db)[:2] == [(1, "c", 3), (2, "b", None)]
    assert len(rows(db)) == 2 + count


@of_all
def test_the_coordinates_of_records_make_inserts_repeatable(db: Db) -> None:
    settings = {"pk_mode": "kafka", "auto_create": "true"}
    records = [record(number, name=str(number)) for number in range(30)]
    with writing(db, **settings) as task:
        written(task, records)
        written(task, records)
        written(task, records[:3])
    columns = "__connect_offset, __connect_topic, __connect_partition, name"
    assert rows(db, columns) == [(number, "t", 0, str(number)) for number in range(30)]


@of_all
@pytest.mark.parametrize("mode", ["insert", "multi"])
def test_plain_inserts_and_updates(db: Db, mode: str) -> None:
    settings = {"pk_mode": "record_key", "auto_create": "true"}
    with writing(db, insert_mode=mode, **settings) as task:
        written(task, [record(number, name="a", amount=number) for number in range(30)])
        (failed,) = task.write([record(30, name="b", amount=0), record(5, name="b")])
        assert failed.record.offset == 5
        assert "refuses the row" in str(failed.error)
    with writing(db, insert_mode="update", pk_mode="record_key") as task:
        written(task, [record(3, name="changed", amount=1), record(77, name="none", amount=0)])
    found = rows(db)
    assert len(found) == 31
    assert found[3] == (3, "changed", 1)


@of_all
@pytest.mark.parametrize("count", [3, 60])
def test_bad_records_are_found_and_the_others_are_written(db: Db, count: int) -> None:
    check = "amount INT CHECK (amount >= 0)"
    db.run(f"CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(10) NOT NULL, {check})")
    records = [record(number, name="x", amount=number) for number in range(count)]
    records[1] = record(1, name="x", amount=-1)
    records[-1] = record(count - 1, amount=1)
    with writing(db, insert_mode="upsert", pk_mode="record_key") as task:
        failed = task.write(records)
    assert [one.record for one in failed] == [records[1], records[-1]]
    assert len(rows(db)) == count - 2


@of_all
def test_tables_get_columns_that_are_missing(db: Db) -> None:
    with writing(db, auto_evolve="true", **UPSERT) as task:
        written(task, [record(1, name="a", amount=1)])
        field = Field("more", Schema(schemas.Type.INT32, default=7))
        wider = VALUE.with_fields((*VALUE.fields, field, Field("x", schemas.OPTIONAL_STRING)))
        written(task, [record(2, schema=wider, name="b", more=5, x="y")])
        written(task, [record(3, name="old")])
        assert rows(db, "id, more, x") == [(1, 7, None), (2, 5, "y"), (3, 7, None)]
        required = VALUE.with_fields((*VALUE.fields, Field("must", schemas.STRING)))
        with pytest.raises(DataError, match="not optional and has no default"):
            task.write([record(4, schema=required, name="b", must="be")])
    with writing(db, **UPSERT) as task, pytest.raises(DataError, match=r"auto\.evolve=true"):
        task.write([record(4, schema=required, name="b", must="be")])


@pytest.mark.parametrize("db", SERVERS, indirect=True)
def test_a_table_that_another_task_makes_undoes_no_row(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find that there is no table. The one that is late looks again, and goes on."""
    with writing(db, **UPSERT) as late, writing(db, **UPSERT) as other:
        written(late, [record(0, name="a")])
        look = late._dialect.table_columns

        def looked(connection: Any, table: TableId) -> Any:
            found = look(connection, table)
            if found is None:
                written(other, [record(10, topic="new", name="other")])
            return found

        monkeypatch.setattr(late._dialect, "table_columns", looked)
        written(late, [record(1, name="b"), record(11, topic="new", name="late")])
    assert rows(db, "id, name") == [(0, "a"), (1, "b")]
    assert rows(db, "id, name", "new") == [(10, "other"), (11, "late")]


@pytest.mark.parametrize("db", KINDS[2:], indirect=True)
def test_a_server_that_cuts_values_off_refuses_them_here(db: Db) -> None:
    (mode,) = db.rows("SELECT @@GLOBAL.sql_mode")[0]
    db.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(5), amount INT)")
    db.run("SET GLOBAL sql_mode = ''")
    try:
        with writing(db, **UPSERT) as task:
            assert len(task.write([record(1, name="too long"), record(2, name="b")])) == 1
    finally:
        db.run(f"SET GLOBAL sql_mode = '{mode}'")
    assert rows(db, "id, name") == [(2, "b")]


@of_all
@pytest.mark.parametrize("count", [1, 50])
def test_a_row_that_another_unique_column_refuses_is_not_passed_over(db: Db, count: int) -> None:
    with writing(db, auto_create="true", pk_mode="kafka") as task:
        written(task, [record(0, name="a", amount=1)])
        db.run("CREATE UNIQUE INDEX once ON t (amount)")
        more = [record(number, name="b", amount=number) for number in range(1, count + 1)]
        assert [failed.record.offset for failed in task.write(more)] == [1]
        written(task, [record(0, name="a", amount=1)])  # It comes again after a failure.
    assert len(rows(db, "amount")) == count


@of_all
def test_a_table_that_is_missing_says_what_to_do(db: Db) -> None:
    with writing(db) as task:
        with pytest.raises(DataError, match=r"table t does not exist.*auto\.create=true"):
            task.write([record(1, name="a")])
        db.run("CREATE TABLE t (NAME VARCHAR(5), amount INT)")
        written(task, [record(1, name="a")])  # Somebody has made it; names differ in case only.
    assert rows(db, "name, amount") == [("a", None)]


def failures(task: JdbcSinkTask, *records: SinkRecord) -> list[str]:
    failed: Sequence[FailedRecord] = task.write(records)
    assert [one.record for one in failed] == [*records]
    return [str(one.error) for one in failed]


def test_records_that_make_no_row_say_why(db: Db) -> None:
    with writing(db, auto_create="true") as task:
        (reason,) = failures(task, SinkRecord("t", value={"name": "a"}))
        assert "value.converter" in reason
        assert "schemas.enable=true" in reason
        (reason,) = failures(task, SinkRecord("t", value="a", value_schema=schemas.STRING))
        assert "HoistField" in reason
        (reason,) = failures(task, record(1))
        assert "delete.enabled=true" in reason
        nested = schemas.struct(Field("a", schemas.map_of(schemas.STRING, schemas.STRING)))
        (reason,) = failures(task, record(1, schema=nested, a={}))
        assert "Flatten" in reason
    with writing(db, **UPSERT) as task:
        (reason,) = failures(task, SinkRecord("t", value={"name": "a"}, value_schema=VALUE))
        assert "no key" in reason
        schemaless = SinkRecord("t", key={"id": 1}, value={"name": "a"}, value_schema=VALUE)
        assert "key.converter" in failures(task, schemaless)[0]


@of_all
def test_keys_come_from_where_the_setting_says(db: Db) -> None:
    plain = SinkRecord("p", "k1", {"name": "a"}, schemas.STRING, VALUE)
    with writing(db, **{**UPSERT, "pk_fields": "code"}) as task:
        written(task, [plain])
        assert rows(db, "code, name", "p") == [("k1", "a")]
        written(task, [SinkRecord("p", "k1", None, schemas.STRING)])
        assert rows(db, "code", "p") == []
    settings = {"insert_mode": "upsert", "pk_mode": "record_value", "auto_create": "true"}
    value = schemas.struct(Field("name", schemas.STRING), Field("amount", schemas.INT32))
    with writing(db, **settings, pk_fields="name", fields_whitelist="amount") as task:
        written(task, [record(1, "v", value, name="a", amount=1)])
        written(task, [record(2, "v", value, name="a", amount=2)])
        assert rows(db, "name, amount", "v") == [("a", 2)]


@of_all
def test_topics_go_to_their_tables(db: Db) -> None:
    settings = {"auto_create": "true", "topics_to_tables_mapping": "x:mapped"}
    names = {"table_name_format": "of-${topic}", "table_name_normalize": "true"}
    with writing(db, **settings, **names) as task:
        written(task, [record(1, "a.b-c", name="1"), record(1, "x", name="2")])
    assert rows(db, "name", "of_a_b_c") == [("1",)]
    assert rows(db, "name", "mapped") == [("2",)]


@pytest.mark.parametrize("db", SERVERS[:1], indirect=True)
def test_names_with_a_schema(db: Db) -> None:
    db.run("CREATE SCHEMA shop")
    with writing(db, **UPSERT, table_name_format="shop.${topic}") as task:
        written(task, [record(1, "Orders", name="1")])
        assert rows(db, "name", 'shop."Orders"') == [("1",)]
    with writing(db, **UPSERT) as task:
        written(task, [record(1, "shop.orders", name="2")])
        assert rows(db, "name", "shop.orders") == [("2",)]
        with pytest.raises(DataError, match=r"table\.name\.format"):
            task.write([record(1, "server.shop.orders", name="2")])


@pytest.mark.parametrize("db", SERVERS[:1], indirect=True)
def test_columns_of_types_of_its_own_take_text(db: Db) -> None:
    db.run("CREATE TABLE t (u UUID PRIMARY KEY, j JSONB, tags TEXT[], at TIMESTAMPTZ)")
    schema = schemas.struct(
        Field("u", schemas.STRING),
        Field("j", schemas.STRING),
        Field("tags", schemas.array(schemas.STRING)),
    )
    code = "6ecd8c99-4036-403d-bf84-cf8400f67836"
    value: dict[str, Any] = {"u": code, "j": '{"a": 1}', "tags": ["x", "y"]}
    settings = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "u"}
    for count in (1, 25):
        with writing(db, **settings) as task:
            written(task, [record(1, schema=schema, **value)] * count)
        assert rows(db, "u::text, j->>'a', tags") == [(code, "1", ["x", "y"])]


@pytest.mark.parametrize("db", SERVERS, indirect=True)
def test_a_lost_connection_is_tried_again(db: Db) -> None:
    with writing(db, retry_backoff_ms="1", max_retries="1", **UPSERT) as task:
        written(task, [record(1, name="a")])
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
        with pytest.raises(Unavailable):
            task.write([record(2, name="b")])
        written(task, [record(2, name="b")])
    assert len(rows(db)) == 2
    url = db.properties["connection.url"].replace(f":{db.dialect.session.url.port}", ":22499")
    with writing(db, connection_url=url, retry_backoff_ms="1", max_retries="1") as task:
        with pytest.raises(Unavailable):
            task.write([record(1, name="a")])
        with pytest.raises(DataError, match=r"max\.retries"):
            task.write([record(1, name="a")])


def test_a_database_that_is_locked_is_tried_again(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.connect.connectors.jdbc.sqlite._BUSY_TIMEOUT_S", 0.01)
    with writing(db, retry_backoff_ms="1", **UPSERT) as task:
        written(task, [record(1, name="a")])
        with db.connected() as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="locked"):
                task.write([record(2, name="b")])
            other.rollback()
        written(task, [record(2, name="b")])


@pytest.mark.parametrize(
    ("settings", "name", "reason"),
    [
        ({"delete_enabled": "true"}, "delete.enabled", "pk.mode=record_key"),
        ({"insert_mode": "upsert"}, "pk.mode", "needs a primary key"),
        ({"insert_mode": "merge"}, "insert.mode", "must be one of insert"),
        ({"pk_mode": "kafka", "pk_fields": "a"}, "pk.fields", "three names"),
        ({"topics_to_tables_mapping": "a"}, "topics.to.tables.mapping", "TOPIC:TABLE"),
    ],
)
def test_settings_are_checked(settings: dict[str, str], name: str, reason: str) -> None:
    given = {"connection.url": "jdbc:sqlite:x"}
    given |= {key.replace("_", "."): value for key, value in settings.items()}
    assert reason in JdbcSinkSettings.validate(given)[name][0]
