"""The action of the verifiable consumer, after its flags are parsed."""

import argparse

from odradek.cli.records.verifiable_events import Events
from odradek.client.admin.topics import TopicCalls
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import ClientError
from odradek.client.group.assignment import RebalanceListener
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import open_admin_beside
from odradek.tools.interruption import until_interrupted
from odradek.tools.reading import partitions_to_read, start_reading

_POLL_MS = 1000


class _ReportedRebalances(RebalanceListener):
    """Reports which partitions the group gives to this member, and takes away."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._events.emit("partitions_assigned", partitions=_as_json(partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._events.emit("partitions_revoked", partitions=_as_json(partitions))


class VerifiableConsumer:
    """Reports the records that it reads, and commits their offsets if `commits` is set."""

    def __init__(self, arguments: argparse.Namespace, events: Events, *, commits: bool) -> None:
        self._most = arguments.max_messages
        self._verbose = arguments.verbose
        self._events = events
        self._commits = commits
        self._read = 0

    async def run(self, consumer: Consumer) -> None:
        while self._most < 0 or self._read < self._most:
            limit = consumer.settings.max_poll_records
            if self._most >= 0:
                limit = min(limit, self._most - self._read)
            records_by_partition = await consumer.poll(_POLL_MS, limit)
            if records_by_partition:
                self._report(records_by_partition)
                if self._commits:
                    await self._commit(consumer, records_by_partition)

    async def _commit(
        self,
        consumer: Consumer,
        records_by_partition: dict[TopicPartition, list[ConsumerRecord]],
    ) -> None:
        """Commits what was read. A group that went on without this member is reported, and the
        consumer joins it again with the next poll."""
        offsets = {
            partition: records[-1].offset + 1 for partition, records in records_by_partition.items()
        }
        details: dict[str, object] = {"success": True}
        try:
            await consumer.commit(offsets)
        except (KafkaError, ClientError) as error:
            details = {"success": False, "error": str(error)}
        self._events.emit(
            "offsets_committed",
            offsets=[
                {"topic": partition.topic, "partition": partition.partition, "offset": offset}
                for partition, offset in offsets.items()
            ],
            **details,
        )

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
        if settings.group_id is not None:
            consumer.subscribe([arguments.topic], listener=_ReportedRebalances(events))
        else:
            start = LATEST if arguments.reset_policy == "latest" else EARLIEST
            start_reading(consumer, partitions, start)
            events.emit("partitions_assigned", partitions=_as_json(partitions))
        commits = settings.group_id is not None and not settings.enable_auto_commit
        work = VerifiableConsumer(arguments, events, commits=commits)
        code = await until_interrupted(work.run(consumer))
    events.emit("shutdown_complete")
    return code


def _as_json(partitions: list[TopicPartition]) -> list[dict[str, object]]:
    return [
        {"topic": partition.topic, "partition": partition.partition} for partition in partitions
    ]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
