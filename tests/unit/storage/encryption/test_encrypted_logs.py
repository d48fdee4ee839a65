"""Logs of an encrypted topic: appends, crashes, compaction, look-up by key, lost keys."""

from collections.abc import Sequence
from random import Random

import pytest

from odradek.config.key_settings import NO_PROVIDER
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage import Log, LogManager, StorageError
from odradek.storage.encryption.encrypting_disk import slots_below
from odradek.storage.errors import CorruptLog, PartitionLocked
from odradek.storage.key_index.index import KeyIndexLimits
from odradek.storage.key_index.key_indexes import KeyIndexes
from odradek.storage.key_index.search import BytesRead
from odradek.world import MemoryDisk, World
from odradek.world.disk import Buffer
from odradek.world.memory_disk import MemoryFile
from tests.unit.storage.compaction.test_compaction import compact, settle
from tests.unit.storage.encryption.encrypted_world import (
    DIRECTORY,
    KEY,
    MARKER,
    create_key,
    encrypting_manager,
    raw_bytes,
    watched_nonces,
)
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    append_when_ready,
    make_batch,
    make_manager,
    make_world,
    read_all,
)

KEY_FILE = "/keys/topics.json"


def disk_of(world: World) -> MemoryDisk:
    assert isinstance(world.disk, MemoryDisk)
    return world.disk


async def start(world: World, **properties: str) -> LogManager:
    manager = encrypting_manager(world, **properties)
    await manager.load()
    return manager


def log_of(manager: LogManager) -> Log:
    return manager.create(PARTITION, TOPIC_ID, manager.settings.topic_defaults)


def append(log: Log, count: int = 10, *, padding: int = 100) -> None:
    for _ in range(count):
        key = b"key-%d" % (log.log_end_offset % 7)
        value = MARKER + b"%d" % log.log_end_offset + bytes(padding)
        log.append(make_batch([value], key=MARKER + key), leader_epoch=LeaderEpoch(0))


async def test_records_are_there_after_every_end_and_never_on_the_disk() -> None:
    world = make_world()
    create_key(world)
    expected: list[tuple[int, bytes | None]] = []
    for turn in range(6):
        manager = await start(world, log_segment_bytes="20000")
        log = log_of(manager)
        assert read_all(log) == expected
        append(log, 50 + turn)
        await log.flush()
        append(log, 3)
        expected = read_all(log)
        assert len(expected) == log.log_end_offset
        assert MARKER not in raw_bytes(disk_of(world))
        if turn % 2:
            await manager.close()
        else:
            manager.abandon()
    assert len(expected) > 300


async def test_a_batch_that_is_written_in_steps_is_encrypted() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world, message_max_bytes="10000000")
    log = log_of(manager)
    append(log)
    await append_when_ready(log, make_batch([MARKER * 200_000]))
    append(log)
    assert read_all(log, 1 << 24)[10] == (10, MARKER * 200_000)
    manager.abandon()
    again = log_of(await start(world))
    assert read_all(again, 1 << 24)[10] == (10, MARKER * 200_000)
    assert MARKER not in raw_bytes(disk_of(world))


async def test_compaction_writes_encrypted_segments() -> None:
    world = make_world()
    create_key(world)
    manager = await start(
        world,
        log_cleanup_policy="compact",
        log_segment_bytes="3000",
        log_cleaner_min_cleanable_ratio="0",
    )
    log = log_of(manager)
    append(log, 200)
    newest = {value for _, value in read_all(log)[-7:]}
    assert await compact(manager)
    assert newest <= {value for _, value in read_all(log)}
    assert len(read_all_values(log)) == 7
    assert MARKER not in raw_bytes(disk_of(world))
    manager.abandon()
    assert len(read_all_values(log_of(await start(world)))) == 7


def read_all_values(log: Log) -> list[bytes | None]:
    values = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, 1 << 20)
        if found is None:
            break
        from odradek.protocol.records import decode_records, split_batches

        data = found.read(0, len(found))
        found.release()
        for position, header in split_batches(data):
            values += [record.value for record in decode_records(data, position)]
            offset = header.next_offset
    return values


async def test_keys_are_looked_up_and_their_index_is_encrypted() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world, log_segment_bytes="20000")
    log = log_of(manager)
    append(log, 300)
    await settle(log)
    append(log, 5)
    log.high_watermark = log.log_end_offset
    indexes = KeyIndexes(world, KeyIndexLimits(min_bytes=100))
    index = indexes.of(log)
    while job := index.next_job():
        index.adopt(await indexes._do(index, job))
    names = disk_of(world).list_directory(DIRECTORY)
    run = next(name for name in names if name.endswith(".keys"))
    assert disk_of(world).read(f"{DIRECTORY}/{run}").startswith(b"\xf0ODRKENC")
    for number in range(7):
        found = await index.look_up(
            MARKER + b"key-%d" % number,
            end_offset=log.log_end_offset,
            committed_only=False,
            read=BytesRead(),
        )
        assert found is not None
        assert found.record.offset >= 298
    await manager.close()
    log = log_of(await start(world))
    assert KeyIndexes(world).of(log).runs, "the index is read again after a start"


async def test_no_nonce_repeats_whatever_happens_to_a_log() -> None:
    """Appends, truncations to random offsets, kills and clean stops, in random order."""
    source = Random(3)
    for _ in range(8):
        world = make_world()
        create_key(world)
        with watched_nonces() as used:
            for _ in range(5):
                manager = await start(world, log_segment_bytes=str(source.choice((4000, 30_000))))
                log = log_of(manager)
                for _ in range(8):
                    append(log, source.randint(1, 40), padding=source.choice((10, 3000)))
                    action = source.randrange(4)
                    if action == 0:
                        log.roll()
                    elif action < 3:
                        start_offset, end = log.log_start_offset, log.log_end_offset
                        log.truncate_to(Offset(source.randint(start_offset, end)))
                    read_all(log)
                if source.random() < 0.5:
                    await manager.close()
                else:
                    manager.abandon()
        assert len(used) > 50
        assert max(used.values()) == 1


async def test_a_damaged_frame_is_reported_and_not_served() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    log = log_of(manager)
    append(log, 300)
    await manager.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    content = bytearray(disk_of(world).read(path))
    content[-20_000] ^= 4
    disk_of(world).replace(path, bytes(content))
    log = log_of(await start(world))
    with pytest.raises(CorruptLog, match="fails its check"):
        read_all(log)


# Keys


async def test_a_partition_without_its_key_is_locked_and_comes_back() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    log = log_of(manager)
    append(log, 20)
    log.high_watermark = Offset(20)
    log.advance_log_start(Offset(5))
    expected = read_all(log)
    await manager.close()

    keys = disk_of(world).read(KEY_FILE)
    disk_of(world).remove(KEY_FILE)
    manager = await start(world)
    assert manager.get(PARTITION) is None
    with pytest.raises(PartitionLocked, match=r"/keys/topics.json does not exist; mount it"):
        log_of(manager)
    await manager.checkpoint_log_start_offsets()
    await manager.close()  # Its checkpoints are kept by a broker that never loaded it.

    manager = await start(world)
    with pytest.raises(PartitionLocked):
        log_of(manager)
    disk_of(world).replace(KEY_FILE, keys)
    assert manager.encryption is not None
    locked = manager.encryption.locked[PARTITION]
    await manager.encryption.supply.unwrap(slots_below(world.disk, locked.path))
    log = log_of(manager)
    assert (log.log_start_offset, log.high_watermark) == (5, 20)
    assert read_all(log) == expected
    append(log)


async def test_a_locked_log_that_was_not_recovered_makes_no_stop_clean() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    append(log_of(manager))
    manager.abandon()
    keys = disk_of(world).read(KEY_FILE)
    disk_of(world).remove(KEY_FILE)
    await (await start(world)).close()
    disk_of(world).replace(KEY_FILE, keys)
    manager = await start(world)
    assert not manager.had_clean_shutdown
    assert len(read_all(log_of(manager))) == 10


async def test_a_new_log_needs_its_key() -> None:
    world = make_world()
    create_key(world, "another")
    manager = await start(world)
    with pytest.raises(StorageError, match="has no key orders-key; `odradek keys create"):
        log_of(manager)


async def test_rotation_is_for_new_segments_and_old_ones_are_read() -> None:
    world = make_world()
    provider = create_key(world)
    manager = await start(world)
    log = log_of(manager)
    append(log)
    provider.rotate(KEY)
    assert manager.encryption is not None
    await manager.encryption.supply._fetch(KEY, replaces=True)
    log.roll()
    append(log)
    versions = [provider.version_of(slot.wrapped) for slot in slots_below(world.disk, DIRECTORY)]
    assert versions == [1, 2]
    await manager.close()
    assert len(read_all(log_of(await start(world)))) == 20


async def test_without_the_key_service_segments_begin_all_the_same_with_keys_of_their_own() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world, log_segment_bytes="2000")
    log = log_of(manager)
    disk_of(world).remove(KEY_FILE)
    with watched_nonces() as used:
        append(log, 100)
    assert len(log.segments) > 5
    salts = {slot.salt for slot in slots_below(world.disk, DIRECTORY)}
    assert len(salts) == len(log.segments)
    assert max(used.values()) == 1


async def test_after_its_key_was_deleted_a_topic_is_gone() -> None:
    world = make_world()
    provider = create_key(world)
    manager = await start(world)
    append(log_of(manager))
    await manager.close()
    provider.destroy(KEY)
    manager = await start(world)
    with pytest.raises(PartitionLocked, match="has no key orders-key"):
        log_of(manager)
    manager.discard_locked(PARTITION.topic)
    assert not disk_of(world).exists(DIRECTORY)


async def test_switching_it_on_encrypts_the_next_segment_and_off_leaves_it() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    plain = manager.settings.topic({"odradek.encryption.key": ""})
    log = manager.create(PARTITION, TOPIC_ID, plain)
    append(log)
    assert MARKER in raw_bytes(disk_of(world))
    manager.configure(PARTITION.topic, manager.settings.topic_defaults)
    append(log)
    assert [slot.place for slot in slots_below(world.disk, DIRECTORY)] == [
        f"orders-0/{10:020d}.log"
    ]
    manager.configure(PARTITION.topic, plain)
    append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20]
    assert len(read_all(log)) == 30
    manager.abandon()
    assert len(read_all(log_of(await start(world)))) == 30


async def test_a_broker_without_a_provider_does_not_take_encrypted_segments_for_damaged() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    append(log_of(manager))
    manager.abandon()
    before = raw_bytes(disk_of(world))
    plain = make_manager(world, odradek_key_provider=NO_PROVIDER)
    with pytest.raises(StorageError, match=r"set odradek\.key\.provider as it was"):
        await plain.load()
    assert before in raw_bytes(disk_of(world))


async def test_a_segment_of_another_partition_takes_only_its_own_partition_offline() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    append(log_of(manager))
    other = manager.create(
        PARTITION._replace(partition=1), TOPIC_ID, manager.settings.topic_defaults
    )
    append(other)
    await manager.close()
    disk, name = disk_of(world), f"{0:020d}.log"
    disk.replace(f"/data/orders-1/{name}", disk.read(f"{DIRECTORY}/{name}"))
    manager = await start(world)
    assert len(read_all(log_of(manager))) == 10
    with pytest.raises(CorruptLog, match=r"it is the file orders-0/.*at another place"):
        manager.create(other.topic_partition, TOPIC_ID, manager.settings.topic_defaults)


class Killed(BaseException):
    """The process ends in the middle of its work."""


class KillingDisk(MemoryDisk):
    """Ends the process at the n-th write or truncation; a write may be torn."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        found = super().open(path, create=create, writable=writable)
        return KillingFile(self, found)

    def step(self) -> bool:
        """Returns whether this is the last step."""
        self.left -= 1
        return self.left == 0


class KillingFile(MemoryFile):
    def __init__(self, disk: KillingDisk, file: MemoryFile) -> None:
        super().__init__(file.path, file.contents)
        self._disk = disk

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        if self._disk.step():
            data = b"".join(buffers)
            super().write_at(position, [data[: len(data) // 2]])
            raise Killed
        super().write_at(position, buffers)

    def truncate(self, size: int) -> None:
        if self._disk.step():
            raise Killed
        super().truncate(size)


async def test_a_kill_at_every_single_step_loses_nothing_that_was_appended() -> None:
    """The header of a segment half written, a frame without its tag, a cut half done."""
    steps = 1
    while True:
        disk = KillingDisk()
        world = make_world(disk)
        create_key(world)
        manager = await start(world, log_segment_bytes="30000")
        log = log_of(manager)
        append(log, 3)
        kept: list[tuple[int, bytes | None]] = []
        disk.left = steps
        try:
            for turn in range(4):
                for _ in range(4):
                    append(log, 1, padding=9000)
                    kept = read_all(log)
                end = log.log_end_offset - 1
                kept = kept[:end]  # What is below survives, whether the cut does or not.
                log.truncate_to(Offset(end))
                if turn % 2:
                    log.roll()
        except Killed:
            disk.left = -1
            manager.abandon()
            again = log_of(await start(world))
            found = read_all(again)
            assert found[: len(kept)] == kept, f"killed at step {steps}"
            append(again, 2)
            assert read_all(again)[: len(found)] == found
            assert MARKER not in raw_bytes(disk)
            steps += 1
        else:
            break
    assert steps > 50


async def test_switching_on_off_and_on_before_the_first_record_writes_nothing_in_plain() -> None:
    world = make_world()
    create_key(world)
    manager = await start(world)
    plain = manager.settings.topic({"odradek.encryption.key": ""})
    encrypted = manager.settings.topic_defaults
    log = log_of(manager)
    log.roll()
    for settings in (plain, encrypted, plain, encrypted):
        manager.configure(PARTITION.topic, settings)
        active = log.active_segment
        active.file.pin(create=True)
        active.file.unpin()
    append(log)
    assert MARKER not in raw_bytes(disk_of(world))
    manager.configure(PARTITION.topic, plain)
    log.roll()
    append(log, 1)
    manager.configure(PARTITION.topic, encrypted)
    before = raw_bytes(disk_of(world)).count(MARKER)
    append(log)
    assert raw_bytes(disk_of(world)).count(MARKER) == before
