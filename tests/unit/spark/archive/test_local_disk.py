"""Entries of an archive's log on a local disk: made once, durable, without scratch left over."""

import errno
import os
from pathlib import Path

import pytest

from odradek.spark.archive import local_disk


def _record_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list to which each fsync adds the path of what it syncs, and each link its target.
    The calls are made."""
    calls: list[str] = []
    fsync, link = os.fsync, os.link

    def recorded_fsync(descriptor: int) -> None:
        calls.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def recorded_link(source: str, target: str) -> None:
        calls.append(f"link {target}")
        link(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "link", recorded_link)
    return calls


def _fails(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_data_and_name_are_synced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _record_calls(monkeypatch)
    path, scratch = tmp_path / "log" / "1.json", tmp_path / "scratch" / "run" / "1"
    local_disk.create_once(str(path), b"entry", str(scratch))
    assert path.read_bytes() == b"entry"
    assert calls[-3:] == [str(scratch), f"link {path}", str(path.parent)]
    # The new directories are durable in those above them.
    assert sorted(calls[:-3]) == [str(tmp_path), str(tmp_path), str(tmp_path / "scratch")]
    assert os.listdir(scratch.parent) == []


def test_the_second_of_two_is_refused(tmp_path: Path) -> None:
    path, scratch = str(tmp_path / "1.json"), str(tmp_path / "scratch")
    local_disk.create_once(path, b"first", scratch)
    with pytest.raises(FileExistsError):
        local_disk.create_once(path, b"second", scratch)
    assert os.listdir(tmp_path) == ["1.json"]
    assert Path(path).read_bytes() == b"first"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", _fails)
    with pytest.raises(OSError, match="Input/output error"):
        local_disk.create_once(str(tmp_path / "1.json"), b"entry", str(tmp_path / "scratch"))
    assert os.listdir(tmp_path) == []


def test_a_scratch_file_that_stays_does_not_undo_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "unlink", _fails)
    local_disk.create_once(str(tmp_path / "1.json"), b"entry", str(tmp_path / "scratch"))
    assert (tmp_path / "1.json").read_bytes() == b"entry"
    assert "cannot be deleted" in caplog.text


def test_directories_are_synced_with_those_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "topic" / "hour").mkdir(parents=True)
    calls = _record_calls(monkeypatch)
    root = str(tmp_path)
    local_disk.sync_directories(root, [f"{root}/topic/hour", f"{root}/gone"])
    assert calls == [root, f"{root}/topic", f"{root}/topic/hour"]


def test_a_filesystem_without_syncs_of_directories_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refused)
    local_disk.sync_directories(str(tmp_path), [])
