"""The formats of binary logs: bytes to values, without a server."""

import struct
import zlib
from decimal import Decimal
from typing import Any

import cramjam
import pytest

from odradek.connect.connectors.mysql.column_types import Modes, column_values
from odradek.connect.connectors.mysql.columns import Column, described_column, key_of
from odradek.connect.connectors.mysql.decimals import decimal_reader
from odradek.connect.connectors.mysql.events import (
    Event,
    EventType,
    length_encoded,
    parse_event,
    parse_mysql_gtid,
    parse_query,
    payload_events,
)
from odradek.connect.connectors.mysql.gtids import (
    gtid_set_bytes,
    with_mariadb_gtid,
    with_mysql_gtid,
)
from odradek.connect.connectors.mysql.json_values import json_text
from odradek.connect.connectors.mysql.row_values import column_reader, rows_reader
from odradek.connect.connectors.mysql.statements import (
    Definition,
    TableName,
    definition_of,
    plain,
    xa_statement,
)
from odradek.connect.connectors.mysql.table_maps import ColumnType, StoredColumn, parse_table_map
from odradek.connect.errors import DataError

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def _event(kind: int, body: bytes, position: int = 100) -> bytes:
    size = 19 + len(body)
    return struct.pack("<IBIIIH", 7, kind, 1, size, position + size, 0) + body


def test_an_event_says_where_it_is() -> None:
    event = parse_event(_event(EventType.XID, b"12345678"), has_checksum=False)
    assert (event.type, event.timestamp_s, event.server_id) == (EventType.XID, 7, 1)
    assert (event.position, event.next_position, event.body) == (100, 127, b"12345678")


def test_a_damaged_event_is_noticed() -> None:
    data = struct.pack("<IBIIIH", 7, EventType.XID, 1, 31, 131, 0) + b"12345678"
    whole = data + zlib.crc32(data).to_bytes(4, "little")
    assert parse_event(whole, has_checksum=True).body == b"12345678"
    with pytest.raises(DataError, match="mysqlbinlog --verify-binlog-checksum"):
        parse_event(whole[:-1] + bytes([whole[-1] ^ 1]), has_checksum=True)
    with pytest.raises(DataError, match="bytes"):
        parse_event(whole[:-1], has_checksum=True)


def test_events_inside_a_compressed_transaction_have_its_position() -> None:
    inner = _event(EventType.XID, b"12345678", 0) + _event(EventType.XID, b"abcdefgh", 0)
    packed = bytes(cramjam.zstd.compress(inner))
    body = bytes([2, 1, 0, 1, 1, len(packed), 3, 1, len(inner), 0]) + packed
    around = parse_event(_event(EventType.TRANSACTION_PAYLOAD, body), has_checksum=False)
    found = list(payload_events(around))
    assert [event.body for event in found] == [b"12345678", b"abcdefgh"]
    assert {event.position for event in found} == {100}


def test_a_query_has_a_database_and_a_character_set() -> None:
    status = b"\x00" + b"\0" * 4 + b"\x01" + b"\0" * 8 + b"\x04" + b"\x08\0" * 3
    text = "ALTER TABLE t COMMENT 'é'".encode("cp1252")
    body = struct.pack("<IIBHH", 9, 0, 4, 0, len(status)) + status + b"shop\0" + text
    query = parse_query(Event(EventType.QUERY, 0, 0, 0, 0, 0, body), {8: "cp1252"})
    assert (query.thread_id, query.database) == (9, "shop")
    assert query.sql.endswith("'é'")


@pytest.mark.parametrize(
    ("data", "wanted"), [(b"\xfa", 250), (b"\xfc\x00\x01", 256), (b"\xfd\x01\0\0", 1)]
)
def test_lengths_have_several_sizes(data: bytes, wanted: int) -> None:
    assert length_encoded(data, 0) == (wanted, len(data))


@pytest.mark.parametrize(
    ("precision", "scale", "data", "wanted"),
    [
        (4, 2, "8c5a", "12.90"),
        (4, 2, "73a5", "-12.90"),
        (14, 4, "810dfb38d204d2", "1234567890.1234"),
        (14, 4, "7ef204c72dfb2d", "-1234567890.1234"),
        (3, 0, "8000", "0"),
        (10, 10, "8000000001", "1E-10"),
    ],
)
def test_decimals_are_groups_of_nine_digits(
    precision: int, scale: int, data: str, wanted: str
) -> None:
    found, end = decimal_reader(precision, scale)(bytes.fromhex(data), 0)
    assert found == Decimal(wanted)
    assert found.as_tuple().exponent == -scale
    assert end == len(data) // 2


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("0001000c000b0001000501 0061", '{"a":1}'),
        ("02 0100 0700 02 0000", None),
        ("0402", "false"),
        ("0400", "null"),
        ("05ffff", "-1"),
        ("0a0000000000000080", "9223372036854775808"),
        ("0b000000000000f83f", "1.5"),
        ("0c0361c3bc", '"aü"'),
        ("0ff6060402 8c5a 0000", "12.90"),
        ("02 0000 0400", "[]"),
        ("02 0200 0d00 0401 00 0c0a00 02 6869", '[true,"hi"]'),
    ],
)
def test_json_of_mysql_is_text(data: str, wanted: str | None) -> None:
    raw = bytes.fromhex(data.replace(" ", ""))
    if wanted is None:
        with pytest.raises(DataError, match="damaged"):
            json_text(raw)
    else:
        assert json_text(raw) == wanted


def test_times_of_older_servers_are_read() -> None:
    def read(kind: ColumnType, data: bytes) -> Any:
        return column_reader(StoredColumn("c", kind, True), {})(data, 0)[0]

    assert read(ColumnType.DATETIME, (20260102030405).to_bytes(8, "little")) == (
        2026, 1, 2, 3, 4, 5, 0,
    )  # fmt: skip
    assert read(ColumnType.TIME, (123456).to_bytes(3, "little")) == 45_296_000_000
    assert read(ColumnType.TIMESTAMP, (1).to_bytes(4, "little")) == 1_000_000


def test_nulls_are_in_a_bitmap() -> None:
    columns = [StoredColumn(f"c{number}", ColumnType.TINY, True) for number in range(9)]
    row, end = rows_reader(columns, {})(b"\xfe\x00\x05\x07", 0)
    assert row == [5, *[None] * 7, 7]
    assert end == 4


def test_a_table_map_without_names_says_what_to_type() -> None:
    body = b"\0" * 8 + b"\x02db\0" + b"\x01t\0" + b"\x01\x03" + b"\x00" + b"\x00"
    with pytest.raises(DataError, match="SET GLOBAL binlog_row_metadata=FULL"):
        parse_table_map(body, {})


def test_a_character_set_that_is_not_known_names_the_column() -> None:
    column = StoredColumn("strange", ColumnType.VARCHAR, True, 10, collation=999)
    with pytest.raises(DataError, match="strange"):
        column_reader(column, {})


def test_numbers_of_transactions_are_joined() -> None:
    assert with_mariadb_gtid("", "0-1-5") == "0-1-5"
    assert with_mariadb_gtid("0-1-5,2-1-1", "0-2-6") == "0-2-6,2-1-1"
    assert with_mysql_gtid("", SOURCE, 5) == f"{SOURCE}:5"
    assert with_mysql_gtid(f"{SOURCE}:1-4", SOURCE, 5) == f"{SOURCE}:1-5"
    assert with_mysql_gtid(f"{SOURCE}:1-4", SOURCE, 7) == f"{SOURCE}:1-4:7"
    assert with_mysql_gtid(f"{SOURCE}:1-4:6-7", SOURCE, 5) == f"{SOURCE}:1-7"
    data = gtid_set_bytes(f"{SOURCE}:1-4:7")
    assert len(data) == 8 + 16 + 8 + 2 * 16
    assert data[32:] == struct.pack("<QQQQ", 1, 5, 7, 8)
    body = b"\x01" + bytes.fromhex(SOURCE.replace("-", "")) + struct.pack("<Q", 23)
    assert parse_mysql_gtid(body).text == f"{SOURCE}:23"
    with pytest.raises(DataError, match="cannot be read"):
        gtid_set_bytes("x:y")


@pytest.mark.parametrize(
    ("sql", "kind", "tables"),
    [
        ("CREATE TABLE t (id int)", "CREATE", ["db.t"]),
        ("CREATE TABLE `a``b` (\n id int)", "CREATE", ["db.a`b"]),
        ("create or replace table if not exists other.t as select 1", "CREATE", ["other.t"]),
        ("ALTER TABLE `x` . `y` ADD COLUMN c int", "ALTER", ["x.y"]),
        ("ALTER TABLE t RENAME TO u", "ALTER", ["db.u"]),
        ("ALTER TABLE t RENAME COLUMN a TO b", "ALTER", ["db.t"]),
        ("DROP TABLE IF EXISTS a, `b`.c /* generated by server */", "DROP", ["db.a", "b.c"]),
        ("RENAME TABLE a TO b, c TO d.e", "ALTER", ["db.b", "d.e"]),
        ("TRUNCATE t", "TRUNCATE", ["db.t"]),
        ("TRUNCATE TABLE x.t", "TRUNCATE", ["x.t"]),
        ("/* why */ CREATE UNIQUE INDEX i ON t (a)", "ALTER", ["db.t"]),
        ("/*!40000 ALTER TABLE t DISABLE KEYS */", "ALTER", ["db.t"]),
        ("DROP DATABASE IF EXISTS x", "DROP", []),
        ("CREATE TEMPORARY TABLE t (id int)", None, []),
        ("GRANT SELECT ON t TO x", None, []),
        ("CREATE VIEW v AS SELECT 1", None, []),
    ],
)
def test_statements_about_tables_are_found(sql: str, kind: str | None, tables: list[str]) -> None:
    found = definition_of(plain(sql), "db")
    assert (found.kind if found else None) == kind
    names = found.tables if found else ()
    assert [f"{name.database}.{name.table}" for name in names] == tables
    assert definition_of("ALTER TABLE t ADD a int", "d") == Definition(
        "ALTER", (TableName("d", "t"),)
    )


def test_statements_of_distributed_transactions_are_found() -> None:
    assert xa_statement("XA COMMIT X'61', X'62',7 ONE PHASE") == ("COMMIT", "X'61',X'62',7")
    assert xa_statement("xa start X'61',X'',1") == ("START", "X'61',X'',1")
    assert xa_statement("COMMIT") is None


@pytest.mark.parametrize(
    ("default", "extra", "is_mariadb", "wanted"),
    [
        ("'it''s'", "", True, "it's"),
        ("'a\\\\b'", "", True, "a\\b"),
        ("NULL", "", True, None),
        ("5", "", True, "5"),
        ("uuid()", "", True, None),
        ("current_timestamp(6)", "", True, "CURRENT_TIMESTAMP"),
        ("b'101'", "", True, "101"),
        ("it's", "", False, "it's"),
        ("CURRENT_TIMESTAMP", "DEFAULT_GENERATED", False, "CURRENT_TIMESTAMP"),
        ("uuid()", "DEFAULT_GENERATED", False, None),
    ],
)
def test_defaults_are_read_as_each_server_writes_them(
    default: str, extra: str, is_mariadb: bool, wanted: str | None
) -> None:
    row = ["c", "varchar", "varchar(9)", "YES", default, extra, 9, None, None, None, "utf8mb4", ""]
    assert described_column(row, is_mariadb=is_mariadb).default == wanted


def test_the_key_of_a_table_has_no_nulls() -> None:
    rows = [("u", "a", "YES"), ("v", "b", ""), ("v", "c", "")]
    assert key_of(rows) == ("b", "c")
    assert key_of([("PRIMARY", "id", ""), *rows]) == ("id",)
    assert key_of(rows[:1]) == ()


def test_times_are_written_as_asked() -> None:
    def converted(kind: str, value: Any, times: str, length: int = 6) -> Any:
        modes = Modes("precise", times, "bytes", "long")
        found = column_values(Column("c", kind, True, length=length), modes)
        assert found.convert is not None
        return found.convert(value)

    moment = (2026, 1, 2, 3, 4, 5, 600_000)
    assert converted("datetime", moment, "nanoseconds") == 1_767_323_045_600_000_000
    assert converted("datetime", moment, "microseconds", 0) == 1_767_323_045_600_000
    assert converted("datetime", moment, "isostring") == "2026-01-02T03:04:05.6Z"
    assert converted("date", (2026, 1, 2), "isostring") == "2026-01-02Z"
    assert converted("date", (2026, 0, 0), "isostring") is None
    with pytest.raises(DataError, match="1677 to 2262"):
        converted("datetime", (9999, 12, 31, 0, 0, 0, 0), "nanoseconds")
