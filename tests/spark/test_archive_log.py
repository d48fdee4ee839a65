"""The log of an archive on a real directory: who may decide, and what is finished by whom."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import DataFile
from odradek.spark.archive.filesystem import Directory, FileAlreadyExists, FilesystemFailed
from odradek.spark.archive.log import Log, NoArchive, TakenOver, load, load_to_read
from tests.unit.spark.archive.files import data_file

pytestmark = pytest.mark.xdist_group("spark")

_PLACE = TopicPartition("t", 0)


def _staged(log: Log, where: Path, *files: DataFile) -> list[tuple[DataFile, str]]:
    """As if Spark had written them."""
    staging = log.staging()
    (where / staging).mkdir(parents=True)
    found = []
    for one in files:
        (where / staging / one.name).write_text(one.name)
        found.append((one, f"{staging}/{one.name}"))
    return found


def test_of_many_who_make_a_file_one_succeeds(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(spark, str(tmp_path))
    directory.create_once("a/b", b"\0first", scratch="s/1")
    with pytest.raises(FileAlreadyExists):
        directory.create_once("a/b", b"second", scratch="s/2")
    assert directory.read("a/b") == b"\0first"
    assert directory.list("s") == directory.list("nowhere") == []
    with pytest.raises(FilesystemFailed, match="cannot be read"):
        directory.read("nowhere")
    with pytest.raises(FilesystemFailed, match="cannot be used"):
        Directory(spark, "nosuchscheme://x/y")
    # The way of other filesystems does not overwrite either.
    source, target = directory._path("s/3"), directory._path("a/c")
    for text in (b"first", b"second"):
        directory._write(source, text)
        if text == b"second":
            with pytest.raises(Exception, match="FileAlreadyExists"):
                directory._rename_once(source, target)
        else:
            directory._rename_once(source, target)
    assert directory.read("a/c") == b"first"


def test_a_committed_entry_is_synced_with_its_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop's local filesystem syncs nothing by itself."""
    synced: list[str] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    log = Log(Directory(spark, str(tmp_path)))
    entries = str(tmp_path / "_odradek" / "log")
    assert entries in synced
    assert any("/scratch/" in path for path in synced)
    synced.clear()
    log.append(_staged(log, tmp_path, data_file(0, 0, 0)), {_PLACE: 1}, [])
    (name,) = log.state.files
    assert synced.index(entries) < synced.index(str((tmp_path / name).parent))


def test_what_happens_to_the_scratch_file_decides_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On other filesystems than local ones."""
    directory = Directory(spark, str(tmp_path))
    monkeypatch.setattr(directory, "local_path", lambda path: None)
    deletes = _Deletes(directory._fs, directory._jvm)
    directory._fs = deletes
    directory.create_once("a/b", b"first", scratch="s/1")
    assert directory.read("a/b") == b"first"
    assert deletes.paths == [directory.full_path("s/1")]
    # Nothing is left of an entry that cannot be written.
    monkeypatch.setattr(directory, "_rename_once", deletes.fail)
    with pytest.raises(FilesystemFailed, match="cannot be written"):
        directory.create_once("a/c", b"second", scratch="s/2")
    monkeypatch.setattr(directory, "_write", deletes.fail)
    with pytest.raises(FilesystemFailed, match="cannot be written"):
        directory.create_once("a/d", b"third", scratch="s/3")
    assert deletes.paths[1:] == [directory.full_path("s/2"), directory.full_path("s/3")]


class _Deletes:
    """A filesystem whose deletions fail; it notes them."""

    def __init__(self, filesystem: Any, jvm: Any) -> None:
        self._filesystem = filesystem
        self._jvm = jvm
        self.paths: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)

    def delete(self, path: Any, _: bool) -> None:
        self.paths.append(str(path.toString()))
        self.fail()

    def fail(self, *_: object) -> None:
        """Raises an exception of Java, for a file that does not exist."""
        self._filesystem.open(self._jvm.org.apache.hadoop.fs.Path("/nowhere"))


def test_many_entries_are_read_from_the_last_state(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(spark, str(tmp_path))
    with pytest.raises(NoArchive, match="holds no archive"):
        load_to_read(directory)
    log = Log(directory)
    for at in range(40):
        added = _staged(log, tmp_path, data_file(0, at, at))
        log.append(added, {_PLACE: at + 1}, [])
    log.close()
    assert sorted(one.name for one in directory.list("_odradek/log") if "state" in one.name) == [
        f"{31:020d}.state"
    ]
    # What stands before the state is not needed any more.
    (tmp_path / f"_odradek/log/{5:020d}.json").unlink()
    state, last = load(directory)
    assert last is not None
    assert (state.number, last.number, state.offsets, len(state.files)) == (
        40,
        40,
        {_PLACE: 40},
        40,
    )
    assert len(list(tmp_path.glob("topic=t/*/*/*.parquet"))) == 40
    assert state.archive_id == log.run


def test_a_newer_run_ends_an_older_one(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(spark, str(tmp_path))
    older = Log(directory)
    added = _staged(older, tmp_path, data_file(0, 0, 9))
    newer = Log(directory)
    with pytest.raises(TakenOver, match="another run"):
        older.append(added, {_PLACE: 10}, [])
    older.close()
    newer.append(_staged(newer, tmp_path, data_file(0, 0, 9)), {_PLACE: 10}, [])
    assert load_to_read(directory).offsets == {_PLACE: 10}
    assert len(list(tmp_path.glob("topic=t/*/*/*.parquet"))) == 1


def test_what_is_decided_survives_a_run_that_cannot_finish_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Directory(spark, str(tmp_path))
    log = Log(directory)
    added = _staged(log, tmp_path, data_file(0, 0, 4), data_file(0, 5, 9))
    moved: list[str] = []

    def move_one(source: str, target: str) -> None:
        if moved:
            raise FilesystemFailed("the disk is full")
        moved.append(target)
        Directory.rename(directory, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(directory, "rename", move_one)
        with pytest.raises(FilesystemFailed):
            log.append(added, {_PLACE: 10}, [])
        with pytest.raises(TakenOver, match="begin another run"):
            log.append(added, {_PLACE: 10}, [])
        log.close()
    state = load_to_read(directory)
    assert sorted(state.files) == sorted(
        str(one.relative_to(tmp_path)) for one in tmp_path.glob("topic=t/*/*/*.parquet")
    )
    assert len(state.files) == 2
