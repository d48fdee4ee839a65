"""Settings, snapshot modes, signals and heartbeats of the connectors for MySQL and MariaDB."""

import json
from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from odradek.connect.connectors.mysql.connector import MariaDbConnector, MySqlConnector
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.positions import Positions
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.records import SourceRecord
from tests.database_servers import MariaDb
from tests.unit.connect.connectors.mysql.mysql_bench import Bench, event

pytestmark = pytest.mark.xdist_group("mariadb")

GIVEN = {"topic.prefix": "p", "database.hostname": "127.0.0.1", "database.user": "u"}


def _operations(records: list[SourceRecord], table: str) -> list[tuple[str | None, Any]]:
    return [(op, key) for name, op, key, _ in map(event, records) if name == table]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"time.precision.mode": "adaptive"}, "must be one of adaptive_time_microseconds"),
        ({"snapshot.mode": "custom"}, "must be one of"),
        ({"database.include.list": "a", "database.exclude.list": "b"}, "use one of them"),
        ({"table.include.list": "a.("}, "table.include.list"),
        ({"database.ssl.truststore": "/a/b.jks"}, "openssl pkcs12"),
        ({"gtid.source.includes": "x"}, "all transactions"),
        ({"binlog.buffer.size": "100"}, "no effect here"),
        ({"field.name.adjustment.mode": "latin"}, "avro_unicode"),
        ({"column.mask.hash.ROT-13.with.salt.x": "a"}, "ROT-13 is not a hash"),
        ({"column.mask.hash.SHA-256": "a"}, "such settings are column.truncate.to.N.chars"),
        ({"column.truncate.to.0.chars": "a"}, "such settings are"),
    ],
)
def test_settings_that_are_wrong_say_what_to_do(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        MySqlSettings.read({**GIVEN, **given})


def test_settings_without_effect_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    connector = MariaDbConnector(MySqlSettings.read(GIVEN))
    properties = {
        **GIVEN,
        "name": "c",
        "schema.history.internal.kafka.topic": "h",
        "snapshot.locking.mode": "minimal",
        "table.inclde.list": "x",
    }
    assert len(connector.task_properties(properties, 5)) == 1
    said = "\n".join(caplog.messages)
    assert "schema.history.internal.* has no effect" in said
    assert "snapshot.locking.mode has no effect" in said
    assert "table.include.list" in said


def test_offsets_that_cannot_be_read_are_refused() -> None:
    connector = MySqlConnector(MySqlSettings.read(GIVEN))
    connector.check_offset({"server": "p"}, {"file": "binlog.000001", "pos": 4})
    connector.check_offset({"server": "p"}, None)
    wrong: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"server": "q"}, {"file": "b.1", "pos": 4}, "partition"),
        ({"server": "p"}, {"pos": 4}, "no file"),
        ({"server": "p"}, {"file": "b.1", "pos": "x"}, "whole number"),
        ({"server": "p"}, {"file": "b.1", "pos": 4, "odradek_xa": "["}, "distributed"),
    ]
    for partition, offset, reason in wrong:
        with pytest.raises(DataError, match=reason):
            connector.check_offset(partition, offset)


def test_a_server_that_is_not_there_is_tried_again() -> None:
    settings = MySqlSettings.read({**GIVEN, "database.port": "1"})
    assert "127.0.0.1:1" in MySqlConnector(settings).wrong_outside()["database.hostname"][0]
    task = MySqlConnector(settings).task()
    with pytest.raises(Unavailable):
        task.reach(Positions(), 10)


def test_a_server_that_logs_too_little_says_what_to_type(
    bench: Callable[..., Bench], mariadb_server: MariaDb
) -> None:
    here = bench()
    here.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        with pytest.raises(DataError, match="run SET GLOBAL binlog_row_metadata='FULL'"):
            here.step()
    finally:
        here.run("SET GLOBAL binlog_row_metadata = 'FULL'")
    assert MariaDbConnector(here.settings).wrong_outside() == {}


def test_a_user_without_rights_is_told_which_ones(bench: Callable[..., Bench]) -> None:
    here = bench(database_user="nobody", database_password="wrong")
    with pytest.raises(DataError, match="REPLICATION SLAVE"):
        here.step()


def test_rows_without_all_columns_stop_the_task(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_mode="no_data")
    here.run("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
    here.step()
    here.run(
        "INSERT INTO t VALUES (1, 1, 1)",
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE t SET a = 2",
    )
    with pytest.raises(DataError, match="binlog_row_image"):
        here.until("t", 2)


def test_columns_are_masked_and_names_adjusted(bench: Callable[..., Bench]) -> None:
    here = bench(
        column_mask_with_4_chars=r".*\.t-1\.secret",
        column_truncate_to_3_chars=r".*\.t-1\.(long|id)",
        schema_name_adjustment_mode="avro",
        field_name_adjustment_mode="avro",
    )
    here.run(
        "CREATE TABLE `t-1` (id varchar(9) PRIMARY KEY, secret text, `long` blob, `a-b` int)",
        "INSERT INTO `t-1` VALUES ('first', 'x', 'abcdef', 1)",
    )
    found = here.until("t-1")
    here.run("INSERT INTO `t-1` VALUES ('second', NULL, NULL, 2)")
    found += here.until("t-1")
    found = [record for record in found if record.topic.endswith("t-1")]
    shown = [(record.key, record.value["after"]) for record in found]
    assert shown == [
        ({"id": "first"}, {"id": "fir", "secret": "****", "long": b"abc", "a_b": 1}),
        ({"id": "second"}, {"id": "sec", "secret": "****", "long": None, "a_b": 2}),
    ]
    record = found[0]
    assert record.topic == f"{here.prefix}.{here.database.name}.t-1"
    assert record.value_schema is not None
    assert record.value_schema.name == f"{here.prefix}.{here.database.name}.t_1.Envelope"
    row = next(one.schema for one in record.value_schema.fields if one.name == "after")
    parameters = {one.name: dict(one.schema.parameters) for one in row.fields}
    assert parameters["secret"] == {"masked": "true"}
    assert parameters["long"] == {"truncateLength": "3"}


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("initial", [("r", {"id": 1}), ("c", {"id": 2})]),
        ("no_data", [("c", {"id": 2})]),
        ("initial_only", [("r", {"id": 1})]),
        ("always", [("r", {"id": 1}), ("c", {"id": 2})]),
    ],
)
def test_snapshot_modes(bench: Callable[..., Bench], mode: str, wanted: list[Any]) -> None:
    here = bench(snapshot_mode=mode)
    here.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    found: list[SourceRecord] = []
    while here.offset is None or "snapshot" in here.offset:
        found += here.step() or ()
    here.run("INSERT INTO t VALUES (2)")
    if mode == "initial_only":
        assert here.step() is None
    else:
        found += here.until("t")
    assert _operations(found, "t") == wanted
    here.restart()
    if mode == "always":
        again = here.until("t", 2)
        assert _operations(again, "t") == [("r", {"id": 1}), ("r", {"id": 2})]
    else:
        assert here.step() is None


def test_tables_and_columns_are_selected(bench: Callable[..., Bench]) -> None:
    here = bench()
    name = here.database.name
    here.close()
    here = bench(
        database_include_list=name,
        table_include_list=f"{name}\\.(a|keyless)",
        column_exclude_list=f"{name}.a.secret",
        message_key_columns=f"{name}.keyless:k",
    )
    here.run(
        f"CREATE TABLE {name}.a (id int PRIMARY KEY, secret int, shown int)",
        f"CREATE TABLE {name}.other (id int PRIMARY KEY)",
        f"CREATE TABLE {name}.keyless (k int, v int)",
        f"INSERT INTO {name}.a VALUES (1, 2, 3)",
        f"INSERT INTO {name}.other VALUES (1)",
        f"INSERT INTO {name}.keyless VALUES (5, 6)",
    )
    found = here.drain(lambda _: "snapshot" not in (here.offset or {"snapshot": 1}))
    rows = {event(record)[0]: event(record) for record in found if record.key}
    assert rows["a"][3] == {"id": 1, "shown": 3}
    assert rows["keyless"][2] == {"k": 5}
    assert "other" not in rows


def test_types_that_debezium_does_not_know_are_written(bench: Callable[..., Bench]) -> None:
    here = bench()
    values = "(1, '::1', '10.0.0.1', '123e4567-e89b-12d3-a456-426614174000', 'x', 0)"
    here.run(
        "CREATE TABLE t (id int PRIMARY KEY, six inet6, four inet4, ident uuid,"
        " packed varchar(3000) COMPRESSED, y year)",
        f"INSERT INTO t VALUES {values}",
    )
    (read,) = (event(record)[3] for record in here.until("t") if record.topic.endswith(".t"))
    here.run("DELETE FROM t", f"INSERT INTO t VALUES {values}")
    created = event(here.until("t", 3)[-1])[3]
    assert read == created
    assert read["six"] == "::1"
    assert read["four"] == "10.0.0.1"
    assert read["ident"] == "123e4567-e89b-12d3-a456-426614174000"
    assert read["packed"] == "x"


def test_a_signal_reads_a_table_again(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_mode="no_data")
    name = here.database.name
    here.close()
    here = bench(
        snapshot_mode="no_data",
        database_include_list=name,
        signal_data_collection=f"{name}.signals",
        incremental_snapshot_chunk_size="2",
    )
    here.run(
        f"USE {name}",
        "CREATE TABLE signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))",
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2), (3), (4), (5)",
    )
    here.step()
    data = json.dumps(
        {
            "data-collections": [f"{name}.t"],
            "additional-conditions": [{"data-collection": f"{name}.t", "filter": "id < 5"}],
        }
    )
    here.run(f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{data}')")
    found = here.drain(lambda found: sum(event(record)[1] == "r" for record in found) == 4)
    assert [key["id"] for op, key in _operations(found, "t") if op == "r"] == [1, 2, 3, 4]
    last = next(record for record in reversed(found) if event(record)[1] == "r")
    assert last.value["source"]["snapshot"] == "incremental"


def test_a_heartbeat_moves_the_position(bench: Callable[..., Bench]) -> None:
    here = bench(
        snapshot_mode="no_data",
        heartbeat_interval_ms="1",
        table_include_list="none.none",
        heartbeat_action_query="SELECT 1",
    )
    here.run("CREATE TABLE t (id int PRIMARY KEY)")
    here.step()
    before = here.offset or {}
    here.run("INSERT INTO t VALUES (1)")
    found = here.drain(lambda _: (here.offset or {})["pos"] > before["pos"])
    assert {record.topic for record in found} == {f"__debezium-heartbeat.{here.prefix}"}
    assert found[0].key == {"serverName": here.prefix}


def test_a_compressed_log_is_read(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_mode="no_data", include_query="true")
    here.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    here.step()
    here.run("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    try:
        with here.connect() as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1, REPEAT('x', 500))")
            cursor.execute("UPDATE t SET v = REPEAT('y', 500)")
            cursor.execute("DELETE FROM t")
        found = here.until("t", 4)
    finally:
        here.run("SET GLOBAL log_bin_compress = OFF")
    assert [op for op, _ in _operations(found, "t")] == ["c", "u", "d", None]
    assert found[0].value["source"]["query"] == "INSERT INTO t VALUES (1, REPEAT('x', 500))"


def test_an_encrypted_connection_is_used_if_it_is_asked_for(bench: Callable[..., Bench]) -> None:
    here = bench(database_ssl_mode="required")
    with pytest.raises(Unavailable, match="SSL"):  # This server has no certificate.
        here.step()
    assert isinstance(here.connection, pymysql.Connection)
