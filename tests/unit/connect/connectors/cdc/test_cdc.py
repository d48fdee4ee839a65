"""What the connectors for change data capture share."""

import logging
from typing import Any

import pytest

from odradek.connect.connectors.cdc.chunks import INITIAL, Progress, TableToRead, Window
from odradek.connect.connectors.cdc.column_masks import read_masks
from odradek.connect.connectors.cdc.filters import KeyColumns, NameFilter
from odradek.connect.connectors.cdc.names import adjusted_name
from odradek.connect.connectors.cdc.signals import (
    ExecuteSnapshot,
    StopSnapshot,
    WriteLog,
    action_of,
    signal_of,
)
from odradek.connect.connectors.cdc.steps import Step, Steps
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import SourceRecord

RIGHT = {
    "topic.prefix": "shop",
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
}


def test_lists_are_patterns_of_whole_names() -> None:
    chosen = NameFilter(r"shop\.orders, shop\.items_.{1\,2}", None)
    names = ["shop.items_12", "shop.orders_old", "SHOP.ORDERS", "shop.items_1"]
    assert chosen.in_order(names) == ["SHOP.ORDERS", "shop.items_1", "shop.items_12"]
    assert not NameFilter(None, r"shop\..*").selects("shop.orders")
    with pytest.raises(InvalidConfig):
        NameFilter("(", None)


def test_keys_are_given_by_tables() -> None:
    keys = KeyColumns(r"shop\.orders:number,year;(.*)\.items:id")
    assert keys.of("shop.orders", ["year", "number"]) == ("number", "year")
    assert keys.of("other.items", ["id"]) == ("id",)
    assert keys.of("shop.users", ["id"]) is None
    with pytest.raises(InvalidConfig, match="does not have"):
        keys.of("shop.orders", ["id"])
    with pytest.raises(InvalidConfig, match="is not like"):
        KeyColumns("shop.orders")


def test_the_progress_of_a_snapshot_is_text_in_an_offset() -> None:
    tables = (TableToRead("a", "x > 1", ("k",), "s"), TableToRead("b"))
    progress = Progress(INITIAL, tables, ("1", None), ("9", "z")).sent(("2", "y"))
    assert Progress.from_text(progress.to_text()) == progress
    assert progress.next_table().tables == (TableToRead("b"),)
    assert progress.next_table().after is None
    assert progress.without(["b"]).after == ("2", "y")
    assert progress.without(None).is_done
    assert progress.and_tables([TableToRead("b"), TableToRead("c")]).tables[2].name == "c"
    with pytest.raises(DataError):
        Progress.from_text("{}")


def test_rows_that_the_stream_has_changed_leave_the_window() -> None:
    window = Window("t", {("1",): "one", ("2",): "two", ("3",): "three"})
    window.changed(("2",), None, ("7",))
    assert window.rows() == [(("1",), "one"), (("3",), "three")]
    window.truncated()
    assert window.rows() == []


def test_steps_are_kept_until_they_are_stored() -> None:
    steps = Steps()
    one, two = SourceRecord("t", value=1), SourceRecord("t", value=2)
    steps.begin_at(None)
    steps.add(Step({"at": 1}, [one]))
    steps.add(Step({"at": 2}, [two]))
    assert steps.after(None) == {"at": 1}
    assert steps.after({"at": 2}) is None
    assert [*steps.between(None, {"at": 2})] == [one, two]
    assert not steps.is_all_stored
    assert steps.stored({"at": 1})
    assert [*steps.between({"at": 1}, {"at": 2})] == [two]
    assert not steps.stored(None)
    with pytest.raises(DataError, match="read by an earlier run"):
        list(steps.between(None, {"at": 1}))
    steps.stored({"at": 2})
    assert steps.is_all_stored


def test_signals_say_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    def action(kind: str, data: str) -> object:
        signal = signal_of({"id": "1", "type": kind, "data": data})
        return None if signal is None else action_of(signal)

    execute = action(
        "execute-snapshot",
        '{"data-collections": ["shop.orders", "shop\\\\.i.*"],'
        ' "additional-conditions": [{"data-collection": "shop.orders", "filter": "id < 5"}]}',
    )
    assert isinstance(execute, ExecuteSnapshot)
    assert execute.of(["shop.items", "shop.orders", "shop.users"]) == [
        TableToRead("shop.orders", "id < 5", None, "1"),
        TableToRead("shop.items", None, None, "1"),
    ]
    stop = action("stop-snapshot", '{"data-collections": ["shop.orders"]}')
    assert isinstance(stop, StopSnapshot)
    assert stop.of(["shop.orders", "shop.items"]) == ["shop.orders"]
    assert action("stop-snapshot", "") == StopSnapshot("1", None)
    assert action("log", '{"message": "hello"}') == WriteLog("1", "hello")
    with caplog.at_level(logging.WARNING, "odradek.connect"):
        assert action("execute-snapshot", "{}") is None
        assert action("execute-snapshot", '{"data-collections": ["a"], "type": "blocking"}') is None
        assert action("dance", "{}") is None
        assert action("log", "{bad") is None
    assert len(caplog.records) == 4


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("topic.prefix", "a b", "letters, digits"),
        ("table.include.list", "(", "not a regular expression"),
        ("table.exclude.list", "x", "table.include.list is set too"),
        ("message.key.columns", "x", "is not like"),
        ("plugin.name", "decoderbufs", "only pgoutput"),
        ("slot.name", "Orders", "lower-case"),
        ("skipped.operations", "none,c", "none stands alone"),
        ("snapshot.mode", "sometimes", "one of always"),
        ("snapshot.locking.mode", "shared", "a snapshot takes no locks"),
        ("converters", "isbn", "use a transform"),
        ("column.mask.with.10.chars", "(", "not a regular expression"),
        ("column.mask.with.ten.chars", "a.b.c", "such settings are column.truncate.to.N.chars"),
        ("signal.enabled.channels", "kafka", "need brokers"),
        ("replica.identity.autoset.values", "t", "is not like schema.table:FULL"),
    ],
)
def test_what_is_wrong_is_said_by_setting(name: str, text: str, reason: str) -> None:
    given = {**RIGHT, name: text}
    if name == "table.exclude.list":
        given["table.include.list"] = "y"
    lines = [line for found in PostgresSettings.validate(given).values() for line in found]
    assert len(lines) == 1
    assert reason in lines[0]


def test_what_has_no_effect_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    assert PostgresSettings.validate({**RIGHT, "snapshot.locking.mode": "none"}) == {}
    with caplog.at_level(logging.WARNING, "odradek.connect"):
        PostgresSettings.announce("c", {**RIGHT, "max.queue.size": "1", "slot.nam": "x"})
    text = caplog.text
    assert "max.queue.size has no effect" in text
    assert "slot.nam is not a setting; did you mean slot.name?" in text


TEXT = "hello world äöü"
SALT = "with.salt.CzQMA0cB5K"


@pytest.mark.parametrize(
    ("name", "length", "value", "changed"),
    [
        ("column.truncate.to.3.chars", None, TEXT, "hel"),
        ("column.truncate.to.3.chars", None, b"\x01\x02\x03\x04", b"\x01\x02\x03"),
        ("column.truncate.to.3.chars", None, 12345, 12345),
        ("column.mask.with.7.chars", 3, TEXT, "*******"),
        ("column.mask.with.0.chars", None, None, ""),
        # What Debezium 3.6.1 has made of these with the salt of its documentation.
        (f"column.mask.hash.SHA-256.{SALT}", None, TEXT,
         "e8f678be952e85224bbfb657e71116b6a61c4e5df6f3850ca168120e2f69c754"),
        (f"column.mask.hash.v2.SHA-256.{SALT}", None, TEXT,
         "8dcfc63e40da86d2ff14df527334dad64d51339374c64c0aef3cca0314baa2a0"),
        (f"column.mask.hash.SHA-256.{SALT}", 10, "abcdefghij", "94330be6fe"),
        ("column.mask.hash.SHA-256.with.salt.CzQMA0cB5K", 20, "\U0001f600" * 3,
         "6a0b7f9f53ed1190a497"),
        (f"column.mask.hash.v2.SHA-256.{SALT}", 5, "ab   ", "48bf7"),
    ],
)  # fmt: skip
def test_columns_that_are_masked(name: str, length: int | None, value: Any, changed: Any) -> None:
    masks, problems = read_masks({name: "s\\.t\\.c.*, other"})
    assert not problems
    mask = masks.of("s.t.c1")
    assert mask is not None
    assert mask.change(length)(value) == changed
    assert masks.of("s.t.d") is None


def test_of_several_masks_the_shortest_way_wins() -> None:
    masks, _ = read_masks(
        {
            "column.mask.hash.v2.MD5.with.salt.x": "c",
            "column.mask.with.2.chars": "c",
            "column.truncate.to.5.chars": "c",
        }
    )
    found = masks.of("c")
    assert found is not None
    assert found.parameter == ("truncateLength", "5")


def test_names_for_avro() -> None:
    assert adjusted_name("a-b c", "avro") == "a_b_c"
    assert adjusted_name("1a", "avro") == "_1a"
    assert adjusted_name("a_b-c", "avro_unicode") == "a_u005fb_u002dc"
    assert adjusted_name("a-b", "none") == "a-b"


def test_a_point_is_allowed_in_names_of_schemas_only() -> None:
    assert adjusted_name("shop.a-b", "avro") == "shop.a_b"
    assert adjusted_name("a.b", "avro", is_field=True) == "a_b"
    assert adjusted_name("a.b", "avro_unicode", is_field=True) == "a_u002eb"
    assert adjusted_name("a.b", "none", is_field=True) == "a.b"
