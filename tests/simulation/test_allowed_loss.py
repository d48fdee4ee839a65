"""What a power cut has left on a disk is judged as recovery will judge it."""

from random import Random
from types import SimpleNamespace
from typing import Any

from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import TopicPartition
from simulation.disk import SimulatedDisk
from simulation.replica_batches import values_of

ORDERS = TopicPartition("orders", 0)


def batch(base_offset: int, *values: bytes) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(None, value, (), 0)
    built = bytearray(builder.build())
    built[:8] = base_offset.to_bytes(8, "big")
    return bytes(built)


def broker_with(**files: bytes) -> Any:
    disk = SimulatedDisk(Random(1))
    disk.make_directories("/data/orders-0")
    for number, content in enumerate(files.values()):
        file = disk.open(f"/data/orders-0/{number:020d}.log", create=True)
        file.write_at(0, [content])
    return SimpleNamespace(host=SimpleNamespace(disk=disk))


def test_all_values_of_a_whole_log() -> None:
    broker = broker_with(first=batch(0, b"a", b"b") + batch(2, b"c"), second=batch(3, b"d"))
    assert values_of(broker, ORDERS) == {b"a", b"b", b"c", b"d"}


def test_nothing_from_the_first_damaged_batch_on() -> None:
    """Its header is whole, and a page of its records is lost."""
    torn = batch(1, b"lost" * 20, b"lost too" * 20)
    torn = torn[:70] + bytes(len(torn) - 70)
    broker = broker_with(only=batch(0, b"kept") + torn + batch(3, b"behind"))
    assert values_of(broker, ORDERS) == {b"kept"}


def test_nothing_behind_a_hole() -> None:
    broker = broker_with(first=batch(0, b"kept"), second=batch(5, b"behind"))
    assert values_of(broker, ORDERS) == {b"kept"}
