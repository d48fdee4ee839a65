"""A producer's batches that a snapshot left out are found in the log when they come again."""

import asyncio

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import LeaderEpoch
from odradek.storage import AppendRejected
from odradek.storage.log import Log
from odradek.world import MemoryDisk
from tests.unit.storage.storage_world import PARTITION, TOPIC_ID, make_manager, make_world


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0) -> bytes:
    builder = BatchBuilder()
    builder.append(None, b"%d" % sequence, (), 1_700_000_000_000)
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def restarted(count: int) -> Log:
    """A log that took `count` batches, one record each, before a clean restart."""
    world = make_world(MemoryDisk())
    manager = make_manager(world, log_segment_bytes="300")
    await manager.load()
    log = manager.create(PARTITION, TOPIC_ID, manager.settings.topic_defaults)
    for sequence in range(count):
        log.append(batch(sequence), leader_epoch=LeaderEpoch(0))
        log.append(batch(sequence, producer_id=8), leader_epoch=LeaderEpoch(0))
    await manager.close()
    manager = make_manager(world, log_segment_bytes="300")
    await manager.load()
    assert manager.had_clean_shutdown
    found = manager.get(PARTITION)
    assert found is not None
    return found


def test_the_last_five_batches_are_known_after_a_restart() -> None:
    async def main() -> None:
        log = await restarted(8)
        for sequence in (5, 3, 7, 4, 6):
            result = log.append(batch(sequence), leader_epoch=LeaderEpoch(0))
            assert (result.base_offset, result.duplicate) == (2 * sequence, True)
        assert log.append(batch(8), leader_epoch=LeaderEpoch(0)).base_offset == 16

    asyncio.run(main())


@pytest.mark.parametrize("sequence", [2, 9])
def test_what_is_too_old_or_too_new_stays_out_of_order(sequence: int) -> None:
    async def main() -> None:
        log = await restarted(8)
        for _ in range(2):
            with pytest.raises(AppendRejected) as caught:
                log.append(batch(sequence), leader_epoch=LeaderEpoch(0))
            assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    asyncio.run(main())
