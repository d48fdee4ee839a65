"""Where a task goes on: each change once, wherever it was stopped, in snapshots and streams."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from odradek.connect.connectors.positions import Positions
from odradek.connect.errors import ConnectError, DataError, Unavailable
from odradek.connect.records import SourceRecord
from tests.database_servers import MariaDb
from tests.unit.connect.connectors.mysql.mysql_bench import Bench, event

pytestmark = pytest.mark.xdist_group("mariadb")

CHANGES = (
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "UPDATE t SET v = CONCAT(v, '!')",
    "XA START 'x', 'y', 7",
    "INSERT INTO t VALUES (3, 'xa')",
    "XA END 'x', 'y', 7",
    "XA PREPARE 'x', 'y', 7",
    "XA COMMIT 'x', 'y', 7",
    "XA START 'gone'",
    "INSERT INTO t VALUES (4, 'gone')",
    "XA END 'gone'",
    "XA PREPARE 'gone'",
    "XA ROLLBACK 'gone'",
    "XA START 'one'",
    "INSERT INTO t VALUES (5, 'one phase')",
    "XA END 'one'",
    "XA COMMIT 'one' ONE PHASE",
    "BEGIN",
    "INSERT INTO t VALUES (6, 'gone')",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO t SELECT seq, 'many' FROM seq_100_to_600",
    "UPDATE t SET id = -id WHERE id < 3",
    "DELETE FROM t WHERE id BETWEEN 110 AND 120",
    "COMMIT",
    "CREATE TABLE other AS SELECT * FROM t WHERE id < 0",
    "ALTER TABLE t ADD COLUMN n int DEFAULT 9 FIRST",
    "INSERT INTO t (id, v) VALUES (2000, 'last')",
)


def _is_last(found: list[SourceRecord]) -> bool:
    return any(record.key == {"id": 2000} for record in found)


def test_a_task_goes_on_wherever_it_was_stopped(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_mode="no_data", max_batch_size="5000")
    here.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    here.step()
    first = here.positions
    here.run(*CHANGES)
    wanted = [event(record) for record in here.drain(_is_last)]
    keys = [key["id"] for table, op, key, _ in wanted if table == "t" and op in {"c", "u", "d"}]
    assert keys[:6] == [1, 2, 1, 2, 3, 5]
    assert ("t", "c", {"id": 2000}, {"n": 9, "id": 2000, "v": "last"}) in wanted
    for seed in range(2):
        chance = random.Random(seed)
        here.positions = first
        here.restart()
        found: list[Any] = []
        while len(found) < len(wanted):
            found += map(event, here.step(chance.choice((5, 40, 3000))) or ())
            if chance.random() < 0.5:
                here.restart()
        assert found == wanted, seed


def test_a_range_that_was_not_stored_is_read_again(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_mode="no_data")
    here.run("CREATE TABLE t (id int PRIMARY KEY)")
    here.step()
    here.run("INSERT INTO t VALUES (1)")
    end = here.task.reach(here.positions, 100)
    while end == here.positions:
        end = here.task.reach(here.positions, 100)
    first = [event(record) for record in here.task.read(here.positions, end)]
    assert [event(record) for record in here.task.read(here.positions, end)] == first
    assert here.task.reach(here.positions, 100) == end
    here.restart()
    with pytest.raises(DataError, match="start the task again"):
        list(here.task.read(here.positions, end))
    assert [event(record) for record in here.until("t")] == first


def test_changes_come_while_a_snapshot_is_read(bench: Callable[..., Bench]) -> None:
    """The newest record of a key is right at the end, and a chunk is never read twice."""
    here = bench(snapshot_fetch_size="100")
    here.run(
        "CREATE TABLE t (a varchar(9), b decimal(5,1), v int, PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT CHAR(97 + seq % 5), seq, 0 FROM seq_1_to_1000",
        "CREATE TABLE finish (id int PRIMARY KEY)",
    )
    is_over, chance = threading.Event(), random.Random(1)

    def write() -> None:
        with here.connect() as connection, connection.cursor() as cursor:
            number = 0
            while not is_over.is_set() and number < 400:
                number += 1
                cursor.execute("UPDATE t SET v = v + 1 WHERE b = %s", (number % 1000,))
                cursor.execute("DELETE FROM t WHERE b = %s", (number * 7 % 1000,))
                cursor.execute("INSERT INTO t VALUES ('z', %s, 1)", (number,))

    writer = threading.Thread(target=write)
    found: list[SourceRecord] = []
    writer.start()
    try:
        while here.offset is None or "snapshot" in here.offset:
            found += here.step() or ()
            if chance.random() < 0.2:
                here.restart()
    finally:
        is_over.set()
        writer.join()
    here.run("INSERT INTO finish VALUES (1)")
    found += here.until("finish")
    newest: dict[Any, Any] = {}
    reads: list[Any] = []
    for record in found:
        if record.topic.endswith(".t"):
            key = record.key["a"], record.key["b"]
            newest[key] = record.value and record.value["after"] and record.value["after"]["v"]
            if record.value and record.value["op"] == "r":
                reads.append(key)
    assert len(reads) == len(set(reads))
    with here.connection.cursor() as cursor:
        cursor.execute("SELECT a, b, v FROM t")
        table = {(a, b): v for a, b, v in cursor.fetchall()}
    assert {key: v for key, v in newest.items() if v is not None} == table


def test_rows_without_a_key_come_once_while_a_snapshot_is_read(bench: Callable[..., Bench]) -> None:
    """Nobody could tell a row that comes twice from two rows that are the same."""
    here = bench(snapshot_fetch_size="10")
    here.run(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "INSERT INTO a SELECT seq FROM seq_1_to_100",
        "CREATE TABLE b (v int)",
        "INSERT INTO b VALUES (1), (2)",
        "CREATE TABLE finish (id int PRIMARY KEY)",
    )
    found: list[SourceRecord] = []
    while sum(record.topic.endswith(".a") for record in found) < 10:
        found += here.step() or ()
    here.run("INSERT INTO b VALUES (3)", "DELETE FROM b WHERE v = 2")
    found += here.step() or ()
    here.restart()
    found += here.until("a", 60)
    here.run("INSERT INTO b VALUES (4)", "INSERT INTO finish VALUES (1)")
    found += here.until("finish")
    rows = [(op, after) for table, op, _, after in map(event, found) if table == "b"]
    assert [row for row in rows if row[0] != "ddl"] == [
        ("r", {"v": 1}), ("r", {"v": 3}), ("c", {"v": 4}),
    ]  # fmt: skip


def test_a_server_that_restarts_is_waited_for(
    bench: Callable[..., Bench], mariadb_server: MariaDb
) -> None:
    here = bench()
    here.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert [key for _, _, key, _ in map(event, here.until("t"))][-1] == {"id": 1}
    here.connection.close()
    mariadb_server.crash()
    try:
        with pytest.raises(Unavailable):
            here.until("t", 2)
    finally:
        mariadb_server.start()
    here.connection = here.connect()
    here.run("INSERT INTO t VALUES (2)")
    assert [event(record)[2] for record in here.until("t")] == [{"id": 2}]


@pytest.mark.parametrize("mode", ["initial", "when_needed"])
def test_a_log_that_was_deleted_is_said_or_read_anew(
    bench: Callable[..., Bench], mode: str
) -> None:
    here = bench(snapshot_mode=mode)
    here.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    here.until("t")
    here.run("INSERT INTO t VALUES (2)")
    gone = {"file": "binlog.000000", "pos": 4}
    here.positions = Positions([({"server": here.prefix}, gone)])
    if mode == "initial":
        with pytest.raises(ConnectError, match="when_needed"):
            here.until("t")
    else:
        found = [event(record) for record in here.until("t")]
        assert [(op, key["id"]) for table, op, key, _ in found if table == "t"] == [
            ("r", 1), ("r", 2),
        ]  # fmt: skip


def test_a_position_of_debezium_is_gone_on_from(bench: Callable[..., Bench]) -> None:
    """As Debezium stores it: in a transaction, with the events and rows that were read."""
    here = bench(snapshot_mode="no_data")
    here.run("CREATE TABLE t (id int PRIMARY KEY)")
    here.step()
    place = here.offset or {}
    here.run("INSERT INTO t VALUES (1), (2), (3)", "INSERT INTO t VALUES (4)")
    offset = {
        "ts_sec": 1, "file": place["file"], "pos": place["pos"], "gtids": place["gtids"],
        "row": 2, "server_id": 1, "event": 2,
    }  # fmt: skip
    here.positions = Positions([({"server": here.prefix}, offset)])
    here.restart()
    assert [event(record)[2]["id"] for record in here.until("t", 2)] == [3, 4]


def test_a_changed_key_is_two_changes_of_its_transaction(bench: Callable[..., Bench]) -> None:
    here = bench(snapshot_mode="no_data", provide_transaction_metadata="true")
    here.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    here.step()
    here.run(
        "BEGIN",
        "INSERT INTO t VALUES (1, 'a')",
        "UPDATE t SET id = 2",
        "DELETE FROM t",
        "INSERT INTO t VALUES (2000, 'last')",
        "COMMIT",
    )
    records = here.drain(_is_last)
    blocks = [
        record.value["transaction"]["total_order"]
        for record in records
        if record.value is not None and record.value.get("transaction")
    ]
    assert blocks == [1, 2, 3, 4, 5]
