"""Batches that no consumer could read. A broker must refuse them."""

from random import Random
from typing import Final

from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import HEADER_SIZE, BatchBuilder, assemble, read_header
from odradek.world import World
from simulation.checkers import Violation
from simulation.simulated_cluster import Brokers

_MAX_RECORDS: Final = 2**31 - 1
# The highest version that names topics by their names.
_VERSION: Final = 9


def malformed_batch(random: Random, now_ms: int) -> bytes:
    """Returns a batch whose checksum is right and whose contents are not."""
    builder = BatchBuilder()
    builder.append(b"key", b"value", (), now_ms)
    batch = builder.build()
    header, payload = read_header(batch), batch[HEADER_SIZE:]
    match random.randrange(3):
        case 0:
            claims = header._replace(record_count=_MAX_RECORDS, last_offset_delta=_MAX_RECORDS - 1)
            return assemble(claims, payload)
        case 1:
            return assemble(header, random.randbytes(len(payload)))
        case _:
            # The key ends behind its record.
            broken = bytearray(payload)
            broken[4] = 126
            return assemble(header, bytes(broken))


async def send_malformed_batch(
    brokers: Brokers, random: Random, topic: str, found: list[Violation]
) -> None:
    """Sends one, and adds a violation to `found` if the broker accepts it."""

    async def send(world: World) -> None:
        batch = malformed_batch(random, world.clock.now_ms())
        async with brokers.admin(world) as admin:
            connection = await admin.connection(None)
            data = [PartitionProduceData(index=0, records=batch)]
            request = ProduceRequest(
                acks=-1,
                timeout_ms=2000,
                topic_data=[TopicProduceData(name=topic, partition_data=data)],
            )
            answer = await connection.request(request, ProduceResponse, max_version=_VERSION)
        for one in answer.responses[0].partition_responses:
            if not one.error_code:
                detail = f"a batch that nobody can read stands at {one.base_offset}"
                found.append(Violation("nonsense taken", topic, detail))

    await brokers.try_to(send, 3.0)
