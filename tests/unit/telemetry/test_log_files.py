import errno
from collections.abc import Sequence

from odradek.telemetry.log_files import RollingFile
from odradek.world import MemoryDisk
from odradek.world.disk import Buffer


class HandClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


def missing(count: int) -> bytes:
    return b"%d missing\n" % count


def ignore(complaint: str) -> None: ...


def lines(disk: MemoryDisk, path: str = "/logs/server.log") -> list[str]:
    return disk.read(path).decode().splitlines()


def test_a_file_is_appended_to() -> None:
    disk = MemoryDisk()
    for number in range(3):
        file = RollingFile(disk, HandClock(), "/logs/server.log", ignore)
        file.write(b"%d\n" % number, missing)
        file.close()
    assert lines(disk) == ["0", "1", "2"]


def test_full_files_are_numbered_and_only_so_many_kept() -> None:
    disk = MemoryDisk()
    file = RollingFile(disk, HandClock(), "/logs/server.log", ignore, max_bytes=4, max_backups=2)
    for number in range(9):
        file.write(b"%d\n" % number, missing)
    assert lines(disk) == ["8"]
    assert lines(disk, "/logs/server.log.1") == ["6", "7"]
    assert lines(disk, "/logs/server.log.2") == ["4", "5"]
    assert disk.list_directory("/logs") == ["server.log", "server.log.1", "server.log.2"]
    assert file.lost == 0


def test_fewer_kept_files_than_before_leave_none_over() -> None:
    disk = MemoryDisk()
    for kept in (3, 1, 0):
        file = RollingFile(
            disk, HandClock(), "/logs/server.log", ignore, max_bytes=2, max_backups=kept
        )
        for number in range(6):
            file.write(b"%d\n" % number, missing)
        assert len(disk.list_directory("/logs")) == kept + 1
        file.close()
    assert lines(disk) == ["5"]


def test_a_line_longer_than_a_file_is_a_file() -> None:
    disk = MemoryDisk()
    file = RollingFile(disk, HandClock(), "/logs/server.log", ignore, max_bytes=3, max_backups=1)
    file.write(b"a long one\n", missing)
    file.write(b"b\n", missing)
    assert (lines(disk), lines(disk, "/logs/server.log.1")) == (["b"], ["a long one"])


def test_a_removed_directory_comes_back() -> None:
    disk, clock = MemoryDisk(), HandClock()
    file = RollingFile(disk, clock, "/logs/server.log", ignore)
    file.write(b"before\n", missing)
    disk.remove_tree("/logs")
    file.write(b"nobody sees it\n", missing)
    clock.now_s = 1.5
    file.write(b"after\n", missing)
    assert lines(disk) == ["after"]


class FullFile:
    def size(self) -> int:
        return 0

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None: ...


class FullDisk(MemoryDisk):
    full = False
    opened = 0

    def open(self, path: str, *, create: bool = False, writable: bool = True):  # type: ignore[no-untyped-def]
        self.opened += 1
        return FullFile() if self.full else super().open(path, create=create, writable=writable)


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    disk, clock = FullDisk(), HandClock()
    disk.full = True
    complaints: list[str] = []
    file = RollingFile(disk, clock, "/logs/server.log", complaints.append)
    for number in range(3):
        file.write(b"%d\n" % number, missing)
    assert (file.lost, disk.opened) == (3, 1), "it is not tried again at once"
    clock.now_s = 2.0
    file.write(b"3\n", missing)
    assert (file.lost, disk.opened) == (4, 2)
    (complaint,) = complaints
    assert complaint.startswith("cannot write /logs/server.log: No space left on device; ")
    disk.full = False
    clock.now_s = 4.0
    file.write(b"4\n", missing)
    file.write(b"5\n", missing)
    assert lines(disk) == ["4 missing", "4", "5"]
    assert file.lost == 4
    assert len(complaints) == 1


def test_two_writers_do_not_overwrite_each_other() -> None:
    disk = MemoryDisk()
    both = [RollingFile(disk, HandClock(), "/logs/server.log", ignore) for _ in range(2)]
    for number in range(4):
        both[number % 2].write(b"%d\n" % number, missing)
    assert lines(disk) == ["0", "1", "2", "3"]
