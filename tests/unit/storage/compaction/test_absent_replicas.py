"""What a compaction pass keeps while a replica of the partition is not in the ISR."""

from odradek.protocol.records import ControlType
from tests.unit.storage.compaction.test_compaction import (
    batches,
    compact,
    make_log,
    put,
    put_marker,
)
from tests.unit.storage.storage_world import NOW_MS, PARTITION, clock_of, make_world


async def test_tombstones_stay_while_a_replica_may_lack_them() -> None:
    world = make_world()
    manager, log = await make_log(world, log_cleaner_delete_retention_ms="1000")
    is_everywhere = False
    manager.cleaner.is_on_every_replica = lambda partition: is_everywhere and partition == PARTITION

    async def tombstones(later_ms: int) -> list[tuple[int, int | None]]:
        """The offsets and delete horizons of tombstones after one more pass."""
        clock_of(world).advance(later_ms)
        put(log, (b"z", b"1"))
        assert await compact(manager)
        return [
            (record.offset, header.delete_horizon_ms and header.delete_horizon_ms - NOW_MS)
            for header, found in batches(log)
            for record in found
            if record.value is None
        ]

    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    # Their time does not begin,
    assert await tombstones(0) == [(1, None)]
    assert await tombstones(2000) == [(1, None)]
    is_everywhere = True
    assert await tombstones(0) == [(1, 3000)]
    # and does not end.
    is_everywhere = False
    assert await tombstones(1000) == [(1, 3000)]
    is_everywhere = True
    assert await tombstones(0) == []


async def test_markers_stay_while_a_replica_may_lack_them() -> None:
    """It may have records of the transaction, which would never be decided there."""
    world = make_world()
    manager, log = await make_log(world, log_cleaner_delete_retention_ms="1000")
    is_everywhere = False
    manager.cleaner.is_on_every_replica = lambda _: is_everywhere

    async def markers(later_ms: int) -> list[int]:
        clock_of(world).advance(later_ms)
        put(log, (b"z", b"1"))
        assert await compact(manager)
        return [one.base_offset for one, found in batches(log) if one.is_control and found]

    put(log, (b"a", b"1"), producer=(9, 0, 0), is_transactional=True)
    put_marker(log, ControlType.ABORT, 9)
    put(log, (b"a", b"1"), producer=(9, 0, 1), is_transactional=True)
    put_marker(log, ControlType.COMMIT, 9)
    assert await markers(0) == [1, 3]
    assert await markers(2000) == [1, 3]
    is_everywhere = True
    assert await markers(0) == [1, 3]
    is_everywhere = False
    assert await markers(1000) == [1, 3]
    is_everywhere = True
    assert await markers(0) == [3]
