"""Log files of several brokers, merged, filtered and followed."""

import os
from pathlib import Path

import pytest

from odradek.local.log_lines import Follower, LogLine, last_lines, lines_in, sources_of
from odradek.tools.failures import CommandFailed
from odradek.world.disk import OsDisk

DISK = OsDisk()


def line(second: int, message: str, level: str = "INFO") -> str:
    return f"[2026-11-15 11:25:{second:02d},316] {level} {message} (odradek.server)\n"


def object_line(second: int, message: str, level: str = "INFO") -> str:
    moment = f"2026-11-15T11:25:{second:02d}.316Z"
    return f'{{"timestamp":"{moment}","level":"{level}","message":"{message}"}}\n'


def everything(_: LogLine) -> bool:
    return True


def messages(lines: list[LogLine]) -> list[str]:
    return [f"{one.source} {one.text.split(' ')[3]}" for one in lines]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    for number in (1, 2):
        directory = tmp_path / f"broker-{number}"
        directory.mkdir()
        (directory / "server.properties").write_text(f"log.dirs={directory}\n")
    return tmp_path


def test_both_formats_and_the_lines_of_a_traceback() -> None:
    text = "  File of a message before\n" + line(1, "failed", "ERROR") + "    Traceback\n"
    text += object_line(2, "one") + "{not json\n"
    first, second = lines_in(text.encode(), "broker-1", "server.log")
    assert first.moment == "2026-11-15T11:25:01.316"
    assert first.level == "ERROR"
    assert first.text.endswith("(odradek.server)\n    Traceback")
    assert (second.moment, second.level) == ("2026-11-15T11:25:02.316", "INFO")


def test_lines_of_all_files_and_brokers_are_merged_by_time(cluster: Path) -> None:
    (cluster / "broker-1/server.log").write_text(line(1, "a") + line(4, "d"))
    (cluster / "broker-1/controller.log").write_text(line(3, "c"))
    (cluster / "broker-2/server.log").write_text(line(2, "b") + line(5, "e"))
    (cluster / "metadata.log").write_text(line(6, "f"))
    sources = sources_of(DISK, str(cluster))
    found = messages(last_lines(DISK, sources, 100, everything))
    assert found == [
        *("broker-1 a", "broker-2 b", "broker-1 c", "broker-1 d", "broker-2 e", "store f")
    ]
    assert messages(last_lines(DISK, sources, 2, everything)) == ["broker-2 e", "store f"]
    assert last_lines(DISK, sources, 0, everything) == []


def test_enough_is_read_from_the_end_and_from_files_that_were_closed(cluster: Path) -> None:
    directory = cluster / "broker-1"
    (directory / "server.log.2").write_text(line(1, "rare") * 2)
    (directory / "server.log.1").write_text(line(2, "often") * 5000)
    (directory / "server.log").write_text(line(3, "rare") + line(4, "often") * 5000)
    sources = sources_of(DISK, str(cluster))
    rare = last_lines(DISK, sources, 10, lambda one: "rare" in one.text)
    assert [one.moment[-6:-4] for one in rare] == ["01", "01", "03"]
    often = last_lines(DISK, sources, 6000, everything)
    assert len(often) == 6000
    assert often[0].moment < often[-1].moment


def test_places_where_logs_are(cluster: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    settings = tmp_path / "7.properties"
    settings.write_text(f"log.dirs=/data,/more\nodradek.logs.directory={elsewhere}\n")
    (source,) = sources_of(DISK, str(settings))
    assert (source.name, source.directory) == ("7", str(elsewhere))
    (tmp_path / "logs/2").mkdir(parents=True)
    (tmp_path / "logs/2/server.log").write_text("")
    (source,) = sources_of(DISK, str(tmp_path / "logs"))
    assert (source.name, source.directory) == ("2", str(tmp_path / "logs/2"))
    for place in ("logs/2/nothing", "broker-1"):
        with pytest.raises(CommandFailed, match=r"name (the data|a) directory"):
            sources_of(DISK, str(tmp_path / place))


def test_what_is_written_is_followed_through_a_roll_and_into_new_files(cluster: Path) -> None:
    path = cluster / "broker-1/server.log"
    path.write_text(line(1, "old"))
    follower = Follower(sources_of(DISK, str(cluster)), everything)
    assert follower.news() == []
    with path.open("a") as file:
        file.write(line(3, "b") + "[2026-11-15 11:25:04,316] INFO half")
    (cluster / "broker-2/server.log").write_text(line(2, "a"))
    assert messages(follower.news()) == ["broker-2 a", "broker-1 b"]
    with path.open("a") as file:
        file.write("-written (odradek.server)\n" + line(5, "c"))
    os.rename(path, f"{path}.1")
    path.write_text(line(6, "d"))
    assert messages(follower.news()) == [*("broker-1 half-written", "broker-1 c", "broker-1 d")]
    path.unlink()  # Somebody removed it; the broker makes it again.
    assert follower.news() == []
    path.write_text(line(7, "e"))
    assert messages(follower.news()) == ["broker-1 e"]
    follower.close()
