"""The topics in which coordinators keep their state, made when they are first needed."""

from typing import Final

from odradek.cluster.topics import NewTopic, Topics
from odradek.config import BrokerSettings
from odradek.metadata import ImageKeeper
from odradek.protocol.errors import ErrorCode
from odradek.replication.partition import INTERNAL_TOPICS
from odradek.replication.refusal import Refused

__all__ = ["GROUPS", "INTERNAL_TOPICS", "TRANSACTIONS", "ensure"]

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"


async def ensure(name: str, topics: Topics, images: ImageKeeper, settings: BrokerSettings) -> None:
    """Makes the topic if it is not there, with as many replicas as there are brokers for."""
    image = images.image
    if name in image.topics:
        return
    try:
        await topics.create(_internal_topic(name, len(image.brokers), settings))
    except Refused as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def _internal_topic(name: str, brokers: int, settings: BrokerSettings) -> NewTopic:
    if name == GROUPS:
        return NewTopic(
            name,
            settings.offsets_topic_num_partitions,
            min(settings.offsets_topic_replication_factor, brokers),
            overrides={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    factor = min(settings.transaction_state_log_replication_factor, brokers)
    return NewTopic(
        name,
        settings.transaction_state_log_num_partitions,
        factor,
        overrides={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(min(settings.transaction_state_log_min_isr, factor)),
            "unclean.leader.election.enable": "false",
        },
    )
