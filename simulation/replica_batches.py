"""What the files of a replica hold: its batches, read from the simulated disk past the broker."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.protocol.records import (
    HEADER_SIZE,
    PREFIX_SIZE,
    BatchHeader,
    MalformedRecords,
    crc_is_valid,
    decode_records,
    read_header,
    split_batches,
)
from odradek.protocol.types import TopicPartition
from simulation.pages import Node
from simulation.simulated_broker import SimulatedBroker


class Batch(NamedTuple):
    base_offset: int
    leader_epoch: int
    checksum: int
    next_offset: int
    max_timestamp: int
    size_bytes: int


class _Segment:
    """The batches of one file. Logs are looked at all the time and mostly appended to, so what
    was read once is read again only after something else was done to the file."""

    __slots__ = ("batches", "end", "rewrites")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end = 0
        self.rewrites = 0

    def read(self, node: Node) -> list[Batch]:
        if self.rewrites != node.rewrites:
            self.rewrites = node.rewrites
            self.batches = []
            self.end = 0
        if self.end < len(node.contents):
            new = bytes(memoryview(node.contents)[self.end :])
            whole = _whole_batches(new)
            self.end += whole
            self.batches += [
                Batch(
                    header.base_offset,
                    header.leader_epoch,
                    header.crc,
                    header.next_offset,
                    header.max_timestamp,
                    header.size_bytes,
                )
                for _, header in split_batches(new[:whole])
            ]
        return self.batches


def batches_of(broker: SimulatedBroker, topic_partition: TopicPartition) -> list[Batch] | None:
    """The batches in the files of a log; None without a directory. Callers must not change it."""
    disk = broker.host.disk
    directory = f"/data/{topic_partition.topic}-{topic_partition.partition}"
    if not disk.exists(directory):
        return None
    found = [_segment_of(node).read(node) for node in disk.nodes(directory, ".log")]
    return found[0] if len(found) == 1 else [batch for batches in found for batch in batches]


def _segment_of(node: Node) -> _Segment:
    if node.reading is None:
        node.reading = _Segment()
    assert isinstance(node.reading, _Segment)
    return node.reading


def values_of(broker: SimulatedBroker, topic_partition: TopicPartition) -> set[bytes]:
    """The values of all records that its disk holds, up to the first batch that a power cut has
    damaged or taken: recovery ends the log there. For topics that are not compacted."""
    values: set[bytes] = set()
    next_offset: int | None = None
    for data, header in batches_in(broker, topic_partition):
        if next_offset not in (None, header.base_offset) or not crc_is_valid(data, 0, header):
            break
        next_offset = header.next_offset
        if not header.is_control:
            values.update(
                record.value for record in decode_records(data) if record.value is not None
            )
    return values


def batches_in(
    broker: SimulatedBroker, topic_partition: TopicPartition
) -> Iterator[tuple[bytes, BatchHeader]]:
    """The whole batches in the files of a log, each with its header."""
    for content in broker.host.disk.peek(
        f"/data/{topic_partition.topic}-{topic_partition.partition}", ".log"
    ):
        for position, header in split_batches(content[: _whole_batches(content)]):
            yield content[position : position + header.size_bytes], header


def _whole_batches(content: bytes) -> int:
    """How many bytes they take: a write that failed half-way, or will go on, leaves a torn one,
    a power cut may leave zeros, and a large batch gets its first bytes last."""
    end = 0
    while len(content) - end >= HEADER_SIZE and any(content[end : end + PREFIX_SIZE]):
        try:
            size_bytes = read_header(content, end).size_bytes
        except MalformedRecords:
            break
        if end + size_bytes > len(content):
            break
        end += size_bytes
    return end


def bytes_below(broker: SimulatedBroker, topic_partition: TopicPartition, offset: int) -> bytes:
    return b"".join(
        data for data, header in batches_in(broker, topic_partition) if header.next_offset <= offset
    )
