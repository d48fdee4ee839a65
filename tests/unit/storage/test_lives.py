"""What a log directory tells of the broker's last life."""

from dataclasses import replace

import pytest

from odradek.storage import LogManager
from odradek.storage.broker_run import RUN_FILE, BrokerRun
from odradek.storage.text_files import CleanStop
from odradek.world import World
from tests.unit.storage.storage_world import make_manager, make_world


async def killed(world: World, *roots: str, epoch: int = 3) -> None:
    manager = await started(world, *roots)
    manager.begin_run(epoch)
    manager.abandon()


async def started(world: World, *roots: str) -> LogManager:
    manager = make_manager(world, *roots)
    await manager.load()
    return manager


async def read_run(world: World, *roots: str) -> BrokerRun | None:
    manager = await started(world, *roots)
    manager.abandon()
    return manager.killed_run


def world_of_boot(boot_id: str) -> World:
    return replace(make_world(), boot_id=boot_id)


async def test_a_killed_life_is_known_under_the_same_boot_only() -> None:
    world = world_of_boot("a")
    assert await read_run(world) is None
    await killed(world)
    assert await read_run(world) == BrokerRun(3, 3)
    assert await read_run(replace(world, boot_id="b")) is None
    assert await read_run(world) == BrokerRun(3, 3)


async def test_without_a_boot_id_nothing_is_known() -> None:
    world = world_of_boot("")
    await killed(world)
    assert await read_run(world) is None


async def test_every_directory_must_tell_of_the_same_life() -> None:
    world = world_of_boot("a")
    await killed(world, "/one", "/two")
    assert await read_run(world, "/one", "/two") == BrokerRun(3, 3)
    await killed(world, "/one", epoch=4)
    assert await read_run(world, "/one", "/two") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"boot":"a","brokerEpochs":[1]}'])
async def test_a_torn_note_tells_nothing(content: bytes) -> None:
    world = world_of_boot("a")
    await killed(world)
    world.disk.replace(f"/data/{RUN_FILE}", content)
    assert await read_run(world) is None


async def test_a_directory_that_failed_forgets() -> None:
    world = world_of_boot("a")
    manager = await started(world, "/one", "/two")
    manager.begin_run(3)
    manager.directories[0].fail(OSError(5, "failed"))
    manager.abandon()
    assert await read_run(world, "/one", "/two") is None


async def test_a_clean_life_is_known_even_if_the_next_one_is_killed_while_it_starts() -> None:
    world = world_of_boot("a")
    manager = await started(world)
    manager.begin_run(3)
    await manager.close()
    later = replace(world, boot_id="b")
    manager = await started(later)
    assert manager.last_clean_stop == CleanStop(3)
    manager.abandon()
    assert await read_run(later) == BrokerRun(3, 3)


async def test_a_start_that_ends_before_it_has_joined_leaves_the_note_as_it_is() -> None:
    world = world_of_boot("a")
    await killed(world)
    for _ in range(2):
        manager = await started(world)
        assert manager.killed_run == BrokerRun(3, 3)
        await manager.close()


async def test_a_clean_stop_between_two_epochs_leaves_both() -> None:
    world = world_of_boot("a")
    manager = await started(world)
    manager.begin_run(3)
    manager.note_run(3, 4)
    await manager.close()
    for _ in range(2):
        assert await read_run(world) == BrokerRun(3, 4)


def test_a_life_about_to_take_the_next_epoch_has_both() -> None:
    assert [epoch for epoch in range(6) if epoch in BrokerRun(2, 4)] == [2, 3, 4]
