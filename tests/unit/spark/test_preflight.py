"""Paths are checked before Java starts."""

import os
from pathlib import Path

import pytest

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import LOG, Entry
from odradek.spark.preflight import BadPath, check_archived_topic, check_directory


def test_a_directory_that_no_filesystem_takes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc does to everybody, whatever its mode says."""

    def refuse(path: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    archive = tmp_path / "a" / "b"
    check_directory("--to", str(archive), must_exist=False)
    assert not (tmp_path / "a").exists()
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(BadPath, match=rf"--to {archive} cannot be created in {tmp_path}: No such"):
        check_directory("--to", str(archive), must_exist=False)


def test_a_topic_that_is_not_archived_is_refused(tmp_path: Path) -> None:
    log = tmp_path / LOG
    log.mkdir(parents=True)
    with pytest.raises(BadPath, match="nothing is archived there yet; odradek archive --topic t "):
        check_archived_topic("--from", str(tmp_path), "t")
    entry = Entry(0, "run", "append", 1000, offsets=((TopicPartition("clicks", 0), 9),))
    (log / f"{0:020d}.json").write_bytes(entry.to_json())
    check_archived_topic("--from", str(tmp_path), "clicks")
    with pytest.raises(BadPath, match="topic cliks is not archived there; did you mean clicks"):
        check_archived_topic("--from", str(tmp_path), "cliks")
    with pytest.raises(BadPath, match="topic other is not archived there; there are clicks"):
        check_archived_topic("--from", str(tmp_path), "other")


def test_a_damaged_archive_is_left_to_the_archive(tmp_path: Path) -> None:
    log = tmp_path / LOG
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{")
    check_archived_topic("--from", str(tmp_path), "t")
