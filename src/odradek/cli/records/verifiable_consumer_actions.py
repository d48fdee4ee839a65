"""The action of the verifiable consumer, after its flags are parsed."""

import argparse

from odradek.cli.records.verifiable_events import Events
from odradek.client.admin.topics import TopicCalls
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import open_admin_beside
from odradek.tools.interruption import until_interrupted
from odradek.tools.reading import partitions_to_read, start_reading

_POLL_MS = 1000


class VerifiableConsumer:
    def __init__(self, arguments: argparse.Namespace, events: Events) -> None:
        self._most = arguments.max_messages
        self._verbose = arguments.verbose
        self._events = events
        self._read = 0

    async def run(self, consumer: Consumer) -> None:
        while self._most < 0 or self._read < self._most:
            limit = consumer.settings.max_poll_records
            if self._most >= 0:
                limit = min(limit, self._most - self._read)
            records_by_partition = await consumer.poll(_POLL_MS, limit)
            if records_by_partition:
                self._report(records_by_partition)

    def _report(self, records_by_partition: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        summaries = []
        for partition, records in records_by_partition.items():
            self._read += len(records)
            summaries.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "count": len(records),
                    "minOffset": records[0].offset,
                    "maxOffset": records[-1].offset,
                }
            )
            if self._verbose:
                for record in records:
                    self._events.emit(
                        "record_data",
                        key=_text(record.key),
                        value=_text(record.value),
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                    )
        count = sum(map(len, records_by_partition.values()))
        self._events.emit("records_consumed", count=count, partitions=summaries)


async def consume(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    settings = ConsumerSettings.from_properties(properties)
    async with open_admin_beside(TopicCalls, properties) as admin:
        partitions = await partitions_to_read(admin, arguments.topic)
    events = Events()
    async with Consumer(settings) as consumer:
        events.emit("startup_complete")
        start_reading(
            consumer, partitions, LATEST if arguments.reset_policy == "latest" else EARLIEST
        )
        assigned = [
            {"topic": partition.topic, "partition": partition.partition} for partition in partitions
        ]
        events.emit("partitions_assigned", partitions=assigned)
        code = await until_interrupted(VerifiableConsumer(arguments, events).run(consumer))
    events.emit("shutdown_complete")
    return code


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
