"""What `Consumer.poll` returns: a dict, which answers those who are used to a single record."""

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.habits import PARTITION, POLLED, answers
from odradek.protocol.types import TopicPartition


@answers(POLLED)
class PolledRecords(dict[TopicPartition, list[ConsumerRecord]]):
    """Records by partition."""

    __slots__ = ()


# `for record in consumer.poll()` goes over the partitions.
answers(PARTITION)(TopicPartition)
