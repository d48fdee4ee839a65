"""Change data capture from a real PostgreSQL: streams, kills, slots, and marks of transactions."""

import random

import pytest

from odradek.connect.connectors.positions import Positions
from odradek.connect.connectors.postgres.connector import PostgresConnector
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from tests.database_servers import Postgres
from tests.unit.connect.connectors.postgres.capture import ORDERS, Capture, capturing, configured

pytestmark = pytest.mark.xdist_group("postgres")


def test_the_snapshot_comes_first_and_then_the_changes(postgres_server: Postgres) -> None:
    setup = (ORDERS, "INSERT INTO orders VALUES (1, 'one', 10), (2, 'two', NULL)")
    with capturing(postgres_server.new_database(), *setup) as capture:
        capture.until_count(2)
        marks = [record.value["source"]["snapshot"] for record in capture.records]
        assert marks == ["first", "last"]
        capture.run(
            "INSERT INTO orders VALUES (3, 'three', 30)",
            "UPDATE orders SET price = 11 WHERE id = 1",
            "UPDATE orders SET id = 4 WHERE id = 3",
            "DELETE FROM orders WHERE id = 2",
            "BEGIN; INSERT INTO orders VALUES (9); ROLLBACK",
            "BEGIN; INSERT INTO orders VALUES (5); DELETE FROM orders WHERE id = 5; COMMIT",
        )
        capture.until_count(12)
        assert [(key, op) for key, op, _ in capture.events()] == [
            (1, "r"), (2, "r"), (3, "c"), (1, "u"), (3, "d"), (3, "-"), (4, "c"), (2, "d"),
            (2, "-"), (5, "c"), (5, "d"), (5, "-"),
        ]  # fmt: skip
        headers = [[header.name for header in record.headers] for record in capture.records]
        assert headers[4:7] == [
            ["__debezium.newkey"], ["__debezium.newkey"], ["__debezium.oldkey"],
        ]  # fmt: skip
        assert capture.records[7].value["before"] == {"id": 2, "what": "x", "price": None}
        assert capture.replayed("orders") == capture.rows("orders")


def test_a_task_that_is_killed_loses_and_doubles_nothing(postgres_server: Postgres) -> None:
    dice = random.Random(7)
    setup = (ORDERS, "INSERT INTO orders SELECT g, 'old', g FROM generate_series(1, 500) g")
    properties = {"snapshot_fetch_size": "40", "max_batch_size": "60"}
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        for number in range(30):
            first = dice.randrange(1, 600)
            capture.run(
                f"INSERT INTO orders SELECT g, 'new', {number} FROM generate_series({first},"
                f" {first + 20}) g ON CONFLICT (id) DO UPDATE SET price = EXCLUDED.price",
                f"DELETE FROM orders WHERE id BETWEEN {first + 30} AND {first + 34}",
                f"UPDATE orders SET what = 'v{number}' WHERE id % 50 = {number % 50}",
            )
            if dice.random() < 0.2:
                capture.lose_step(dice.randrange(1, 60))
            elif dice.random() < 0.3:
                capture.step(dice.randrange(1, 60))
                capture.kill()
            else:
                capture.step(dice.randrange(1, 60))
        capture.run("INSERT INTO orders VALUES (1000, 'end', 0)")
        capture.until(lambda: 1000 in capture.replayed("orders") and capture.progress() is None)
        assert capture.replayed("orders") == capture.rows("orders")
        reads = [key for key, op, _ in capture.events() if op == "r"]
        assert len(reads) == len(set(reads)), "a row of the snapshot came twice"
        seen = [
            (record.value["source"]["lsn"], record.value["op"], str(record.key))
            for record in capture.records
            if record.value is not None and record.value["op"] != "r"
        ]
        assert len(seen) == len(set(seen)), "a change came twice"


def test_a_large_transaction_is_read_in_parts(postgres_server: Postgres) -> None:
    with capturing(postgres_server.new_database(), ORDERS, snapshot_mode="no_data") as capture:
        capture.step()
        capture.run("INSERT INTO orders SELECT g FROM generate_series(1, 300) g")
        while len(capture.records) < 300:
            capture.step(70)
            capture.kill()
        capture.run("INSERT INTO orders VALUES (301)")
        capture.until_count(301)
        assert [key for key, _, _ in capture.events()] == [*range(1, 302)]


def test_tables_without_a_key_come_exactly_once_too(postgres_server: Postgres) -> None:
    setup = (
        "CREATE TABLE notes (id int, note text)",
        "ALTER TABLE notes REPLICA IDENTITY FULL",
        "INSERT INTO notes VALUES (1, 'a'), (1, 'a'), (2, 'b')",
    )
    with capturing(postgres_server.new_database(), *setup) as capture:
        capture.step(1)
        capture.run("INSERT INTO notes VALUES (3, 'c')", "DELETE FROM notes WHERE id = 2")
        capture.until_count(6)
        assert sorted((row["id"], op) for _, op, row in capture.events() if row) == [
            (1, "r"), (1, "r"), (2, "d"), (2, "r"), (3, "c"),
        ]  # fmt: skip
        assert capture.records[-1].key is None


def test_the_slot_advances_only_behind_what_is_stored(postgres_server: Postgres) -> None:
    setup = (ORDERS, "CREATE TABLE other (id int)")
    properties = {
        "status_update_interval_ms": "1",
        "table_include_list": "public.orders",
        "snapshot_mode": "no_data",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.run("INSERT INTO orders VALUES (1)")
        end = capture.stored
        while end == capture.stored:
            end = capture.task.reach(capture.stored, 100)
        before = capture.slot()
        for _ in range(3):
            capture.task.reach(end, 100)
        assert capture.slot() == before, "the slot advanced before the records were stored"
        capture.until(lambda: capture.slot() > before)
        # Nothing of the captured table changes, but the server may forget its log.
        for number in range(3):
            before = capture.slot()
            capture.run(f"INSERT INTO other SELECT generate_series(1, {1000 + number})")
            count = len(capture.records)
            capture.until(lambda: capture.slot() > before)  # noqa: B023 - called at once
            assert len(capture.records) == count


def test_a_truncation_and_messages_are_records(postgres_server: Postgres) -> None:
    properties = {"snapshot_mode": "no_data", "skipped_operations": "none"}
    setup = (ORDERS, "INSERT INTO orders VALUES (1)")
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.run(
            "TRUNCATE orders",
            "SELECT pg_logical_emit_message(true, 'audit', 'one')",
            "SELECT pg_logical_emit_message(false, 'audit', 'two')",
        )
        capture.until_count(3)
        assert [record.value["op"] for record in capture.records] == ["t", "m", "m"]
        assert capture.records[0].key is None
        contents = [record.value["message"]["content"] for record in capture.records[1:]]
        assert contents == [b"one", b"two"]
        assert capture.records[1].topic == "shop.message"
        capture.kill()
        capture.run("INSERT INTO orders VALUES (2)")
        capture.until_count(4)
        assert capture.records[3].value["op"] == "c"


def test_heartbeats_come_while_nothing_changes(postgres_server: Postgres) -> None:
    setup = (ORDERS, "CREATE TABLE beats (at timestamptz)")
    properties = {
        "heartbeat_interval_ms": "50",
        "heartbeat_action_query": "INSERT INTO beats VALUES (now())",
        "table_include_list": "public.orders",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.until_count(3)
        assert {record.topic for record in capture.records} == {"__debezium-heartbeat.shop"}
        assert capture.records[0].key == {"serverName": "shop"}
        beats = capture.sql.execute("SELECT count(*) FROM beats").fetchone()
        assert beats is not None
        assert beats[0] >= 3


def test_transactions_are_marked_when_they_are_wanted(postgres_server: Postgres) -> None:
    properties = {"snapshot_mode": "no_data", "provide_transaction_metadata": "true"}
    with capturing(postgres_server.new_database(), ORDERS, **properties) as capture:
        capture.step()
        capture.run("INSERT INTO orders VALUES (1), (2)")
        while len(capture.records) < 4:
            capture.step(1)
            capture.kill()
        begin, one, two, end = capture.records
        assert begin.value["status"] == "BEGIN"
        orders = [record.value["transaction"]["total_order"] for record in (one, two)]
        assert orders == [1, 2]
        assert end.value["data_collections"] == [
            {"data_collection": "public.orders", "event_count": 2}
        ]
        assert {begin.key["id"], two.value["transaction"]["id"], end.key["id"]} == {begin.key["id"]}


def test_a_changed_key_is_two_changes_of_its_transaction(postgres_server: Postgres) -> None:
    properties = {"snapshot_mode": "no_data", "provide_transaction_metadata": "true"}
    with capturing(postgres_server.new_database(), ORDERS, **properties) as capture:
        capture.step()
        capture.run(
            "INSERT INTO orders VALUES (1)",
            "BEGIN; UPDATE orders SET id = 2; DELETE FROM orders; COMMIT",
        )
        while len(capture.records) < 10:
            capture.step(1)
            capture.kill()
        blocks = [
            record.value["transaction"]["total_order"]
            for record in capture.records
            if record.value is not None and "transaction" in record.value
        ]
        assert blocks == [1, 1, 2, 3]
        assert capture.records[-1].value["event_count"] == 3


@pytest.mark.parametrize(
    ("skipped", "operations"), [("c", "rd-"), ("u", "r"), ("d", "rc"), ("d,c", "r")]
)
def test_a_changed_key_is_skipped_by_its_parts(
    postgres_server: Postgres, skipped: str, operations: str
) -> None:
    setup = (ORDERS, "INSERT INTO orders VALUES (1)", "CREATE TABLE ends (id int PRIMARY KEY)")
    properties = {"skipped_operations": skipped}
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.until_count(1)
        capture.run("UPDATE orders SET id = 2", "UPDATE orders SET price = 1")
        capture.run("SELECT pg_logical_emit_message(false, 'end', '')")
        capture.until(lambda: capture.records[-1].topic == "shop.message")
        ops = "".join(operation for _, operation, _ in capture.events("orders"))
        # As with Debezium, a skipped update is none of its parts either.
        assert ops == (operations if skipped == "u" else f"{operations}u")


def test_topics_are_named_as_debezium_does_it(postgres_server: Postgres) -> None:
    setup = (
        "CREATE SCHEMA inv",
        'CREATE TABLE inv."a b_c" (id int PRIMARY KEY)',
        'INSERT INTO inv."a b_c" VALUES (1)',
    )
    wanted = {
        "Schema": "shop.inv.a_b_c",
        "Default": "shop.a_b_c",
        "SchemaUnicode": "shop.inv.a_u0020b_u005fc",
        "DefaultRegex": "all.a_b_c",
    }
    for kind, topic in wanted.items():
        properties = {
            "topic.naming.strategy": f"io.debezium.schema.{kind}TopicNamingStrategy",
            "table.include.list": "inv..*",
            "topic.regex": "shop.(.*)",
            "topic.replacement": "all.$1",
        }
        with capturing(postgres_server.new_database(), *setup, **properties) as capture:
            capture.until_count(1)
            (record,) = capture.records
            assert record.topic == topic
            is_routed = kind == "DefaultRegex"
            own = {"__dbz__physicalTableIdentifier": "shop.a b_c"} if is_routed else {}
            assert record.key == {"id": 1, **own}


def test_a_lost_slot_is_an_error_or_a_new_snapshot(postgres_server: Postgres) -> None:
    setup = (ORDERS, "INSERT INTO orders VALUES (1)")
    with capturing(postgres_server.new_database(), *setup) as capture:
        capture.until_count(1)
        capture.drop_slot()
        with pytest.raises(DataError, match="is gone, and with it the changes since"):
            capture.step()
        capture.kill()
        capture.properties["snapshot.mode"] = "when_needed"
        capture.run("INSERT INTO orders VALUES (2)")
        capture.until_count(3)
        assert [(key, op) for key, op, _ in capture.events()] == [(1, "r"), (1, "r"), (2, "r")]


def test_a_preview_leaves_no_slot(postgres_server: Postgres) -> None:
    setup = (ORDERS, "INSERT INTO orders VALUES (1)")
    with capturing(postgres_server.new_database(), *setup) as capture:
        connector = PostgresConnector(PostgresSettings.read(capture.properties))
        given = connector.preview_properties(capture.properties)
        task = PostgresConnector(PostgresSettings.read(given)).task()
        end = task.reach(Positions(), 10)
        assert [record.key for record in task.read(Positions(), end)] == [{"id": 1}]
        task.close()
        assert not capture.is_slot()
        assert not capture.sql.execute("SELECT 1 FROM pg_publication").fetchall()
        capture.step()
        assert connector.preview_properties(capture.properties) == capture.properties


def test_a_slot_for_tests_goes_with_the_task(postgres_server: Postgres) -> None:
    properties = {"slot_drop_on_stop": "true", "snapshot_mode": "no_data"}
    with capturing(postgres_server.new_database(), ORDERS, **properties) as capture:
        capture.step()
        assert capture.is_slot()
        capture.kill()
        assert not capture.is_slot()


def test_the_channel_of_a_topic_needs_its_name() -> None:
    with pytest.raises(InvalidConfig, match="needs a topic"):
        configured(**{
            "snapshot.mode": "initial", "notification.enabled.channels": "sink",
        })  # fmt: skip


def test_offsets_of_debezium_are_taken_over(postgres_server: Postgres) -> None:
    with capturing(postgres_server.new_database(), ORDERS, snapshot_mode="no_data") as capture:
        # The slot keeps everything, as it does while nobody says what is stored.
        capture.properties["lsn.flush.mode"] = "manual"
        capture.step()
        capture.run("INSERT INTO orders VALUES (1)", "INSERT INTO orders VALUES (2), (3), (4)")
        capture.until_count(4)
        offsets = [record.source_offset for record in capture.records]
        between = {"lsn_commit": offsets[1]["lsn_commit"], "lsn_proc": offsets[1]["lsn_commit"]}
        inside = {"lsn_commit": offsets[1]["lsn_commit"], "lsn_proc": offsets[2]["lsn"]}
        for offset, keys in ((between, [2, 3, 4]), (inside, [4])):
            capture.kill()
            capture.records.clear()
            capture.stored = Positions([({"server": "shop"}, offset)])
            capture.until_count(len(keys))
            assert [key for key, _, _ in capture.events()] == keys


def test_a_server_that_cannot_be_captured_says_what_to_type(postgres_server: Postgres) -> None:
    database = postgres_server.new_database()

    def wrong(**properties: str) -> dict[str, list[str]]:
        capture = Capture(database, **properties)
        capture.sql.close()
        return PostgresConnector(PostgresSettings.read(capture.properties)).wrong_outside()

    assert wrong() == {}
    ((name, lines),) = wrong(database_port="1").items()
    assert name == "database.hostname"
    assert "does not answer" in lines[0]
    ((name, lines),) = wrong(database_dbname="nothing").items()
    assert name == "database.dbname"
    assert "does not exist" in lines[0]
    with capturing(database, "CREATE ROLE reader LOGIN") as capture:
        ((_, lines),) = wrong(database_user="reader").items()
        assert 'ALTER ROLE "reader" REPLICATION' in lines[0]
        capture.run("DROP ROLE reader")


def test_a_server_that_restarts_is_waited_for(postgres_server: Postgres) -> None:
    with capturing(postgres_server.new_database(), ORDERS, snapshot_mode="no_data") as capture:
        capture.step()
        capture.run("INSERT INTO orders VALUES (1)")
        capture.until_count(1)
        capture.sql.close()
        postgres_server.crash()
        with pytest.raises(Unavailable):
            capture.until_count(2)
        postgres_server.start()
        capture.sql = type(capture.sql).connect(
            host="127.0.0.1", port=postgres_server.port, user="postgres",
            dbname=capture.properties["database.dbname"], autocommit=True,
        )  # fmt: skip
        capture.run("INSERT INTO orders VALUES (2)")
        capture.until_count(2)
        assert [key for key, _, _ in capture.events()] == [1, 2]
