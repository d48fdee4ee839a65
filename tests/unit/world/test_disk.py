"""The disk in memory behaves as the machine's own, as far as anyone above can see."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.world import Disk, MemoryDisk, OsDisk
from odradek.world.disk import make_private


@pytest.fixture(params=["machine", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "machine":
        return OsDisk(), str(tmp_path)
    disk = MemoryDisk()
    disk.make_directories("/place")
    return disk, "/place"


def write(disk: Disk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, [content])
    file.close()


def test_reads_end_where_the_file_ends(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/f", create=True)
    file.write_at(0, [b"abc", b"", memoryview(b"def")])
    file.write_at(2, [b"X"])
    assert (file.read_at(0, 100), file.read_at(4, 1), file.read_at(6, 5)) == (b"abXdef", b"e", b"")
    file.truncate(2)
    assert (file.size(), disk.size(f"{root}/f")) == (2, 2)
    file.write_at(4, [b"z"])
    assert file.read_at(0, 9) == b"ab\0\0z"
    file.close()


def test_more_buffers_than_one_system_call_takes(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/f", create=True)
    file.write_at(0, [b"%d," % number for number in range(3000)])
    assert file.read_at(0, 1 << 20) == b"".join(b"%d," % number for number in range(3000))
    file.close()


def test_an_open_file_outlives_its_name(place: tuple[Disk, str]) -> None:
    disk, root = place
    write(disk, f"{root}/f", b"here")
    file = disk.open(f"{root}/f", writable=False)
    disk.remove(f"{root}/f")
    assert not disk.exists(f"{root}/f")
    assert file.read_at(0, 4) == b"here"
    file.close()


def test_directories_are_made_listed_renamed_and_removed(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directories(f"{root}/a/b")
    disk.make_directories(f"{root}/a/b")
    write(disk, f"{root}/a/b/two", b"2")
    write(disk, f"{root}/a/one", b"1")
    assert disk.list_directory(f"{root}/a") == ["b", "one"]
    disk.rename(f"{root}/a", f"{root}/c")
    assert not disk.exists(f"{root}/a")
    assert disk.read(f"{root}/c/b/two") == b"2"
    disk.remove_tree(f"{root}/c")
    assert disk.list_directory(root) == []


def test_a_rename_replaces(place: tuple[Disk, str]) -> None:
    disk, root = place
    write(disk, f"{root}/old", b"old")
    disk.replace(f"{root}/new", b"new")
    disk.rename(f"{root}/new", f"{root}/old")
    assert disk.list_directory(root) == ["old"]
    assert disk.read(f"{root}/old") == b"new"


@pytest.mark.parametrize(
    "use",
    [
        lambda disk, path: disk.open(path),
        lambda disk, path: disk.read(path),
        lambda disk, path: disk.size(path),
        lambda disk, path: disk.remove(path),
        lambda disk, path: disk.list_directory(path),
        lambda disk, path: disk.rename(path, path + "2"),
        lambda disk, path: disk.open(path + "/below", create=True),
    ],
)
def test_what_is_missing_is_said_to_be(
    place: tuple[Disk, str], use: Callable[[Disk, str], object]
) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError) as raised:
        use(disk, f"{root}/nothing")
    assert raised.value.errno == errno.ENOENT


def test_a_lock_is_held_once(place: tuple[Disk, str]) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    lock.release()
    disk.lock(f"{root}/.lock").release()


def test_nobody_else_may_read_what_a_broker_writes(tmp_path: Path) -> None:
    disk, root = OsDisk(), f"{tmp_path}/logs/of/a/broker"
    before = os.umask(0o022)
    try:
        disk.make_directories(root)
        write(disk, f"{root}/file", b"secret")
        disk.replace(f"{root}/checkpoint", b"secret")
        disk.allocate(f"{root}/reserve", 10)
        disk.lock(f"{root}/.lock").release()
        (tmp_path / "old").touch(0o644)
        make_private(f"{tmp_path}/old")
        make_private(f"{tmp_path}/new")
    finally:
        os.umask(before)
    for directory, _, names in os.walk(tmp_path / "logs"):
        assert os.stat(directory).st_mode & 0o777 == 0o700
        for name in names:
            assert os.stat(f"{directory}/{name}").st_mode & 0o777 == 0o600
    for name in ("old", "new"):
        assert os.stat(tmp_path / name).st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        disk.make_directories(f"{root}/file")
