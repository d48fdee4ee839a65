"""The same clients for programs without asyncio.

    from odradek.client.sync import Consumer, Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("clicks", b"value").result()      # a concurrent.futures.Future

Each client runs the asyncio one on a loop of its own, in a thread of its own. Calls may come
from any thread. Every method is written out, with the types of the asyncio client; a test compares
the two.
"""

from typing import TYPE_CHECKING

from odradek.client.habits import raise_for_import
from odradek.client.sync.admin import Admin
from odradek.client.sync.consumer import Consumer
from odradek.client.sync.loop_thread import Begun, LoopThread
from odradek.client.sync.producer import Producer
from odradek.lazy_names import lazy_names

if TYPE_CHECKING:
    from odradek.client import (
        AdminSettings,
        ClientError,
        ConfigChange,
        ConfigOperation,
        ConfigResource,
        ConfigType,
        ConsumerInterceptor,
        ConsumerRecord,
        ConsumerSettings,
        ErrorCode,
        GroupMetadata,
        KafkaError,
        NewPartitions,
        NewTopic,
        NoBrokerAvailable,
        OffsetAndMetadata,
        ProducerInterceptor,
        ProducerRecord,
        ProducerSettings,
        RebalanceListener,
        RecordMetadata,
        SerializationContext,
        SettingsError,
        TimedOut,
        TopicPartition,
        UnknownTopic,
        UnplacedRecord,
        Wakeup,
        is_retriable,
    )

__all__ = [
    "Admin",
    "AdminSettings",
    "Begun",
    "ClientError",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "ConfigType",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerSettings",
    "ErrorCode",
    "GroupMetadata",
    "KafkaError",
    "LoopThread",
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

# What both kinds of clients take and return, so that one line imports it all.
_SHARED = {name: "odradek.client" for name in __all__ if name not in globals()}


def _raise_for_import(name: str) -> None:
    raise_for_import(__name__, name, __all__)


if not TYPE_CHECKING:  # with it, type checkers would take any name for right
    __getattr__ = lazy_names(__name__, _SHARED, _raise_for_import)
