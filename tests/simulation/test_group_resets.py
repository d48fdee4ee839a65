"""When the generations of a group began anew is read from its log, also after a power cut."""

from random import Random
from types import SimpleNamespace
from typing import Any

from odradek.groups.consumer.records import group_record
from odradek.protocol.records import BatchBuilder
from odradek.world.disk import File
from simulation.disk import SimulatedDisk
from simulation.group_resets import OFFSETS, ResetWatch

GROUP = "workers"


def batch(base_offset: int, epoch: int) -> bytes:
    record = group_record(GROUP, epoch, 0)
    builder = BatchBuilder()
    builder.append(record.key, record.value, (), 0)
    built = bytearray(builder.build())
    built[:8] = base_offset.to_bytes(8, "big")
    return bytes(built)


def watched() -> tuple[ResetWatch, File]:
    disk = SimulatedDisk(Random(1))
    disk.make_directories(f"/data/{OFFSETS}-0")
    file = disk.open(f"/data/{OFFSETS}-0/{0:020d}.log", create=True)
    broker: Any = SimpleNamespace(host=SimpleNamespace(disk=disk))
    return ResetWatch(broker, GROUP, 1), file


def test_a_generation_below_the_last_one_is_a_reset() -> None:
    watch, file = watched()
    log = batch(0, 1) + batch(1, 2)
    file.write_at(0, [log])
    watch.look(1.0)
    assert watch.resets == []
    file.write_at(len(log), [batch(2, 1)])
    watch.look(2.0)
    (reset,) = watch.resets
    assert (reset.first_s, reset.last_s) == (1.0, 2.0)
    watch.look(3.0)
    assert watch.resets == [reset]


def test_a_batch_that_a_power_cut_has_torn_is_not_read_and_what_replaces_it_is() -> None:
    """The watch took a torn batch for a whole one, and ended the run (`groups` 110000327)."""
    watch, file = watched()
    kept, torn = batch(0, 2), batch(1, 3)
    file.write_at(0, [kept + torn])
    watch.look(1.0)
    half = len(torn) - 10
    file.write_at(len(kept) + half, [bytes(len(torn) - half)])
    watch.look(2.0)
    file.truncate(len(kept))
    file.write_at(len(kept), [batch(1, 1)])
    watch.look(3.0)
    (reset,) = watch.resets
    assert (reset.first_s, reset.last_s) == (2.0, 3.0)
