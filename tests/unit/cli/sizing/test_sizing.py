"""`odradek sizing`: the arithmetic against figures worked out by hand, and what it warns of."""

import argparse
import json
from math import inf

import pytest

from odradek.cli.main import main
from odradek.cli.parser import terminal_columns
from odradek.cli.quantities import duration_s, shown_bytes, shown_seconds, size_bytes
from odradek.cli.sizing.plan import (
    CONNECTION_BYTES,
    IDLE_BYTES,
    IDLE_DESCRIPTORS,
    INDEX_ENTRY_BYTES,
    REPLICA_BYTES,
    SEGMENT_BYTES,
    Load,
    plan,
)

HOUR, DAY = 3600.0, 86_400.0
MB, GB = 10**6, 10**9


def load(**changes: object) -> Load:
    usual: dict[str, object] = {
        "rate_bytes": 12 * MB,
        "partitions": 12,
        "brokers": 3,
        "replication_factor": 3,
        "retention_s": 1000.0,
        "retention_bytes": None,
        "is_compacted": False,
        "keys": 0,
        "record_bytes": 1000,
        "batch_bytes": 100_000,
        "consumers": 2,
        "clients": 10,
        "segment_bytes": 100 * MB,
        "segment_s": 7 * DAY,
        "hot_s": 10.0,
        "network_bytes": 125 * MB,
        "free_share": 0.5,
        "max_descriptors": 20_000,
    }
    return Load(**{**usual, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "amount"),
    [("10MB", 10_000_000), ("1GiB", 1 << 30), ("512", 512), ("1.5 kB", 1500), ("10MB/s", 10**7)],
)
def test_sizes(text: str, amount: int) -> None:
    assert size_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "MB", "10 apples", "-1MB", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size_bytes(text)


def test_times() -> None:
    assert duration_s("7d") == 7 * DAY
    assert duration_s("250ms") == 0.25
    with pytest.raises(argparse.ArgumentTypeError, match="as in 7d"):
        duration_s("7")


def test_amounts_are_shown_as_people_say_them() -> None:
    assert [shown_bytes(amount) for amount in (0, 999, 1000, 61.6 * GB, 999.6 * GB, 3e15)] == [
        *("0 B", "999 B", "1.0 kB", "61.6 GB", "1.0 TB", "3.0 PB")
    ]
    assert [shown_seconds(amount) for amount in (0.2, 90, 150, 2 * HOUR, 7 * DAY, inf)] == [
        *("0.2 s", "90 s", "2.5 min", "2 h", "7 d", "ever")
    ]


def test_disk_keeps_what_is_not_old_enough_and_the_segment_that_is_filling() -> None:
    made = plan(load())
    # 1 MB/s a partition: 1000 s of retention, 100 s for a segment, 360 s until files are gone.
    assert made.need("disk of a partition").value == 1460 * MB
    of_a_broker = 12 * 1460 * MB * (1 + 20 / 4096) + 6 * 5 * 32 * 1024 * 1024
    assert made.need("disk of a broker").value == pytest.approx(of_a_broker / 0.5)
    assert made.warnings == []


def test_disk_is_what_the_stricter_of_time_and_size_leaves() -> None:
    small = plan(load(retention_bytes=300 * MB)).need("disk of a partition")
    assert small.value == (300 + 100 + 360) * MB
    assert small.advice == "retention.bytes=300000000"
    large = plan(load(retention_bytes=300 * GB)).need("disk of a partition")
    assert large.value == 1460 * MB
    forever = plan(load(retention_s=inf)).need("disk of a partition")
    assert forever.value == 365 * DAY * MB
    assert forever.shown.endswith(" a year")


def test_compaction_needs_room_for_what_is_not_clean_yet() -> None:
    made = plan(load(is_compacted=True, keys=12_000_000))
    # A million keys of a kilobyte, as much again before it is cleaned, and the active segment.
    assert made.need("disk of a partition").value == 2 * GB + 100 * MB
    assert "while one is cleaned" in made.need("disk of a broker").how
    assert "cleaner" in made.need("memory of a broker").how
    unknown = plan(load(is_compacted=True))
    assert any("--keys" in warning for warning in unknown.warnings)


def test_memory_and_descriptors_follow_replicas_segments_and_connections() -> None:
    made = plan(load())
    segments, connections = 16, 10 + 4
    assert made.need("memory of a broker").value == (
        IDLE_BYTES
        + 12 * (REPLICA_BYTES + segments * SEGMENT_BYTES + 1000 * INDEX_ENTRY_BYTES)
        + connections * CONNECTION_BYTES
    )
    # The index has no more entries than one for 4096 bytes.
    small = plan(load(batch_bytes=100)).need("memory of a broker")
    more = 12 * (100 * MB / 4096 - 1000) * INDEX_ENTRY_BYTES
    assert small.value - made.need("memory of a broker").value == pytest.approx(more)
    assert made.need("descriptors of a broker").value == 24 + connections + IDLE_DESCRIPTORS
    assert made.need("page cache of a broker").value == 10 * 12 * MB


def test_network_counts_copies_and_readers() -> None:
    made = plan(load())
    assert made.need("network in, a broker").value == 12 * MB
    assert made.need("network out, a broker").value == 16 * MB  # 4 MB/s led, 2 + 2 times.
    alone = plan(load(brokers=1, replication_factor=1))
    assert alone.need("network in, a broker").value == 12 * MB
    assert "nobody can give" in alone.need("network in, a broker").advice


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"brokers": 1, "replication_factor": 1}, "a lost disk is lost data"),
        ({"replication_factor": 2}, "min.insync.replicas=1"),
        ({"rate_bytes": 1000, "retention_s": HOUR}, "set segment.ms=360000"),
        ({"segment_bytes": 10 * MB}, "raise segment.bytes"),
        ({"retention_bytes": 10 * MB}, "lower segment.bytes"),
        ({"partitions": 12_000}, "a process here may open 20000"),
        ({"partitions": 12_000}, "12000 replicas on a broker"),
        ({"partitions": 2}, "some lead nothing"),
        ({"rate_bytes": 100 * MB, "segment_bytes": GB}, "a faster network"),
        ({"rate_bytes": 600 * MB, "segment_bytes": GB}, "are busy for"),
    ],
)
def test_warnings(changes: dict[str, object], warning: str) -> None:
    found = plan(load(**changes)).warnings
    assert any(warning in one for one in found), found


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["sizing", "--rate", "10MB", "--retention", "7d", "--partitions", "100"]
    assert main([*flags, "--brokers", "3", "--replication-factor", "3"]) == 0
    said = capsys.readouterr().out
    assert "disk of a partition      61.6 GB\n" in said
    assert "= 100 kB/s x (7 d retention + 2.98 h" in said
    assert "retention.ms=604800000" in said
    assert max(map(len, said.splitlines())) <= 100


def test_the_command_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["sizing", "--rate", "1MB", "--retention", "forever", "--brokers", "1", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert {"name", "value", "shown", "formula", "advice"} == told["needs"][0].keys()
    assert any("lost data" in warning for warning in told["warnings"])


@pytest.mark.parametrize(
    "flags",
    [
        ["--rate", "1MB", "--replication-factor", "4"],
        ["--rate", "1MB", "--segment-bytes", "0"],
        ["--rate", "1MB", "--segment-time", "0s"],
        ["--rate", "fast"],
        ["--rate", "1MB", "--free-percent", "100"],
        [],
    ],
)
def test_what_cannot_be_computed(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sizing", *flags]) == 2
    assert "odradek sizing" in capsys.readouterr().err


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("200", 100), ("10", 40)])
def test_lines_fit_the_terminal(
    columns: str,
    width: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    terminal_columns.cache_clear()
    assert main(["sizing", "--rate", "10MB"]) == 0
    terminal_columns.cache_clear()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width


def test_what_is_assumed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sizing", "--rate", "1MB", "--brokers", "2"]) == 0
    said = capsys.readouterr()
    assert said.err == (
        "hint: assumed are --partitions 12, --retention 7d, --replication-factor 2; give your own"
        " for figures that fit\n"
    )
    given = ["--partitions", "12", "--retention", "7d", "--replication-factor", "2"]
    assert main(["sizing", "--rate", "1MB", "--brokers", "2", *given]) == 0
    assert capsys.readouterr() == (said.out, "")
    assert main(["sizing", "--rate", "1MB", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["assumed"] == ["--brokers 3"]
