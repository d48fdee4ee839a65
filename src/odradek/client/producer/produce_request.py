"""Makes a Produce request of batches, with the key under which the answer names each batch."""

from odradek.client.cluster_view import ClusterView
from odradek.client.producer.accumulator import ProducerBatch
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.types import NO_TOPIC_ID, TopicId

# From this version on topics are named by id.
_FIRST_VERSION_WITH_TOPIC_IDS = 13

Key = tuple[str | TopicId, int]
"""A topic's name or id, as the version has it, and the partition."""


def produce_request(
    batches: list[ProducerBatch],
    view: ClusterView,
    version: int,
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> tuple[ProduceRequest, int, dict[Key, ProducerBatch]]:
    """Returns the request, its version and the batches by key.

    The version is older than `version` if the id of a topic is not known.
    """
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name = batch.queue.topic_partition.topic
        if name not in topics:
            known = view.topics.get(name)
            topic_id = NO_TOPIC_ID if known is None else known.id
            topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            if topic_id == NO_TOPIC_ID:
                version = min(version, _FIRST_VERSION_WITH_TOPIC_IDS - 1)
    by_id = version >= _FIRST_VERSION_WITH_TOPIC_IDS
    by_key: dict[Key, ProducerBatch] = {}
    for batch in batches:
        name, index = batch.queue.topic_partition
        topic = topics[name]
        records = batch.build(is_transactional=transactional_id is not None)
        topic.partition_data.append(PartitionProduceData(index=index, records=records))
        by_key[topic.topic_id if by_id else name, index] = batch
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
    )
    return request, version, by_key
