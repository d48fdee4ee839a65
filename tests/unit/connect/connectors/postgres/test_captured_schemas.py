"""Schemas of what is captured of a real PostgreSQL: changed tables, odd types, names."""

import pytest

from tests.database_servers import Postgres
from tests.unit.connect.connectors.postgres.capture import ORDERS, capturing

pytestmark = pytest.mark.xdist_group("postgres")


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
