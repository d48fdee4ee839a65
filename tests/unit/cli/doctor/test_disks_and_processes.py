"""Disks that are full soon, log directories of brokers, and open files of a broker's process."""

import os
from pathlib import Path

import pytest

from odradek.cli.doctor.brokers import add_disk
from odradek.cli.doctor.disk_growth import check_growth
from odradek.cli.doctor.findings import Finding, Findings
from odradek.cli.doctor.processes import add_open_files, check_processes
from odradek.client.admin.broker_types import LogDirectory
from odradek.protocol.types import BrokerId
from odradek.world.disk import OsDisk

NOW_S = 1_800_000_000.0
DAY_S = 86_400


def segment(directory: Path, size: int, age_s: float) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{len(list(directory.iterdir())):020d}.log"
    with path.open("wb") as file:
        file.truncate(size)  # A hole: the size counts, and nothing is written.
    os.utime(path, (NOW_S - age_s, NOW_S - age_s))


@pytest.mark.parametrize("inside", ["", "broker-1/"])
def test_the_pace_of_the_last_day_says_when_the_disk_is_full(tmp_path: Path, inside: str) -> None:
    data = tmp_path / inside
    segment(data / "orders-0", 900_000_000, age_s=3600)
    segment(data / "orders-1", 100_000_000, age_s=23 * 3600)
    segment(data / "orders-1", 50_000_000_000, age_s=3 * DAY_S)
    (data / "orders-1/notes.log").write_text("no segment")
    (data / "meta.properties").write_text("")
    findings = Findings()
    check_growth(findings, str(tmp_path), free=3_000_000_000, now_s=NOW_S)
    assert findings.all == []
    check_growth(findings, str(tmp_path), free=500_000_000, now_s=NOW_S)
    (found,) = findings.all
    assert found.grade == "warning"
    assert "1.0 GB were written within a day, so the disk is full in about 12 h" in found.text
    assert found.type is not None


def test_little_that_was_written_says_nothing(tmp_path: Path) -> None:
    segment(tmp_path / "orders-0", 1000, age_s=1)
    findings = Findings()
    check_growth(findings, str(tmp_path), free=1, now_s=NOW_S)
    check_growth(findings, str(tmp_path / "missing"), free=1, now_s=NOW_S)
    assert findings.all == []


@pytest.mark.parametrize(
    ("total", "usable", "error", "grade", "words"),
    [
        (100, 50, 0, None, ""),
        (-1, -1, 0, None, ""),
        (10_000_000_000, 1_000_000_000, 0, "warning", "has 1.0 GB of 10.0 GB left"),
        (10_000_000_000, 100_000_000, 0, "wrong", "it will refuse records"),
        (0, 0, 56, "wrong", "has lost its log directory /data"),
    ],
)
def test_a_brokers_disk(total: int, usable: int, error: int, grade: str | None, words: str) -> None:
    findings = Findings()
    add_disk(findings, BrokerId(2), LogDirectory("/data", error, total, usable, {}))
    if grade is None:
        assert findings.all == []
        return
    (found,) = findings.all
    assert (found.check, found.grade) == ("broker 2", grade)
    assert words in found.text
    assert found.type == "odradek log-dirs --describe --broker-list 2"


def test_open_files_of_a_process() -> None:
    findings = Findings()
    add_open_files(findings, "process 7", 80, 100)
    add_open_files(findings, "process 7", 81, 100)
    assert [found.grade for found in findings.all] == ["ok", "wrong"]
    assert findings.all[1].type is not None


def test_the_process_of_a_broker_is_found_by_its_directory(tmp_path: Path) -> None:
    findings = Findings()
    check_processes(findings, str(tmp_path))
    assert findings.all == []
    (tmp_path / "broker.pid").write_text(f"{os.getpid()}\n")
    lock = OsDisk().lock(str(tmp_path / ".lock"))
    check_processes(findings, str(tmp_path))
    lock.release()
    (found,) = findings.all
    assert isinstance(found, Finding)
    assert found.check == f"process {os.getpid()}"
    assert found.grade == "ok"
