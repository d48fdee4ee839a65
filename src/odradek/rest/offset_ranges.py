"""Which offsets a partition has."""

from odradek.client.admin.admin import Admin
from odradek.client.leader_requests import EARLIEST, LATEST, list_offsets
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition


async def offset_range(admin: Admin, partition: TopicPartition) -> tuple[int, int]:
    """Returns the first offset of a partition and the next one that will be written."""
    found = []
    for timestamp in (EARLIEST, LATEST):
        answers = await list_offsets(
            admin.cluster,
            {partition: timestamp},
            timeout_ms=admin.settings.default_api_timeout_ms,
        )
        answer = answers[partition]
        if isinstance(answer, KafkaError):
            raise answer
        found.append(answer.offset)
    return found[0], found[1]
