"""Chooses the partitions and offsets that a tool reads, for all tools that consume."""

from odradek.client.admin.topics import TopicCalls
from odradek.client.consumer.consumer import Consumer
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import topics_named
from odradek.tools.topic_names import no_such_topic, topic_pattern


async def partitions_to_read(
    admin: TopicCalls, topic: str | None, include: str | None = None
) -> list[TopicPartition]:
    """Returns all partitions of a topic, or of the topics that a regular expression matches."""
    if topic is not None:
        topics = await topics_named(admin, [topic])
    else:
        pattern = topic_pattern(include or "", "--include")
        known = await admin.list_topics()
        topics = {name: known[name] for name in known if pattern.fullmatch(name)}
        if not topics:
            raise no_such_topic(include or "", list(known))
    return [
        TopicPartition(name, number)
        for name, description in topics.items()
        for number in description.partitions
    ]


def start_reading(consumer: Consumer, partitions: list[TopicPartition], offset: int) -> None:
    """Assigns partitions from an offset, from the first record (-2) or from the end (-1)."""
    consumer.assign(partitions)
    if offset == EARLIEST:
        consumer.seek_to_beginning()
    elif offset == LATEST:
        consumer.seek_to_end()
    else:
        for partition in partitions:
            consumer.seek(partition, offset)
