"""Our own asyncio client: connection, producer, consumer, admin.

It speaks to any Kafka broker. Names are imported when first used, so that a tool pays only for
what it needs:

    from odradek.client import Producer

`odradek.client.sync` has the same clients for programs without asyncio.
"""

from typing import TYPE_CHECKING

from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.client.admin.admin import Admin
    from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigType
    from odradek.client.admin.topic_types import NewPartitions, NewTopic
    from odradek.client.connection import Connection
    from odradek.client.consumer.consumer import Consumer
    from odradek.client.consumer.fetched_batches import ConsumerRecord
    from odradek.client.consumer.interceptors import ConsumerInterceptor
    from odradek.client.errors import (
        ClientError,
        NoBrokerAvailable,
        SettingsError,
        TimedOut,
        Wakeup,
        is_retriable,
    )
    from odradek.client.group.assignment import RebalanceListener
    from odradek.client.group.offsets import GroupMetadata, OffsetAndMetadata
    from odradek.client.metrics.view import MetricName
    from odradek.client.producer.deliveries import RecordMetadata
    from odradek.client.producer.interceptors import ProducerInterceptor, ProducerRecord
    from odradek.client.producer.partitioners import UnplacedRecord
    from odradek.client.producer.producer import Producer
    from odradek.client.serialization import SerializationContext
    from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
    from odradek.config.operation import ConfigOperation
    from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic
    from odradek.protocol.types import TopicPartition

_HOMES = {
    "Admin": "odradek.client.admin.admin",
    "AdminSettings": "odradek.client.settings",
    "ClientError": "odradek.client.errors",
    "ConfigChange": "odradek.client.admin.config_types",
    "ConfigOperation": "odradek.config.operation",
    "ConfigResource": "odradek.client.admin.config_types",
    "ConfigType": "odradek.client.admin.config_types",
    "Connection": "odradek.client.connection",
    "Consumer": "odradek.client.consumer.consumer",
    "ConsumerInterceptor": "odradek.client.consumer.interceptors",
    "ConsumerRecord": "odradek.client.consumer.fetched_batches",
    "ConsumerSettings": "odradek.client.settings",
    "ErrorCode": "odradek.protocol.errors",
    "GroupMetadata": "odradek.client.group.offsets",
    "KafkaError": "odradek.protocol.errors",
    "MetricName": "odradek.client.metrics.view",
    "NewPartitions": "odradek.client.admin.topic_types",
    "NewTopic": "odradek.client.admin.topic_types",
    "NoBrokerAvailable": "odradek.client.errors",
    "OffsetAndMetadata": "odradek.client.group.offsets",
    "Producer": "odradek.client.producer.producer",
    "ProducerInterceptor": "odradek.client.producer.interceptors",
    "ProducerRecord": "odradek.client.producer.interceptors",
    "ProducerSettings": "odradek.client.settings",
    "RebalanceListener": "odradek.client.group.assignment",
    "RecordMetadata": "odradek.client.producer.deliveries",
    "SerializationContext": "odradek.client.serialization",
    "SettingsError": "odradek.client.errors",
    "TimedOut": "odradek.client.errors",
    "TopicPartition": "odradek.protocol.types",
    "UnknownTopic": "odradek.protocol.errors",
    "UnplacedRecord": "odradek.client.producer.partitioners",
    "Wakeup": "odradek.client.errors",
    "is_retriable": "odradek.client.errors",
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
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerSettings",
    "ErrorCode",
    "GroupMetadata",
    "KafkaError",
    "MetricName",
    "NewPartitions",
    "NewTopic",
    "NoBrokerAvailable",
    "OffsetAndMetadata",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerSettings",
    "RebalanceListener",
    "RecordMetadata",
    "SerializationContext",
    "SettingsError",
    "TimedOut",
    "TopicPartition",
    "UnknownTopic",
    "UnplacedRecord",
    "Wakeup",
    "is_retriable",
]


def _raise_for_import(name: str) -> None:
    from odradek.client.habits import raise_for_import  # noqa: PLC0415 - only for mistakes

    raise_for_import(__name__, name, __all__)


if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES, _raise_for_import)
