"""Change data capture from a real PostgreSQL: streams, snapshots, kills and signals."""

import random

import pytest

from odradek.connect.connectors.positions import Positions
from odradek.connect.connectors.postgres.connector import PostgresConnector
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from tests.database_servers import Postgres
from tests.unit.connect.connectors.postgres.capture import Capture, capturing

pytestmark = pytest.mark.xdist_group("postgres")

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, what text NOT NULL DEFAULT 'x', price int)"


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


def test_signals_read_tables_again(postgres_server: Postgres) -> None:
    setup = (
        ORDERS,
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
        "INSERT INTO orders SELECT g, 'old', g FROM generate_series(1, 100) g",
    )
    properties = {
        "snapshot_mode": "no_data",
        "table_include_list": "public.orders",
        "signal_data_collection": "public.signals",
        "incremental_snapshot_chunk_size": "30",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.run(
            "INSERT INTO signals VALUES ('s1', 'log', '{\"message\": \"hello\"}')",
            "INSERT INTO signals VALUES ('s2', 'nonsense', '{')",
            "INSERT INTO signals VALUES ('s3', 'execute-snapshot',"
            ' \'{"data-collections": ["public.orders"], "additional-conditions":'
            ' [{"data-collection": "public.orders", "filter": "id <= 70"}]}\')',
        )
        capture.until_count(40)
        capture.kill()
        capture.run("UPDATE orders SET price = 0 WHERE id = 70")
        # The row may have been read before the kill; then its change comes later, by the log.
        capture.until(lambda: capture.replayed("orders").get(70, {}).get("price") == 0)
        assert len(capture.replayed("orders")) == 70
        marks = {r.value["source"]["snapshot"] for r in capture.records if r.value["op"] == "r"}
        assert marks == {"incremental"}
        assert len([op for _, op, _ in capture.events() if op == "r"]) in {69, 70}
        assert {record.topic for record in capture.records} == {"shop.public.orders"}
        assert capture.progress() is None


def test_a_signal_may_ask_for_a_blocking_snapshot(postgres_server: Postgres) -> None:
    """It blocks nothing here, but its rows look like those of a first snapshot."""
    setup = (
        ORDERS,
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
        "INSERT INTO orders SELECT g, 'old', g FROM generate_series(1, 9) g",
    )
    properties = {
        "snapshot_mode": "no_data",
        "table_include_list": "public.orders",
        "signal_data_collection": "public.signals",
        "incremental_snapshot_chunk_size": "2",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.run(
            "INSERT INTO signals VALUES ('s1', 'execute-snapshot',"
            ' \'{"type": "blocking", "data-collections": ["public.orders"],'
            ' "additional-conditions": [{"data-collection": "public.orders",'
            ' "filter": "SELECT * FROM public.orders WHERE id > 4"}]}\')',
        )
        capture.until_count(3)
        capture.kill()
        capture.until_count(5)
        marks = [record.value["source"]["snapshot"] for record in capture.records]
        assert marks == ["first", "true", "true", "true", "last"]
        assert [key for key, _, _ in capture.events()] == [5, 6, 7, 8, 9]


def test_a_changed_table_has_another_schema(postgres_server: Postgres) -> None:
    with capturing(postgres_server.new_database(), ORDERS, snapshot_mode="no_data") as capture:
        capture.step()
        capture.run(
            "INSERT INTO orders VALUES (1)",
            "ALTER TABLE orders ADD at date",
            "INSERT INTO orders VALUES (2, 'x', 1, '1970-01-03')",
        )
        capture.until_count(2)
        fields = [
            [field.name for field in record.value_schema.field("after").schema.fields]  # type: ignore[union-attr]
            for record in capture.records
        ]
        assert fields == [["id", "what", "price"], ["id", "what", "price", "at"]]
        assert capture.records[1].value["after"]["at"] == 2


def test_columns_of_odd_types_do_not_stop_a_capture(postgres_server: Postgres) -> None:
    setup = (
        "CREATE DOMAIN word AS text NOT NULL",
        """CREATE TABLE odd (id int PRIMARY KEY, v int2vector, o oidvector, w word,
             d timestamp DEFAULT ('now'::text)::date, long interval, found tsvector[])""",
        """INSERT INTO odd VALUES
             (1, '1 2', '3 4', 'x', NULL, '178000000 years', ARRAY['a'::tsvector])""",
    )
    with capturing(postgres_server.new_database(), *setup) as capture:
        capture.until_count(1)
        assert capture.events() == [
            (1, "r", {"id": 1, "w": "x", "d": None, "long": 2**63 - 1, "found": ["'a'"]})
        ]
        schema = capture.records[0].value_schema
        assert schema is not None
        row = schema.field("after")
        assert row is not None
        fields = {field.name: field.schema for field in row.schema.fields}
        assert not fields["w"].is_optional
        assert fields["found"].item is not None
        assert not fields["found"].item.is_optional


def test_schemas_say_the_types_of_the_source_if_that_is_wanted(postgres_server: Postgres) -> None:
    setup = (
        """CREATE TABLE typed (id int PRIMARY KEY, name varchar(20), price numeric(5,2), n numeric,
             at timestamptz(3), tags text[], data bytea)""",
        "INSERT INTO typed VALUES (1)",
    )
    properties = {
        "column.propagate.source.type": "public.typed.(id|name|price|n|at|tags)",
        "datatype.propagate.source.type": ".+\\.bytea",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.until_count(1)
        (record,) = capture.records
        assert record.value_schema is not None
        row = record.value_schema.field("after")
        assert row is not None
        assert record.key_schema is not None
        assert not record.key_schema.fields[0].schema.parameters
        begin = "__debezium.source.column."
        found = {
            field.name: tuple(
                field.schema.parameters[f"{begin}{name}"] for name in ("type", "length", "scale")
            )
            for field in row.schema.fields
        }
        assert found == {
            "id": ("INT4", "10", "0"),
            "name": ("VARCHAR", "20", "0"),
            "price": ("NUMERIC", "5", "2"),
            "n": ("NUMERIC", "131089", "0"),
            "at": ("TIMESTAMPTZ", "32", "3"),
            "tags": ("_TEXT", "2147483647", "0"),
            "data": ("BYTEA", "2147483647", "0"),
        }


def test_names_may_have_points(postgres_server: Postgres) -> None:
    setup = (
        'CREATE SCHEMA "a.b"',
        'CREATE TABLE "a.b"."c.d" (id int PRIMARY KEY)',
        'INSERT INTO "a.b"."c.d" VALUES (1)',
    )
    properties = {"table.include.list": "a.b.c.d"}
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.until_count(1)
        capture.run('INSERT INTO "a.b"."c.d" VALUES (2)')
        capture.until_count(2)
        assert capture.events() == [(1, "r", {"id": 1}), (2, "c", {"id": 2})]


def test_changes_of_a_table_that_is_gone_have_its_key(postgres_server: Postgres) -> None:
    setup = ("CREATE TABLE gone (id int PRIMARY KEY, v int)",)
    properties = {"publication.autocreate.mode": "all_tables", "snapshot.mode": "no_data"}
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.kill()
        capture.run("INSERT INTO gone VALUES (1, 2)", "DROP TABLE gone")
        capture.until_count(1)
        (record,) = capture.records
        assert (record.key, record.value["after"]) == ({"id": 1}, {"id": 1, "v": 2})
        assert record.key_schema is not None
        assert [field.schema.is_optional for field in record.key_schema.fields] == [False]


def test_a_default_in_place_of_null_is_hidden_too(postgres_server: Postgres) -> None:
    setup = (
        "CREATE TABLE hidden (id int PRIMARY KEY, secret text NOT NULL DEFAULT 'dd')",
        "INSERT INTO hidden VALUES (1, 'x')",
    )
    properties = {
        "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K": "public.hidden.secret",
        "snapshot.mode": "no_data",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.run("DELETE FROM hidden")
        capture.until_count(2)
        # What Debezium 3.6.1 wrote: the key alone is known, and the default stands for the rest.
        assert capture.records[0].value["before"]["secret"] == (
            "50c71be7c0472f24fb919961b8142d6fa0b0878fafe5ccdf13908db2e69237ca"
        )


def test_what_was_not_sent_has_a_placeholder(postgres_server: Postgres) -> None:
    table = "CREATE TABLE big (id int PRIMARY KEY, text text, small int)"
    storage = "ALTER TABLE big ALTER text SET STORAGE EXTERNAL"
    setup = (table, storage, "INSERT INTO big VALUES (1, repeat('a', 9000), 1)")
    with capturing(postgres_server.new_database(), *setup, snapshot_mode="no_data") as capture:
        capture.step()
        capture.run("UPDATE big SET small = 2", "ALTER TABLE big REPLICA IDENTITY FULL")
        capture.run("UPDATE big SET small = 3")
        capture.until_count(2)
        rows = [row["text"] for _, _, row in capture.events()]
        assert rows == ["__debezium_unavailable_value", "a" * 9000]


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


def test_initial_only_ends_after_the_snapshot(postgres_server: Postgres) -> None:
    setup = (ORDERS, "INSERT INTO orders SELECT g FROM generate_series(1, 30) g")
    properties = {"snapshot_mode": "initial_only", "snapshot_fetch_size": "10"}
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.step()
        capture.kill()
        capture.until_count(30)
        capture.run("INSERT INTO orders VALUES (31)")
        assert capture.step() == 0
        assert capture.progress() is None


def test_a_statement_selects_the_rows_of_a_snapshot(postgres_server: Postgres) -> None:
    name = "snapshot.select.statement.overrides"
    setup = (
        "CREATE TABLE items (id int PRIMARY KEY)",
        "INSERT INTO items SELECT generate_series(1, 5)",
        "CREATE TABLE notes (n int)",
        "INSERT INTO notes VALUES (1), (2)",
    )
    properties = {
        name: "public.items,public.notes",
        f"{name}.public.items": "SELECT * FROM public.items WHERE id > 3; ",
        f"{name}.public.notes": "SELECT * FROM public.notes WHERE n = 1 -- the first",
        "snapshot.fetch.size": "1",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.until_count(3)
        capture.run("INSERT INTO items VALUES (0)")
        capture.until_count(4)
        assert capture.events("items") == [
            (4, "r", {"id": 4}),
            (5, "r", {"id": 5}),
            (0, "c", {"id": 0}),
        ]
        assert capture.events("notes") == [(None, "r", {"n": 1})]


def test_a_table_that_is_listed_needs_its_statement() -> None:
    found = PostgresSettings.validate(
        {
            "topic.prefix": "shop",
            "database.hostname": "h",
            "database.user": "u",
            "database.dbname": "d",
            "snapshot.select.statement.overrides": "public.items",
        }
    )
    assert list(found) == ["snapshot.select.statement.overrides.public.items"]


@pytest.mark.parametrize(
    ("set_to_true", "mode"),
    [
        (("snapshot.data", "start.stream"), "always"),
        (("snapshot.data", "snapshot.schema"), "initial_only"),
        (("start.stream",), "no_data"),
        (("snapshot.data", "start.stream", "snapshot.on.data.error"), "always"),
    ],
)
def test_a_snapshot_can_be_configured_by_its_parts(set_to_true: list[str], mode: str) -> None:
    properties = {f"snapshot.mode.configuration.based.{name}": "true" for name in set_to_true}
    assert _configured(**properties).snapshots == mode


def test_a_snapshot_without_its_parts_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="it reads nothing"):
        _configured()
    begin = "snapshot.mode.configuration.based."
    with pytest.raises(InvalidConfig, match="when_needed"):
        _configured(**{f"{begin}start.stream": "true", f"{begin}snapshot.on.data.error": "true"})


def _configured(**properties: str) -> PostgresSettings:
    return PostgresSettings.read(
        {
            "topic.prefix": "shop",
            "database.hostname": "h",
            "database.user": "u",
            "database.dbname": "d",
            "snapshot.mode": "configuration_based",
            **properties,
        }
    )


def test_snapshots_are_told_of_once(postgres_server: Postgres) -> None:
    setup = (
        ORDERS,
        "INSERT INTO orders SELECT g FROM generate_series(1, 5) g",
        "CREATE TABLE z (id int PRIMARY KEY)",
    )
    properties = {
        "notification.enabled.channels": "sink,log",
        "notification.sink.topic.name": "notes",
        "snapshot.fetch.size": "2",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        for _ in range(50):
            capture.step(2)
            capture.kill()
            if capture.progress() is None:
                break
        notes = [record.value for record in capture.records if record.topic == "notes"]
        assert [
            (note["type"], note["additional_data"].get("scanned_collection")) for note in notes
        ] == [
            ("STARTED", None),
            ("IN_PROGRESS", None),
            ("TABLE_SCAN_COMPLETED", "public.orders"),
            ("IN_PROGRESS", None),
            ("TABLE_SCAN_COMPLETED", "public.z"),
            ("COMPLETED", None),
        ]
        assert notes[1]["additional_data"] == {
            "current_collection_in_progress": "public.orders",
            "data_collections": "public.orders,public.z",
            "connector_name": "shop",
        }
        assert {note["aggregate_type"] for note in notes} == {"Initial Snapshot"}
        assert [key for key, op, _ in capture.events("orders") if op == "r"] == [1, 2, 3, 4, 5]


def test_a_snapshot_of_one_step_is_told_of(postgres_server: Postgres) -> None:
    setup = (ORDERS, "INSERT INTO orders SELECT g FROM generate_series(1, 5) g")
    properties = {
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": "notes",
    }
    with capturing(postgres_server.new_database(), *setup, **properties) as capture:
        capture.until(lambda: capture.records and capture.progress() is None)
        capture.run("INSERT INTO orders VALUES (6)")
        capture.until(lambda: capture.events("orders")[-1][1] == "c")
        notes = [record.value for record in capture.records if record.topic == "notes"]
        assert [note["type"] for note in notes] == [
            "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED",
        ]  # fmt: skip
        assert notes[2]["additional_data"]["total_rows_scanned"] == "5"


def test_the_channel_of_a_topic_needs_its_name() -> None:
    with pytest.raises(InvalidConfig, match="needs a topic"):
        _configured(**{
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
