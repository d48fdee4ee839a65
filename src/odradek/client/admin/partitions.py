"""Admin calls about the replicas and leaders of partitions: elections and reassignments."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.client.admin.results import Results
from odradek.protocol.errors import ErrorCode, KafkaError, raise_for
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from odradek.protocol.types import BrokerId, TopicPartition


class ElectionType(IntEnum):
    PREFERRED = 0
    """The first replica leads again, if it is in sync."""
    UNCLEAN = 1
    """Any replica may become the leader, even if records are lost."""


class Reassignment(NamedTuple):
    """A partition that moves to other brokers: its replicas now, those added and those removed."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class PartitionCalls(AdminChannel):
    async def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Results[TopicPartition, KafkaError | None]:
        """Elects leaders of some partitions, or of all that need it.

        ELECTION_NOT_NEEDED means that the preferred replica leads already.
        """
        call = "elect_leaders()"
        arguments.one_of(int, election_type, call, "an ElectionType", "ElectionType.PREFERRED")
        topics: dict[str, TopicPartitions] = {}
        for partition in arguments.partitions(() if partitions is None else partitions, call):
            topic = topics.setdefault(partition.topic, TopicPartitions(topic=partition.topic))
            topic.partitions.append(partition.partition)
        response = await self.controller_request(
            ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None if partitions is None else list(topics.values()),
                timeout_ms=self.settings.request_timeout_ms,
            ),
            ElectLeadersResponse,
        )
        raise_for(response.error_code)
        return Results(
            call,
            {
                TopicPartition(topic.topic, result.partition_id): error_or_none(
                    result.error_code, result.error_message
                )
                for topic in response.replica_election_results
                for result in topic.partition_result
            },
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Results[TopicPartition, KafkaError | None]:
        """Starts to move partitions to these brokers, preferred leader first; None stops a move.

        The answer says that the move was accepted, not that it is complete.
        """
        call = "alter_partition_reassignments()"
        topics: dict[str, ReassignableTopic] = {}
        for partition, replicas in arguments.by_partition(targets, call, "[1, 2]").items():
            topic = topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic))
            topic.partitions.append(
                ReassignablePartition(
                    partition_index=partition.partition,
                    replicas=None if replicas is None else arguments.broker_ids(replicas, call),
                )
            )
        response = await self.controller_request(
            AlterPartitionReassignmentsRequest(
                timeout_ms=self.settings.request_timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=list(topics.values()),
            ),
            AlterPartitionReassignmentsResponse,
        )
        raise_for(response.error_code, response.error_message)
        return Results(
            call,
            {
                TopicPartition(topic.name, answer.partition_index): error_or_none(
                    answer.error_code, answer.error_message
                )
                for topic in response.responses
                for answer in topic.partitions
            },
        )

    async def cancel_partition_reassignments(
        self, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, KafkaError | None]:
        """Stops moves; a partition that is not being moved is not an error."""
        moved = arguments.partitions(partitions, "cancel_partition_reassignments()")
        answers = await self.alter_partition_reassignments(dict.fromkeys(moved))
        return Results(
            "cancel_partition_reassignments()",
            {
                partition: None
                if error is not None and error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                else error
                for partition, error in answers.items()
            },
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Returns the reassignments under way, of all partitions or of some."""
        call = "list_partition_reassignments()"
        topics: dict[str, ListPartitionReassignmentsTopics] = {}
        for partition in arguments.partitions(() if partitions is None else partitions, call):
            topic = topics.setdefault(
                partition.topic, ListPartitionReassignmentsTopics(name=partition.topic)
            )
            topic.partition_indexes.append(partition.partition)
        response = await self.controller_request(
            ListPartitionReassignmentsRequest(
                timeout_ms=self.settings.request_timeout_ms,
                topics=None if partitions is None else list(topics.values()),
            ),
            ListPartitionReassignmentsResponse,
        )
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, answer.partition_index): Reassignment(
                tuple(map(BrokerId, answer.replicas)),
                tuple(map(BrokerId, answer.adding_replicas)),
                tuple(map(BrokerId, answer.removing_replicas)),
            )
            for topic in response.topics
            for answer in topic.partitions
        }
