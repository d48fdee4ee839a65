"""Loading finds a compaction interrupted between any two renames, ours or Apache Kafka's."""

from odradek.storage import Log
from odradek.world import MemoryDisk, World
from tests.log_verification import verify_log
from tests.unit.storage.compaction.test_compaction import (
    compact,
    make_log,
    put,
    records,
    settle,
    start,
)
from tests.unit.storage.storage_world import PARTITION, make_world

FILES = (".log", ".index", ".timeindex", ".txnindex")
COMPACTED = [(4, b"a", b"2"), (5, b"b", b"2")]
EVERYTHING = [
    (0, b"a", b"1"),
    (1, b"b", b"1"),
    (2, b"a", b"1"),
    (3, b"b", b"1"),
    (4, b"a", b"2"),
    (5, b"b", b"2"),
]


async def world_in_the_middle() -> tuple[World, dict[str, bytes]]:
    """A log of three closed segments as it was before, and the files of what was made of it."""
    world = make_world()
    manager, log = await make_log(world)
    for value in (b"1", b"1", b"2"):
        put(log, (b"a", value), (b"b", value))
        log.roll()
    await settle(log)
    disk = world.disk
    assert isinstance(disk, MemoryDisk)
    before = {path: bytes(content) for path, content in disk.files.items()}
    assert await compact(manager)
    base = f"{log.path}/{0:020d}"
    made = {suffix: bytes(disk.files[base + suffix]) for suffix in FILES}
    manager.abandon()
    for path in list(disk.files):
        disk.remove(path)
    for path, content in before.items():
        disk.replace(path, content)
    return world, made


def add(world: World, made: dict[str, bytes], ending: str, *suffixes: str) -> None:
    for suffix in suffixes:
        world.disk.replace(f"/data/orders-0/{0:020d}{suffix}{ending}", made[suffix])


def mark_deleted(world: World, *offsets: int) -> None:
    for offset in offsets:
        for suffix in (*FILES, ".snapshot"):
            path = f"/data/orders-0/{offset:020d}{suffix}"
            if world.disk.exists(path) and not (offset == 0 and suffix == ".snapshot"):
                world.disk.rename(path, path + ".deleted")


async def load(world: World) -> Log:
    log = (await start(world)).logs[PARTITION]
    names = world.disk.list_directory(log.path)
    assert [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))] == []
    for segment in log.segments[:-1]:
        assert f"{segment.base_offset:020d}.index" in names
    assert verify_log(world.disk, log.path, deep=True).problems == []
    assert log.log_end_offset == 6
    return log


async def test_what_was_only_written_is_removed() -> None:
    world, made = await world_in_the_middle()
    add(world, made, ".cleaned", *FILES)
    assert records(await load(world)) == EVERYTHING


async def test_a_swap_does_not_count_before_its_log_has_the_name() -> None:
    world, made = await world_in_the_middle()
    add(world, made, ".swap", ".index", ".timeindex", ".txnindex")
    add(world, made, ".cleaned", ".log")
    assert records(await load(world)) == EVERYTHING
    world, made = await world_in_the_middle()
    add(world, made, ".swap", ".index")
    assert records(await load(world)) == EVERYTHING


async def test_a_swap_that_counts_is_finished() -> None:
    for deleted in ((), (0,), (0, 2), (0, 2, 4)):
        world, made = await world_in_the_middle()
        add(world, made, ".swap", *FILES)
        mark_deleted(world, *deleted)
        assert records(await load(world)) == COMPACTED


async def test_a_swap_that_has_some_of_its_names_is_finished() -> None:
    for count in range(1, 4):
        world, made = await world_in_the_middle()
        names = (".index", ".timeindex", ".txnindex", ".log")
        mark_deleted(world, 0, 2, 4)
        add(world, made, "", *names[:count])
        add(world, made, ".swap", *names[count:])
        assert records(await load(world)) == COMPACTED


async def test_kafka_gives_the_log_its_names_first() -> None:
    world, made = await world_in_the_middle()
    add(world, made, ".swap", ".log")
    add(world, made, ".cleaned", ".index", ".timeindex", ".txnindex")
    assert records(await load(world)) == EVERYTHING
    world, made = await world_in_the_middle()
    mark_deleted(world, 0, 2, 4)
    add(world, made, "", ".log")
    add(world, made, ".swap", ".index", ".timeindex")
    assert records(await load(world)) == COMPACTED
    path = f"/data/orders-0/{0:020d}.timeindex"
    assert world.disk.read(path) == made[".timeindex"]


async def test_an_index_that_is_missing_is_made_again() -> None:
    world, _ = await world_in_the_middle()
    world.disk.remove(f"/data/orders-0/{2:020d}.index")
    assert records(await load(world)) == EVERYTHING


async def test_the_next_group_may_be_unfinished_while_one_is_put_in_place() -> None:
    world, made = await world_in_the_middle()
    add(world, made, ".swap", *FILES)
    for suffix in FILES:
        world.disk.replace(f"/data/orders-0/{4:020d}{suffix}.cleaned", b"half")
    assert records(await load(world)) == COMPACTED
