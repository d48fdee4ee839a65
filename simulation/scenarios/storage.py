"""Logs on a disk that loses unsynced data: appends, flushes, retention and compaction through
several runs.

Each run of the process loads the logs, compares them with what it expects, works, and ends in one
of five ways: closed cleanly, killed (the page cache survives), with a disk that failed, with a
power cut between two operations, or with a power cut in the middle of one. Afterwards

- what was flushed is there, and after a kill or a clean end everything that was appended;
- the log is a prefix of what was appended, at the same offsets; of a compacted one every record
  may be missing whose key has a newer record in that prefix, and no other;
- every batch passes its checksum, every index entry points at a batch, every offset can be read;
- leader epochs and producer state agree with the surviving batches.
"""

import asyncio
import posixpath
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from odradek.config import BrokerSettings, TopicSettings
from odradek.config.broker_settings import Layers
from odradek.protocol.records import BatchBuilder, crc_is_valid, decode_records, read_header
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.storage import AppendResult, Log, LogManager, StorageError
from odradek.storage.staging import room_for
from odradek.storage.validation import CannotAppendAtOnce
from odradek.world import World
from simulation.batch_staging import staged_by_seed
from simulation.disk import PowerCut
from simulation.world import Host, Simulation

TOPIC = "words"
TOPIC_ID = TopicId(bytes(range(16)))
PARTITIONS = 2
# In this part of the runs the topic is encrypted.
ENCRYPTED_RUNS = 0.3
KEY = "words"
KEY_FILE = "/keys/topics.json"
PRODUCERS = 3


class Fate(Enum):
    """How a run of the process ends."""

    CLOSED = "closed"
    KILLED = "killed"
    DISK_FAILED = "disk failed"
    POWER_CUT = "power cut"
    POWER_CUT_INSIDE = "power cut inside an operation"

    @property
    def loses_pages(self) -> bool:
        return self in (Fate.POWER_CUT, Fate.POWER_CUT_INSIDE)


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    # None on topics that are not compacted.
    keys: tuple[bytes | None, ...]
    values: tuple[bytes, ...]
    timestamp_ms: int
    epoch: int
    producer_id: int
    sequence: int
    encoded: bytes

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


@dataclass(slots=True)
class Expected:
    """What one partition must hold."""

    batches: list[Batch] = field(default_factory=list)
    # A batch whose append had begun when the power went: it may be there or not.
    undecided: Batch | None = None
    end: int = 0
    flushed: int = 0
    start: int = 0
    # The highest start that was asked for, durable or not.
    asked_start: int = 0
    # Whether pages may have been lost since the log was last compared.
    may_have_lost: bool = False
    log: Log | None = None

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.end = batch.next_offset

    def next_sequence(self, producer_id: int) -> int:
        last = self.last_of(producer_id)
        return last.sequence + len(last.values) if last is not None else 0

    def last_of(self, producer_id: int) -> Batch | None:
        for batch in reversed(self.batches):
            if batch.producer_id == producer_id:
                return batch
        return None

    def life_ended(self, fate: Fate) -> None:
        self.may_have_lost |= fate.loses_pages
        if self.log is not None:
            self.flushed = max(self.flushed, self.log.flushed.value)
            self.start = max(self.start, self.log.log_start_offset)
            self.log = None


class StorageStory:
    """One run: the runs of one process on one host."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._random = simulation.random("story")
        self._host: Host = simulation.host("broker-1")
        self._expected = {TopicPartition(TOPIC, n): Expected() for n in range(PARTITIONS)}
        # Before its first run there is nothing, and nothing is what a crash may leave.
        self._fate = Fate.KILLED
        self._life = 0
        self._serial = 0
        self._failing_operation = "write"
        # Whether the run before got through loading, and whether it had begun to close.
        self._was_loaded = False
        self._was_closing = False
        self._topic_settings = _topic_settings(self._random)
        # With very many keys compaction removes nothing.
        self._keys = self._random.choice((4, 1 << 40))
        self._settings = _broker_settings(self._random)
        if simulation.random("encryption").random() < ENCRYPTED_RUNS:
            self._encrypt()
        self.appended = 0
        self.survived_cuts = 0

    async def play(self, runs: int) -> None:
        for _ in range(runs):
            previous, self._fate = self._fate, self._random.choice(list(Fate))
            self._life += 1
            await self._live(previous)
        self._fate, previous = Fate.CLOSED, self._fate
        self._life += 1
        await self._host.start(lambda world: self._check_once(world, previous))

    async def _check_once(self, world: World, previous: Fate) -> None:
        manager = await self._load(world, previous)
        await manager.close()

    async def _live(self, previous: Fate) -> None:
        host, random, fate = self._host, self._random, self._fate
        self._failing_operation = random.choice(("write", "sync", "open", "rename", "truncate"))
        if fate is Fate.POWER_CUT_INSIDE:
            host.disk.cut_power_after(random.randint(0, random.choice((50, 500))))
        living = host.start(lambda world: self._work(world, previous))
        if fate in (Fate.KILLED, Fate.POWER_CUT):
            # The first bytes of a run may be its last.
            await asyncio.sleep(random.uniform(0, random.choice((0.01, 0.5))))
        # A killed process ends nothing that could be awaited.
        while host.processes and fate not in (Fate.KILLED, Fate.POWER_CUT):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if living.done() and isinstance(living.exception(), StorageError):
            self._change_disk()
        elif living.done() and not isinstance(living.exception(), PowerCut):
            # It ended before its fate came.
            living.result()
            self._fate = Fate.CLOSED
            host.disk.keep_power()
            host.disk.heal()
        elif fate is Fate.KILLED:
            host.kill()
        elif fate is Fate.POWER_CUT:
            host.power_off()
        self.survived_cuts += self._fate.loses_pages
        for expected in self._expected.values():
            expected.life_ended(self._fate)

    def _change_disk(self) -> None:
        """After a failed sync only a new start of the machine shows what is really there."""
        self._host.disk.heal()
        if self._failing_operation == "sync":
            self._fate = Fate.POWER_CUT
            self._host.power_off()

    # A run

    async def _work(self, world: World, previous: Fate) -> None:
        manager = await self._load(world, previous)
        housekeeping = asyncio.create_task(manager.run())
        try:
            for _ in range(self._random.randint(1, 150)):
                if self._fate is Fate.DISK_FAILED and self._random.random() < 0.02:
                    self._host.disk.fail_next(self._failing_operation)
                await self._act(world, self._random.choice(list(self._expected)))
        finally:
            housekeeping.cancel()
            await asyncio.wait([housekeeping])
        self._was_closing = True
        await manager.close()
        for directory in manager.offline_directories:
            assert directory.failure is not None
            raise directory.failure

    async def _act(self, world: World, partition: TopicPartition) -> None:
        expected = self._expected[partition]
        log = expected.log
        assert log is not None
        if self._topic_settings.is_compacted:
            log.high_watermark = log.log_end_offset
        match self._random.randrange(12):
            case 0:
                await asyncio.sleep(self._random.uniform(0, 0.3))
            case 1:
                log.flusher.request(log.log_end_offset)
            case 2:
                # As an acknowledgement with flush.messages=1 waits.
                end = log.log_end_offset
                await log.flush_to(end)
                expected.flushed = max(expected.flushed, end)
            case 3:
                log.roll()
            case 4 if self._random.random() < 0.3 and not self._topic_settings.is_compacted:
                offset = self._random.randint(log.log_start_offset, log.log_end_offset)
                log.advance_log_start(Offset(offset))
                expected.start = log.log_start_offset
                expected.asked_start = max(expected.asked_start, expected.start)
            case _:
                await self._append(world, log, expected)

    async def _append(self, world: World, log: Log, expected: Expected) -> None:
        batch = self._make_batch(world, expected)
        expected.undecided = batch
        result = await append_when_ready(log, batch)
        expected.undecided = None
        assert not result.duplicate, f"{log} takes {batch.sequence} for a repetition"
        assert result.base_offset == batch.base_offset, f"{log} appended at {result.base_offset}"
        expected.add(batch)
        self.appended += 1

    def _make_batch(self, world: World, expected: Expected) -> Batch:
        random = self._random
        builder = BatchBuilder()
        keys, values = [], []
        now_ms = world.clock.now_ms()
        for _ in range(random.randint(1, 4)):
            self._serial += 1
            longest = self._topic_settings.segment_bytes // 6
            value = b"%d:" % self._serial + bytes(min(random.choice((0, 10, 300, 5000)), longest))
            is_keyed = self._topic_settings.is_compacted
            keys.append(b"%d" % random.randrange(self._keys) if is_keyed else None)
            values.append(value)
            builder.append(keys[-1], value, (), now_ms)
        producer_id = random.randrange(-1, PRODUCERS)
        sequence = expected.next_sequence(producer_id) if producer_id >= 0 else -1
        encoded = builder.build(
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
        return Batch(
            expected.end,
            tuple(keys),
            tuple(values),
            now_ms,
            self._life,
            producer_id,
            sequence,
            encoded,
        )

    # Coming back

    def _encrypt(self) -> None:
        """The topic is encrypted in this run."""
        properties = {"odradek.key.provider": "file", "odradek.key.file": KEY_FILE}
        self._settings = BrokerSettings(Layers({**self._settings.layers.static, **properties}))
        overrides = {**self._topic_settings.overrides, "odradek.encryption.key": KEY}
        self._topic_settings = self._settings.topic(overrides)

    def _make_key(self, world: World) -> None:
        if self._topic_settings.odradek_encryption_key and not world.disk.exists(KEY_FILE):
            from odradek.security.keys.key_file import KeyFile  # noqa: PLC0415 - seldom

            world.disk.make_directories(posixpath.dirname(KEY_FILE))
            world.disk.sync_directory("/")
            KeyFile(KEY_FILE, world).create(KEY)

    async def _load(self, world: World, previous: Fate) -> LogManager:
        self._make_key(world)
        manager = LogManager(self._settings, world, cluster_id="simulated", node_id=BrokerId(1))
        was_loaded, self._was_loaded = self._was_loaded, False
        await manager.load(lambda _: self._topic_settings)
        for partition, expected in self._expected.items():
            known = manager.get(partition)
            if known is None:
                assert not expected.flushed, f"{partition} is gone, {expected.flushed} was flushed"
                assert expected.may_have_lost or not expected.batches, f"{partition} is gone"
                known = manager.create(partition, TOPIC_ID, self._topic_settings)
            check_end(known, expected, previous)
            check_contents(known, expected)
            expected.log = known
            await check_producers(known, expected)
        # A run that ended while it loaded may have left the marker of the one before, and one
        # that ended while it closed may have left its own.
        clean = previous is Fate.CLOSED
        if clean or (was_loaded and not self._was_closing):
            assert manager.had_clean_shutdown is clean, f"{previous}, but clean: {not clean}"
        self._was_loaded = True
        self._was_closing = False
        return manager


async def append_when_ready(log: Log, batch: Batch) -> AppendResult:
    """As the produce handler does it: in pieces if the batch is large."""
    try:
        return log.append(batch.encoded, leader_epoch=LeaderEpoch(batch.epoch))
    except CannotAppendAtOnce:
        validated = await log.validate_in_steps(batch.encoded)
    async with room_for(log, validated.records):
        return log.append(batch.encoded, leader_epoch=LeaderEpoch(batch.epoch), validated=validated)


def check_end(log: Log, expected: Expected, previous: Fate) -> None:
    """The log ends where it may, and the expectation is cut to what is there."""
    end, start = log.log_end_offset, log.log_start_offset
    undecided = expected.undecided
    if undecided is not None and end == undecided.next_offset:
        expected.add(undecided)
    expected.undecided = None
    assert end <= expected.end, f"ends at {end}, only {expected.end} were appended"
    assert end >= expected.flushed, f"ends at {end}, {expected.flushed} were flushed"
    assert start <= expected.start, f"starts at {start}, {expected.start} was asked for"
    if not expected.may_have_lost:
        assert end == expected.end, f"ends at {end}, {expected.end} were appended"
    if previous is Fate.CLOSED:
        assert start == expected.start, f"starts at {start}, not at {expected.start}"
    expected.start = start
    expected.may_have_lost = False
    kept = [batch for batch in expected.batches if batch.next_offset <= end]
    # A log that lost everything up to a durable start goes on from there.
    ends_at_batch = end == start or end == (kept[-1].next_offset if kept else 0)
    assert ends_at_batch, f"ends at {end}, inside a batch"
    expected.batches, expected.end = kept, end


def check_contents(log: Log, expected: Expected) -> None:
    """Records, checksums, indexes and leader epochs agree with what was appended."""
    wanted = {
        batch.base_offset + number: value
        for batch in expected.batches
        for number, value in enumerate(batch.values)
        if batch.base_offset + number >= log.log_start_offset
    }
    found: dict[int, bytes] = {}
    epochs: dict[LeaderEpoch, Offset] = {}
    for segment in log.segments:
        if not segment.size:
            continue
        starts = {}
        for position, header in segment.headers(0):
            raw = segment.read_batch(position, header)
            assert crc_is_valid(raw, 0, read_header(raw)), f"{segment} is damaged at {position}"
            starts[position] = header.last_offset
            for record in decode_records(raw):
                if record.offset >= log.log_start_offset:
                    found[record.offset] = record.value or b""
            if header.last_offset >= log.log_start_offset:
                epochs.setdefault(
                    header.leader_epoch, max(header.base_offset, log.log_start_offset)
                )
        index = segment.index
        for offset, position in zip(index.offsets, index.positions, strict=True):
            assert starts.get(position) == segment.base_offset + offset, f"index of {segment}"
    may_lack = set[int]()
    if log.settings.is_compacted:
        may_lack = _outdated(expected.batches)
        # Compaction keeps the epochs of batches that it removes.
        epochs = {}
        for batch in expected.batches:
            epochs.setdefault(LeaderEpoch(batch.epoch), Offset(batch.base_offset))
    lacking = wanted.keys() - found.keys()
    wanted = {offset: wanted[offset] for offset in wanted if offset not in lacking & may_lack}
    assert found == wanted, f"{log} holds {_brief(found)} instead of {_brief(wanted)}"
    known = dict(zip(log.leader_epochs.epochs, log.leader_epochs.start_offsets, strict=True))
    # Where the start fell back, epochs below the one that was asked for may be forgotten.
    start, end = Offset(expected.asked_start), log.log_end_offset
    known, epochs = _epochs_from(start, known, end), _epochs_from(start, epochs, end)
    assert known == epochs, f"{log} knows epochs {known}, its batches say {epochs}"
    for offset in wanted:
        piece = log.read(Offset(offset), 1)
        assert piece is not None
        header = read_header(piece.read(0, len(piece)))
        piece.release()
        assert header.base_offset <= offset <= header.last_offset


def _outdated(batches: list[Batch]) -> set[int]:
    """The offsets of records whose key has a newer record."""
    newest: dict[bytes | None, int] = {}
    offsets = set[int]()
    for batch in batches:
        for offset, key in enumerate(batch.keys, start=batch.base_offset):
            offsets.add(offset)
            newest[key] = offset
    return offsets - set(newest.values())


def _epochs_from(
    start: Offset, epochs: dict[LeaderEpoch, Offset], end: Offset
) -> dict[LeaderEpoch, Offset]:
    """The epochs, and where each begins, of the offsets from `start` on."""
    ends = [*epochs.values(), end][1:]
    return {
        epoch: max(first, start)
        for (epoch, first), last in zip(epochs.items(), ends, strict=True)
        if last > max(first, start)
    }


def _brief(records: dict[int, bytes]) -> str:
    serials = ((offset, value.partition(b":")[0].decode()) for offset, value in records.items())
    return " ".join(f"{offset}={serial}" for offset, serial in serials)


async def check_producers(log: Log, expected: Expected) -> None:
    """The last batch of every producer is recognised when it comes again."""
    for producer_id in range(PRODUCERS):
        last = expected.last_of(producer_id)
        if last is not None and last.base_offset >= log.log_start_offset:
            again = await append_when_ready(log, last)
            assert again.duplicate, f"{log} does not know the last batch of {producer_id}"
            assert again.base_offset == last.base_offset, f"{again}, not at {last.base_offset}"


def _topic_settings(random: Random) -> TopicSettings:
    overrides = {
        "segment.bytes": str(random.choice((500, 5000, 20_000, 1 << 30))),
        "index.interval.bytes": str(random.choice((1, 100, 4096))),
        "file.delete.delay.ms": str(random.choice((0, 100, 60_000))),
    }
    if random.random() < 0.3:
        overrides["flush.messages"] = random.choice(("1", "5"))
    if random.random() < 0.3:
        overrides["flush.ms"] = "50"
    if random.random() < 0.3:
        overrides |= {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            # Many segments, so that a power cut may take one and leave the next.
            "segment.bytes": str(random.choice((500, 2000))),
        }
    return BrokerSettings().topic_defaults.with_overrides(overrides)


def _broker_settings(random: Random) -> BrokerSettings:
    directories = random.choice(("/data", "/data/one,/data/two"))
    return BrokerSettings(
        Layers(
            {
                "log.dirs": directories,
                "log.cleaner.backoff.ms": "20",
                "log.flush.offset.checkpoint.interval.ms": str(random.choice((20, 200, 60_000))),
                "log.flush.start.offset.checkpoint.interval.ms": str(
                    random.choice((20, 200, 60_000))
                ),
            }
        )
    )


async def storage(simulation: Simulation) -> str:
    """Runs the scenario once and returns a summary of what happened."""
    story = StorageStory(simulation)
    with staged_by_seed(simulation):
        await story.play(runs=simulation.random("lives").randint(2, 6))
    return f"{story.appended} batches appended, {story.survived_cuts} power cuts survived"
