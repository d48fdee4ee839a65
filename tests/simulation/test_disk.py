"""The simulated disk: what survives a crash, what may not, and injected faults."""

import errno
import posixpath
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.world.disk import Disk
from odradek.world.memory_disk import MemoryDisk
from simulation.disk import PowerCut, SimulatedDisk
from simulation.pages import PAGE_BYTES

seeds = st.integers(0, 2**32)
quick = settings(deadline=None, max_examples=150)


def disk_of(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_directories("/data")
    disk.sync_directory("/")
    return disk


def test_it_is_a_disk() -> None:
    disk: Disk = disk_of()
    assert disk.list_directory("/data") == []


def test_files_behave_as_on_any_disk() -> None:
    disk = disk_of()
    file = disk.open("/data/a", create=True)
    file.write_at(3, [b"ab", memoryview(b"cd")])
    assert file.read_at(0, 100) == b"\0\0\0abcd"
    assert (file.size(), disk.size("/data/a")) == (7, 7)
    file.truncate(4)
    file.truncate(6)
    assert disk.read("/data/a") == b"\0\0\0a\0\0"
    disk.rename("/data/a", "/data/b")
    disk.remove("/data/b")
    assert file.read_at(3, 1) == b"a"
    file.close()
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.size()
    with pytest.raises(FileNotFoundError):
        disk.open("/data/b")
    with pytest.raises(FileNotFoundError):
        disk.open("/nowhere/b", create=True)


def test_directories_behave_as_on_any_disk() -> None:
    disk = disk_of()
    disk.make_directories("/data/x/y")
    disk.replace("/data/x/y/f", b"1")
    disk.rename("/data/x", "/data/z")
    assert disk.list_directory("/data") == ["z"]
    assert disk.read("/data/z/y/f") == b"1"
    assert disk.list_directory("/data/z/y") == ["f"]
    with pytest.raises(IsADirectoryError):
        disk.remove("/data/z")
    disk.remove_tree("/data/z")
    assert not disk.exists("/data/z/y/f")
    with pytest.raises(FileNotFoundError):
        disk.list_directory("/data/z")


def test_a_lock_is_exclusive_until_its_process_dies() -> None:
    disk = disk_of()
    lock = disk.lock("/data/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/data/.lock")
    lock.release()
    stale = disk.lock("/data/.lock")
    disk.drop_handles()
    disk.lock("/data/.lock")
    stale.release()
    with pytest.raises(BlockingIOError):
        disk.lock("/data/.lock")


def test_a_killed_process_loses_its_handles_and_no_data() -> None:
    disk = disk_of()
    file = disk.open("/data/a", create=True)
    file.write_at(0, [b"unsynced"])
    disk.drop_handles()
    with pytest.raises(OSError, match="dead"):
        file.read_at(0, 1)
    assert disk.read("/data/a") == b"unsynced"


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3 * PAGE_BYTES)),
        st.tuples(st.just("sync"), st.just(0)),
    ),
    max_size=15,
)


@quick
@given(operations, seeds)
def test_a_synced_prefix_survives_and_the_rest_is_old_new_or_zero(
    steps: list[tuple[str, int]], seed: int
) -> None:
    disk = disk_of(seed)
    file = disk.open("/data/log", create=True)
    disk.sync_directory("/data")
    written, synced = bytearray(), 0
    for number, (operation, size) in enumerate(steps):
        if operation == "sync":
            file.sync()
            synced = len(written)
        else:
            data = bytes([number + 1]) * size
            file.write_at(len(written), [data])
            written += data
    disk.crash()
    after = disk.read("/data/log")
    assert after[:synced] == written[:synced]
    assert synced <= len(after) <= len(written)
    assert all(a in (0, b) for a, b in zip(after, written, strict=False))
    with pytest.raises(OSError, match="dead"):
        file.sync()


@quick
@given(
    st.lists(st.tuples(st.integers(0, 5 * PAGE_BYTES), st.integers(1, 2 * PAGE_BYTES)), max_size=8),
    st.integers(0, 5 * PAGE_BYTES),
    seeds,
)
def test_overwritten_bytes_are_old_or_new(
    writes: list[tuple[int, int]], cut: int, seed: int
) -> None:
    disk = disk_of(seed)
    file = disk.open("/data/f", create=True)
    disk.sync_directory("/data")
    file.write_at(0, [b"o" * (4 * PAGE_BYTES)])
    file.sync()
    for position, size in writes:
        file.write_at(position, [b"n" * size])
    if cut < file.size():
        file.truncate(cut)
    touched = {byte for position, size in writes for byte in range(position, position + size)}
    disk.crash()
    after = disk.read("/data/f")
    for position, byte in enumerate(after):
        if position in touched:
            assert byte in b"on\0"
        elif position < min(cut, 4 * PAGE_BYTES):
            assert byte == ord("o")
        else:
            assert byte in b"o\0"


def test_every_kind_of_loss_happens() -> None:
    """Nothing kept, everything kept, a prefix, holes: over some seeds each is seen."""
    kinds = set()
    for seed in range(200):
        disk = disk_of(seed)
        file = disk.open("/data/log", create=True)
        disk.sync_directory("/data")
        file.write_at(0, [b"x" * (8 * PAGE_BYTES + 10)])
        disk.crash()
        after = disk.read("/data/log")
        if not after:
            kinds.add("nothing")
        elif after == b"x" * (8 * PAGE_BYTES + 10):
            kinds.add("everything")
        elif after == b"x" * len(after):
            kinds.add("prefix")
        elif b"\0x" in after:
            kinds.add("holes")
    assert kinds == {"nothing", "everything", "prefix", "holes"}


@quick
@given(st.lists(st.binary(max_size=3 * PAGE_BYTES), min_size=1, max_size=4), seeds, st.data())
def test_replace_is_atomic_and_durable(
    contents: list[bytes], seed: int, data: st.DataObject
) -> None:
    disk = disk_of(seed)
    disk.cut_power_after(data.draw(st.integers(0, 8 * len(contents))))
    last: bytes | None = None
    tried: bytes | None = None
    try:
        for content in contents:
            tried = content
            disk.replace("/data/f", content)
            last = content
    except PowerCut:
        pass
    else:
        disk.crash()
    disk.power_on()
    found = disk.read("/data/f") if disk.exists("/data/f") else None
    assert found in (last, tried)


def test_replace_without_its_sync_would_not_be_durable() -> None:
    """The property above can fail: leave a step out, and some seed loses the file."""
    outcomes = set()
    for seed in range(50):
        disk = disk_of(seed)
        disk.replace("/data/f", b"old")
        file = disk.open("/data/f.tmp", create=True)
        file.write_at(0, [b"new"])
        disk.rename("/data/f.tmp", "/data/f")
        disk.crash()
        outcomes.add(disk.read("/data/f"))
    assert outcomes > {b"old", b"new"}


def test_a_name_is_durable_once_its_directory_was_synced() -> None:
    undone = 0
    for seed in range(50):
        disk = disk_of(seed)
        disk.open("/data/synced", create=True)
        disk.open("/data/gone", create=True)
        disk.remove("/data/gone")
        disk.sync_directory("/data")
        disk.open("/data/unsynced", create=True).sync()
        disk.rename("/data/synced", "/data/renamed")
        disk.crash()
        names = disk.list_directory("/data")
        assert ("synced" in names) != ("renamed" in names)
        assert "gone" not in names
        if "renamed" in names:
            assert "unsynced" in names  # changes are undone from the latest back
        undone += "unsynced" not in names
    assert 0 < undone < 50


def test_a_failed_sync_loses_its_pages_and_the_next_one_lies() -> None:
    disk = disk_of()
    file = disk.open("/data/f", create=True)
    disk.sync_directory("/data")
    file.write_at(0, [b"a" * PAGE_BYTES])
    file.sync()
    file.write_at(PAGE_BYTES, [b"b" * PAGE_BYTES])
    disk.fail_next("sync")
    with pytest.raises(OSError, match="injected") as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    file.sync()  # succeeds, and brings nothing
    file.write_at(2 * PAGE_BYTES, [b"c" * PAGE_BYTES])
    file.sync()
    assert file.read_at(PAGE_BYTES, PAGE_BYTES) == b"b" * PAGE_BYTES
    disk.crash()
    content = disk.read("/data/f")
    assert content == b"a" * PAGE_BYTES + bytes(PAGE_BYTES) + b"c" * PAGE_BYTES


def test_faults_hit_the_operations_and_paths_they_name() -> None:
    disk = disk_of()
    disk.make_directories("/data/one")
    disk.make_directories("/data/two")
    one = disk.open("/data/one/f", create=True)
    two = disk.open("/data/two/f", create=True)
    disk.fail_next("write", errno.ENOSPC, under="/data/one", times=2)
    two.write_at(0, [b"fine"])
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            one.write_at(0, [b"not fine"])
    one.write_at(0, [b"fine"])
    disk.fail_next("read")
    disk.heal()
    assert two.read_at(0, 10) == b"fine"


def test_a_full_disk_takes_a_part_and_fails() -> None:
    disk = SimulatedDisk(Random(1), capacity_bytes=100)
    file = disk.open("/f", create=True)
    file.write_at(0, [bytes(90)])
    with pytest.raises(OSError, match="no space left"):
        file.write_at(90, [bytes(20)])
    assert 90 <= file.size() <= 100
    file.truncate(10)
    file.write_at(10, [bytes(90)])
    assert (disk.free_bytes("/"), disk.total_bytes("/")) == (0, 100)


def test_a_power_cut_strikes_in_the_middle() -> None:
    disk = disk_of()
    file = disk.open("/data/f", create=True)
    disk.cut_power_after(1)
    file.write_at(0, [b"x"])
    with pytest.raises(PowerCut):
        file.sync()
    with pytest.raises(OSError, match="dead"):
        file.sync()
    with pytest.raises(PowerCut):
        disk.open("/data/after", create=True)
    disk.power_on()
    assert disk.list_directory("/data") in ([], ["f"])


paths = st.sampled_from(["/d/a", "/d/b", "/d/c", "/e/a", "/e/b"])
steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "rename", "remove", "truncate", "replace", "list"]),
        paths,
        paths,
        st.integers(0, 2 * PAGE_BYTES),
    ),
    max_size=25,
)


@quick
@given(steps)
def test_without_crashes_it_equals_the_disk_in_memory(
    commands: list[tuple[str, str, str, int]],
) -> None:
    def play(disk: Disk) -> list[object]:
        seen: list[object] = []
        disk.make_directories("/d")
        disk.make_directories("/e")
        for number, (command, path, other, size) in enumerate(commands):
            try:
                if command == "write":
                    disk.open(path, create=True).write_at(size, [bytes([number]) * size])
                elif command == "rename":
                    disk.rename(path, other)
                elif command == "remove":
                    disk.remove(path)
                elif command == "truncate":
                    disk.open(path).truncate(size)
                elif command == "replace":
                    disk.replace(path, bytes([number]) * size)
                else:
                    seen.append(disk.list_directory(posixpath.dirname(path)))
            except FileNotFoundError:
                seen.append("missing")
        return seen

    memory, simulated = MemoryDisk(), SimulatedDisk(Random(0))
    assert play(memory) == play(simulated)
    assert simulated.snapshot() == {k: bytes(v) for k, v in sorted(memory.files.items())}
