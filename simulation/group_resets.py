"""When the generations of a group began anew, as the log of the coordinator tells.

A group that changes its protocol while it has members keeps counting (KIP-848): its generation
becomes its epoch, and the other way round. An empty group that changes its protocol is replaced by
a new one, in Kafka too, and the new one counts from the start. From then on a generation number
means something else, so the rule that a partition has one owner in a generation counts within the
time between two resets (`group_checkers.two_owners`).
"""

import asyncio
from typing import Final

from odradek.groups import records as classic_records
from odradek.groups.consumer import records as consumer_records
from odradek.protocol.records import crc_is_valid, decode_records
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.group_checkers import Span
from simulation.replica_batches import batches_in
from simulation.simulated_broker import SimulatedBroker

OFFSETS: Final = "__consumer_offsets"
_LOOK_S: Final = 0.25


class ResetWatch:
    """Reads the log of a lone broker as it grows. It must not be compacted: a record that the
    cleaner drops before it was read would hide a reset."""

    def __init__(self, broker: SimulatedBroker, group_id: str, partitions: int) -> None:
        self.resets: list[Span] = []
        self._broker = broker
        self._group_id = group_id
        self._next_offsets = {TopicPartition(OFFSETS, n): 0 for n in range(partitions)}
        self._generation = -1
        self._looked_s = 0.0

    async def run(self, world: World) -> None:
        while True:
            self.look(world.clock.monotonic_s())
            await asyncio.sleep(_LOOK_S)

    def look(self, now_s: float) -> None:
        """Notes every generation that was written since the last look."""
        for partition, known_offset in self._next_offsets.items():
            end = 0
            for data, header in batches_in(self._broker, partition):
                if not crc_is_valid(data, 0, header):
                    break  # A power cut has damaged it: recovery will end the log here.
                end = header.next_offset
                if end <= known_offset or header.is_control:
                    continue
                for record in decode_records(data):
                    if record.key is not None and record.value is not None:
                        self._note(record.key, record.value, now_s)
            self._next_offsets[partition] = end
        self._looked_s = now_s

    def _note(self, key: bytes, value: bytes, now_s: float) -> None:
        generation = _generation(self._group_id, key, value)
        if generation is None:
            return
        if generation < self._generation:
            self.resets.append(Span(self._looked_s, now_s))
        self._generation = generation


def _generation(group_id: str, key: bytes, value: bytes) -> int | None:
    """What a record says of the group's generation or epoch; None if nothing."""
    kind = classic_records.kind_of(key)
    if kind == classic_records.CLASSIC_GROUP and classic_records.read_group_key(key) == group_id:
        return classic_records.read_group(value).generation
    if kind == consumer_records.GROUP and consumer_records.read_key(key).group_id == group_id:
        return consumer_records.read_group(value).epoch
    return None
