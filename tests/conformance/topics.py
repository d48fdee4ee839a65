"""Fresh topics for tests with real clients, and where their files are."""

import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess
from tests.conformance.patience import PATIENCE_S, eventually

# For records with timestamps long ago, which retention deletes when it first runs, half a minute
# after the broker's start.
KEEP_OLD_RECORDS = {"retention.ms": "-1"}


def new_topic_name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def create_topic(
    broker: BrokerProcess, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Create a topic that no other test knows and return its name."""
    name = new_topic_name()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic(name, partitions, replication_factor=1, config=dict(config or {}))
    admin.create_topics([topic])[name].result(PATIENCE_S)
    eventually(
        lambda: admin.list_topics(timeout=PATIENCE_S).topics,
        lambda topics: name in topics and len(topics[name].partitions) == partitions,
    )
    return name


def partition_directory(broker: BrokerProcess, topic: str, partition: int = 0) -> Path:
    return broker.data_directory / f"{topic}-{partition}"
