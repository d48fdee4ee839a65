"""Our own asyncio client: connection, producer, consumer, admin.

It speaks to any Kafka broker. Names are imported when first used, so that a tool pays only for
what it needs:

    from odradek.client import Producer

`odradek.client.sync` has the same clients for programs without asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.accumulator import RecordMetadata
    from odradek.client.admin import Admin
    from odradek.client.admin_types import (
        ConfigChange,
        ConfigOperation,
        ConfigResource,
        ConfigType,
        NewPartitions,
        NewTopic,
    )
    from odradek.client.connection import Connection
    from odradek.client.consumer import Consumer
    from odradek.client.errors import ClientError
    from odradek.client.fetched import ConsumerRecord
    from odradek.client.group_offsets import GroupMetadata, OffsetAndMetadata
    from odradek.client.holdings import RebalanceListener
    from odradek.client.producer import Producer
    from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
    from odradek.protocol.errors import ErrorCode, KafkaError
    from odradek.protocol.types import TopicPartition

_HOMES = {
    "Admin": "odradek.client.admin",
    "AdminSettings": "odradek.client.settings",
    "ClientError": "odradek.client.errors",
    "ConfigChange": "odradek.client.admin_types",
    "ConfigOperation": "odradek.client.admin_types",
    "ConfigResource": "odradek.client.admin_types",
    "ConfigType": "odradek.client.admin_types",
    "Connection": "odradek.client.connection",
    "Consumer": "odradek.client.consumer",
    "ConsumerRecord": "odradek.client.fetched",
    "ConsumerSettings": "odradek.client.settings",
    "ErrorCode": "odradek.protocol.errors",
    "GroupMetadata": "odradek.client.group_offsets",
    "KafkaError": "odradek.protocol.errors",
    "NewPartitions": "odradek.client.admin_types",
    "NewTopic": "odradek.client.admin_types",
    "OffsetAndMetadata": "odradek.client.group_offsets",
    "Producer": "odradek.client.producer",
    "ProducerSettings": "odradek.client.settings",
    "RebalanceListener": "odradek.client.holdings",
    "RecordMetadata": "odradek.client.accumulator",
    "TopicPartition": "odradek.protocol.types",
}

__all__ = [
    "Admin",
    "AdminSettings",
    "ClientError",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "ConfigType",
    "Connection",
    "Consumer",
    "ConsumerRecord",
    "ConsumerSettings",
    "ErrorCode",
    "GroupMetadata",
    "KafkaError",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "ProducerSettings",
    "RebalanceListener",
    "RecordMetadata",
    "TopicPartition",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
