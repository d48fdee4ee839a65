"""Leader epochs, indexes, checkpoints and names: the files around the log."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.types import (
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from odradek.storage import text_files
from odradek.storage.checkpoint_file import CheckpointFile
from odradek.storage.file_names import (
    deleted_directory,
    is_deleted_directory,
    parse_offset_file,
    parse_partition_directory,
    partition_directory,
)
from odradek.storage.index import OffsetIndex, TimeIndex
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log_directory import LogDirectory
from odradek.world.timeslice import measured_by
from tests.unit.storage.storage_world import make_world


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, offset in entries:
        epochs.assign(LeaderEpoch(epoch), Offset(offset))
    return epochs


def entries_of(epochs: LeaderEpochs) -> list[tuple[int, int]]:
    return list(zip(epochs.epochs, epochs.start_offsets, strict=True))


def test_epochs_end_where_the_next_begins() -> None:
    epochs = epochs_of((2, 10), (4, 20), (5, 30))
    assert [
        epochs.end_offset_for(LeaderEpoch(epoch), Offset(40)) for epoch in (-1, 1, 2, 3, 4, 5, 6)
    ] == [
        (-1, -1),
        (1, 10),
        (2, 20),
        (2, 20),
        (4, 30),
        (5, 40),
        (-1, -1),
    ]
    assert [epochs.epoch_for(Offset(offset)) for offset in (9, 10, 25, 99)] == [-1, 2, 4, 5]


def test_epochs_that_contradict_a_newer_one_go() -> None:
    assert entries_of(epochs_of((1, 0), (2, 10), (3, 20), (4, 15))) == [(1, 0), (2, 10), (4, 15)]
    assert entries_of(epochs_of((1, 0), (3, 10), (2, 20))) == [(1, 0), (2, 20)]
    assert entries_of(epochs_of((1, 0), (2, 10), (2, 15))) == [(1, 0), (2, 10)]


def test_epochs_follow_the_ends_of_the_log() -> None:
    epochs = epochs_of((1, 0), (2, 10), (3, 20))
    epochs.truncate_from_end(Offset(20))
    assert entries_of(epochs) == [(1, 0), (2, 10)]
    epochs.truncate_from_start(Offset(5))
    assert entries_of(epochs) == [(1, 5), (2, 10)]
    epochs.truncate_from_start(Offset(10))
    assert entries_of(epochs) == [(2, 10)]
    assert entries_of(LeaderEpochs.decode(epochs.encode())) == [(2, 10)]
    assert epochs.encode() == b"0\n1\n2 10\n"


rising = st.lists(st.integers(0, 1 << 20), unique=True, max_size=40).map(sorted)


@given(rising, st.integers(0, 1 << 20))
def test_an_offset_index_finds_the_last_entry_not_above(offsets: list[int], wanted: int) -> None:
    index = OffsetIndex(Offset(1000))
    for number, offset in enumerate(offsets):
        index.append(Offset(1000 + offset), 10 * number + 5)
    found = OffsetIndex.decode(Offset(1000), index.unwritten())
    assert (found.offsets, found.positions) == (index.offsets, index.positions)
    below = [number for number, offset in enumerate(offsets) if offset <= wanted]
    assert found.floor(Offset(1000 + wanted)) == (10 * below[-1] + 5 if below else 0)
    starts = [10 * number + 5 for number in range(len(offsets)) if 10 * number + 5 <= wanted]
    assert found.batch_start_below(wanted) == (starts[-1] if starts else 0)


@given(rising, st.integers(0, 1 << 20))
def test_a_time_index_finds_the_last_older_entry(times: list[int], wanted: int) -> None:
    index = TimeIndex(Offset(1000))
    for number, time in enumerate(times):
        index.append(time, Offset(1000 + number))
    found = TimeIndex.decode(Offset(1000), index.unwritten())
    assert (found.timestamps, found.offsets) == (index.timestamps, index.offsets)
    older = [number for number, time in enumerate(times) if time < wanted]
    assert found.floor(wanted) == 1000 + (older[-1] if older else 0)


def test_what_kafka_preallocated_is_no_entry() -> None:
    index, time_index = OffsetIndex(Offset(0)), TimeIndex(Offset(0))
    index.append(Offset(3), 70)
    index.append(Offset(9), 300)
    time_index.append(50, Offset(3))
    assert len(OffsetIndex.decode(Offset(0), index.unwritten() + bytes(80))) == 2
    assert len(TimeIndex.decode(Offset(0), time_index.unwritten() + bytes(120))) == 1


def test_offset_checkpoints_are_kafkas_text() -> None:
    offsets = {TopicPartition("a.b", 0): Offset(5), TopicPartition("c-d", 12): Offset(1 << 40)}
    content = text_files.encode_offsets(offsets)
    assert content == b"0\n2\na.b 0 5\nc-d 12 1099511627776\n"
    assert text_files.decode_offsets(content) == offsets
    assert text_files.decode_offsets(b"") == {}


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"x\ny\n", b"\xff\n\n"]
)
def test_a_damaged_checkpoint_is_malformed_and_has_no_entries(content: bytes) -> None:
    with pytest.raises(text_files.MalformedCheckpoint):
        text_files.decode_offsets(content)
    world = make_world()
    world.disk.make_directories("/data")
    file = CheckpointFile(LogDirectory("/data", world.disk), "checkpoint", world, dict)
    assert file.read() == {}, "it is missing"
    world.disk.replace("/data/checkpoint", content)
    assert file.read() == {}


MANY = 5_000
# The others are collected before it, in many turns, and after it.
MIDDLE = TopicPartition("t", MANY // 2)


class CollectedFile:
    """A checkpoint file of many logs, whose offsets are collected in many turns: each look at the
    stopwatch takes a millisecond."""

    def __init__(self) -> None:
        self.world = make_world()
        self.world.disk.make_directories("/data")
        self.offsets = {TopicPartition("t", index): Offset(9) for index in range(MANY)}
        # What happens when the offset of the middle has just been collected.
        self.next_events: list[Callable[[], None]] = []
        directory = LogDirectory("/data", self.world.disk)
        self.file = CheckpointFile(directory, "checkpoint", self.world, self.current)

    def current(self) -> Iterator[tuple[TopicPartition, Offset | None]]:
        for name in list(self.offsets):
            yield name, self.offsets.get(name)
            if name == MIDDLE and self.next_events:
                self.next_events.pop()()

    async def write(self) -> int:
        """Returns how many turns others had meanwhile."""
        ticks = count()
        turns = 0
        with measured_by(lambda: next(ticks) / 1000):
            writing = asyncio.create_task(self.file.write())
            while not writing.done():
                await asyncio.sleep(0)
                turns += 1
        assert await writing
        return turns

    def on_disk(self) -> dict[TopicPartition, Offset]:
        return text_files.decode_offsets(self.world.disk.read("/data/checkpoint"))


async def test_a_checkpoint_of_many_logs_is_written_by_turns() -> None:
    collected = CollectedFile()
    # 25 steps to collect and 25 to encode, five a turn.
    assert await collected.write() >= 8
    assert collected.on_disk() == collected.offsets


async def test_a_log_that_is_truncated_after_its_offset_was_collected() -> None:
    collected = CollectedFile()

    def truncate() -> None:
        collected.offsets[MIDDLE] = Offset(3)
        collected.file.limit(MIDDLE, Offset(3))

    collected.next_events.append(truncate)
    await collected.write()
    assert collected.on_disk()[MIDDLE] == 3
    assert collected.on_disk() == collected.offsets


async def test_a_log_that_is_made_anew_after_its_offset_was_collected() -> None:
    collected = CollectedFile()

    def make_anew() -> None:
        del collected.offsets[MIDDLE]
        collected.file.forget(MIDDLE)

    collected.next_events.append(make_anew)
    await collected.write()
    assert MIDDLE not in collected.on_disk()
    assert len(collected.on_disk()) == MANY - 1


def test_partition_metadata_is_kafkas_text() -> None:
    topic_id = TopicId(bytes.fromhex("00112233445566778899aabbccddeeff"))
    content = text_files.encode_partition_metadata(topic_id)
    assert content == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert text_files.decode_partition_metadata(content) == topic_id
    assert text_files.decode_partition_metadata(b"") == NO_TOPIC_ID
    with pytest.raises(text_files.MalformedCheckpoint):
        text_files.decode_partition_metadata(b"version: 0\ntopic_id: short")


def test_meta_properties_and_the_marker() -> None:
    made = text_files.DirectoryProperties("cluster", BrokerId(3), UUID(int=1 << 100))
    found = text_files.parse_properties(made.encode())
    assert found["cluster.id"] == "cluster"
    assert found["node.id"] == "3"
    assert found["version"] == "1"
    assert text_files.decode_uuid(found["directory.id"]) == made.directory_id.bytes


def test_the_marker_of_a_clean_stop() -> None:
    stop, in_doubt = text_files.CleanStop(8), text_files.CleanStop(8, ("a", "b"))
    # What Kafka and earlier versions write, and all that earlier versions read.
    assert stop.encode() == b'{"version":0,"brokerEpoch":8}'
    assert in_doubt.encode() == b'{"version":0,"brokerEpoch":8,"runs":["a","b"]}'
    for one in (stop, in_doubt):
        assert text_files.CleanStop.decode(one.encode()) == one
    for content in (b"", b"[]", b"{}", b'{"brokerEpoch":"8","runs":8}'):
        assert text_files.CleanStop.decode(content) == text_files.NO_CLEAN_STOP
    assert [stop.covers(epoch, "") for epoch in (7, 8, 9)] == [False, True, False]
    assert [in_doubt.covers(9, run) for run in ("", "a", "b", "c")] == [False, True, True, False]


def test_the_oldest_marker_of_several_directories_decides() -> None:
    stops = [text_files.CleanStop(9, ("a", "b")), text_files.CleanStop(8, ("b", "c"))]
    assert text_files.common_stop(stops) == text_files.CleanStop(8, ("b",))


def test_names() -> None:
    partition = TopicPartition("a-b.c_1", 12)
    assert parse_partition_directory(partition_directory(partition)) == partition
    for name in ("plain", "a-01", "a-x", "-1", "..-0", "__cluster_metadata-0", "a/b-0"):
        assert parse_partition_directory(name) is None
    deleted = deleted_directory(TopicPartition("t" * 249, 3), UUID(int=7))
    assert is_deleted_directory(deleted)
    assert len(deleted) == 255
    assert not is_deleted_directory("some-delete")
    assert parse_partition_directory(deleted) is None
    assert parse_offset_file("00000000000000000042.timeindex") == (42, ".timeindex")
    assert parse_offset_file("0000000000000000042.log") is None
    assert parse_offset_file("leader-epoch-checkpoint") is None
