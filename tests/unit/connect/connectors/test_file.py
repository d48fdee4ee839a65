"""The file connectors: lines in, lines out, through rotation, truncation and repetition."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from odradek.connect.connectors.file_sink import FileSink, FileSinkSettings
from odradek.connect.connectors.file_source import FileSource, FileSourceSettings, FileSourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.data import schemas
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import SinkRecord


def source(path: Path, **more: str) -> FileSource:
    return FileSource(FileSourceSettings.read({"file": str(path), "topic": "t", **more}))


Open = Callable[..., FileSourceTask]


@pytest.fixture
def opened(path: Path) -> Iterator[Open]:
    """Makes tasks that are closed at the end."""
    with ExitStack() as tasks:

        def make(**more: str) -> FileSourceTask:
            return tasks.enter_context(closing(source(path, **more).task()))

        yield make


class Reader:
    """An engine in small: it reads what is new and remembers how far it came."""

    def __init__(self, task: FileSourceTask) -> None:
        self.task = task
        self.positions = Positions()

    @property
    def offset(self) -> Any:
        return self.positions.of(self.task.partition())

    def lines(self, max_records: int = 1000) -> list[str]:
        while (end := self.task.reach(self.positions, max_records)) != self.positions:
            records = [*self.task.read(self.positions, end)]
            assert [*self.task.read(self.positions, end)] == records  # It can be read again.
            self.positions = end
            if records:
                assert records[-1].source_offset == self.offset
                return [record.value for record in records]
        return []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


def test_complete_lines_are_read_as_they_come(path: Path, opened: Open) -> None:
    reader = Reader(opened())
    assert reader.lines() == []  # There is no file yet.
    path.write_bytes(b"one\ntwo\r\nthr")
    assert reader.lines() == ["one", "two"]
    assert reader.offset == {"position": 9}
    assert reader.lines() == []
    with path.open("ab") as file:
        file.write("ee\n\nfünf\n".encode())
    assert reader.lines() == ["three", "", "fünf"]


def test_records_say_where_they_are_from(path: Path, opened: Open) -> None:
    path.write_text("one\n")
    task = opened()
    (record,) = task.read(Positions(), Positions([(task.partition(), {"position": 4})]))
    assert (record.topic, record.value, record.value_schema) == ("t", "one", schemas.STRING)
    assert record.source_partition == {"filename": str(path)} == task.partition()
    assert record.source_offset == {"position": 4}


def test_a_batch_is_bounded(path: Path, opened: Open) -> None:
    path.write_text("".join(f"{number}\n" for number in range(50_000)))
    reader = Reader(opened(**{"batch.size": "300"}))
    assert reader.lines(1000) == [str(number) for number in range(300)]
    assert reader.lines(20) == [str(number) for number in range(300, 320)]
    whole = Reader(opened(**{"batch.size": "100000"}))
    assert len(whole.lines(100_000)) == 50_000


def test_a_file_that_is_rotated_is_read_to_its_end(path: Path, opened: Open) -> None:
    path.write_text("one\n")
    reader = Reader(opened())
    assert reader.lines() == ["one"]
    with path.open("a") as file:
        path.rename(path.with_suffix(".old"))
        file.write("two\n")
        path.write_text("three\nfour\n")
    assert reader.lines() == ["two"]
    assert reader.lines() == ["three", "four"]
    assert reader.offset == {"position": 11}


def test_a_file_that_is_truncated_is_read_from_its_start(path: Path, opened: Open) -> None:
    path.write_text("one\ntwo\n")
    reader = Reader(opened())
    assert reader.lines() == ["one", "two"]
    path.write_text("new\n")
    assert reader.lines() == ["new"]
    assert reader.offset == {"position": 4}


def test_reading_goes_on_after_a_restart(path: Path, opened: Open) -> None:
    path.write_text("one\ntwo\n")
    reader = Reader(opened())
    reader.lines(1)
    again = Reader(opened())
    again.positions = reader.positions
    assert again.lines() == ["two"]


def test_a_file_that_cannot_be_read_says_why(path: Path, opened: Open) -> None:
    path.mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        opened().reach(Positions(), 1)


def test_settings_and_offsets_are_checked(path: Path) -> None:
    with pytest.raises(InvalidConfig, match='Missing required configuration "topic"'):
        FileSourceSettings.read({"file": "x"})
    with pytest.raises(InvalidConfig, match=r'"topic" which .* Is topc meant to be it\?'):
        FileSourceSettings.read({"file": "x", "topc": "t", "name": "n"})
    connector = source(path)
    connector.check_offset({"filename": "x"}, {"position": 5})
    connector.check_offset({"filename": "x"}, None)
    for partition, offset in [
        ({"file": "x"}, {"position": 5}),
        ({"filename": "x"}, {"position": -1}),
        ({"filename": "x"}, {"place": 5}),
    ]:
        with pytest.raises(DataError):
            connector.check_offset(partition, offset)


def test_a_sink_appends_lines(path: Path) -> None:
    task = FileSink(FileSinkSettings.read({"file": str(path)})).task()
    task.write([SinkRecord("t", value="one"), SinkRecord("t", value=2)])
    task.write([SinkRecord("t", value=None)])
    task.close()
    assert path.read_text() == "one\n2\nnull\n"


def test_a_sink_leaves_no_half_a_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = FileSink(FileSinkSettings.read({"file": str(path)})).task()
    task.write([SinkRecord("t", value="one")])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        task.write([SinkRecord("t", value="two")])
    task.close()
    assert path.read_text() == "one\n"


def test_a_sink_takes_back_no_line_of_another_task(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = FileSinkSettings.read({"file": str(path)})
    task, other = FileSink(settings).task(), FileSink(settings).task()
    sync = os.fsync
    writing = threading.Thread(target=lambda: other.write([SinkRecord("t", value="other")]))

    def full(file: int) -> None:
        if threading.current_thread() is writing:
            sync(file)
            return
        writing.start()
        writing.join(0.2)  # It waits for this call; without the lock it would be done now.
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with closing(task), closing(other):
        with pytest.raises(DataError, match="No space left"):
            task.write([SinkRecord("t", value="one")])
        writing.join()
    assert path.read_text() == "other\n"
