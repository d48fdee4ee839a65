"""Admin calls about offsets and records."""

from collections.abc import Mapping

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel
from odradek.client.admin.results import Results
from odradek.client.connection import Connection
from odradek.client.leader_requests import Answers, ListedOffset, ask_leaders, list_offsets
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.types import TopicPartition


class RecordCalls(AdminChannel):
    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Results[TopicPartition, ListedOffset | KafkaError]:
        """Returns offsets by time: a timestamp in ms, or `EARLIEST`, `LATEST`, ... of `leaders`.

        An offset of -1 means that there is no such record.
        """
        call = "list_offsets()"
        given = arguments.by_partition(timestamps, call, "timestamp_ms")
        answers = await list_offsets(
            self.cluster,
            {
                partition: arguments.milliseconds(timestamp, call, "timestamp_ms")
                for partition, timestamp in given.items()
            },
            read_committed=read_committed,
            timeout_ms=self.settings.default_api_timeout_ms,
        )
        return Results(call, answers)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> Results[TopicPartition, int | KafkaError]:
        """Deletes the records before an offset (-1: all); returns the new log start offsets."""
        call = "delete_records()"
        offsets = {
            partition: arguments.integer(offset, call, "offset", at_least=-1)
            for partition, offset in arguments.by_partition(before, call, "offset").items()
        }

        async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[int]:
            topics: dict[str, DeleteRecordsTopic] = {}
            for partition in partitions:
                topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic))
                topic.partitions.append(
                    DeleteRecordsPartition(
                        partition_index=partition.partition, offset=offsets[partition]
                    )
                )
            response = await connection.request(
                DeleteRecordsRequest(
                    topics=list(topics.values()), timeout_ms=self.settings.request_timeout_ms
                ),
                DeleteRecordsResponse,
            )
            return {
                TopicPartition(answered.name, answer.partition_index): error_for(answer.error_code)
                if answer.error_code
                else answer.low_watermark
                for answered in response.topics
                for answer in answered.partitions
            }

        timeout_ms = self.settings.default_api_timeout_ms
        return Results(call, await ask_leaders(self.cluster, offsets, ask, timeout_ms))
