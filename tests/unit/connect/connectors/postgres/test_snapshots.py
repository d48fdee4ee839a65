"""Snapshots of a real PostgreSQL: which rows, when, on which signal, and what is told of them."""

import pytest

from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.errors import InvalidConfig
from tests.database_servers import Postgres
from tests.unit.connect.connectors.postgres.capture import ORDERS, capturing, configured

pytestmark = pytest.mark.xdist_group("postgres")


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
    assert configured(**properties).snapshots == mode


def test_a_snapshot_without_its_parts_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="it reads nothing"):
        configured()
    begin = "snapshot.mode.configuration.based."
    with pytest.raises(InvalidConfig, match="when_needed"):
        configured(**{f"{begin}start.stream": "true", f"{begin}snapshot.on.data.error": "true"})


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
