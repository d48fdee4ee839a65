"""Admin calls about the offsets of groups."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from odradek.client import arguments
from odradek.client.admin.channel import by_topic
from odradek.client.admin.group_types import GroupOffset
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.results import Results
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType
from odradek.client.leader_requests import Answers
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import CoordinatorError, ErrorCode, KafkaError, error_for
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from odradek.protocol.types import TopicPartition

T = TypeVar("T")
_log = logging.getLogger("odradek.client")

_FIRST_VERSION_WITH_GROUPS: Final = OffsetFetchRequest.first_version_with("groups")
# Newer versions name topics by id; offsets of a deleted topic have no id.
_LAST_VERSION_WITH_NAMES: Final = 9
_NO_GENERATION: Final = -1
_AS_COMMITTED: Final = ("offset", "metadata", "leader_epoch")


class GroupOffsetCalls(GroupCalls):
    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> Results[TopicPartition, GroupOffset | KafkaError]:
        """Returns what a group has committed, in all partitions or in these; others are left out.

        `require_stable` refuses partitions that an open transaction is about to change.
        """
        call = "list_group_offsets()"
        indexes = None if partitions is None else by_topic(arguments.partitions(partitions, call))

        async def ask(
            connection: Connection, _: list[str]
        ) -> dict[str, Answers[GroupOffset] | KafkaError]:
            response = await connection.request(
                _fetch_request(connection, group_id, indexes, require_stable),
                OffsetFetchResponse,
                max_version=_LAST_VERSION_WITH_NAMES,
            )
            if not response.groups:
                if response.error_code:
                    return {group_id: error_for(response.error_code)}
                return {
                    group_id: _offsets(
                        (described.name, described.partitions) for described in response.topics
                    )
                }
            (group,) = response.groups
            if group.error_code:
                return {group_id: error_for(group.error_code)}
            return {
                group_id: _offsets(
                    (described.name, described.partitions) for described in group.topics
                )
            }

        return await self._one_group(group_id, ask, call)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset | int],
        *,
        may_create: bool | None = None,
    ) -> Results[TopicPartition, bool | KafkaError]:
        """Sets offsets of a group without members; a group with members gives UNKNOWN_MEMBER_ID.

        A group that does not exist is made by that, and a warning says so, because the name may be
        misspelt. `may_create=True` means it; `may_create=False` raises GROUP_ID_NOT_FOUND instead.
        """
        call = "alter_group_offsets()"
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for partition, offset in arguments.by_partition(offsets, call, "offset").items():
            to = _group_offset(offset, call)
            topic = topics.setdefault(
                partition.topic, OffsetCommitRequestTopic(name=partition.topic)
            )
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=to.offset,
                    committed_leader_epoch=to.leader_epoch,
                    committed_metadata=to.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=_NO_GENERATION,
            topics=list(topics.values()),
        )

        async def ask(
            connection: Connection, _: list[str]
        ) -> dict[str, Answers[bool] | KafkaError]:
            response = await connection.request(
                request, OffsetCommitResponse, max_version=_LAST_VERSION_WITH_NAMES
            )
            return {group_id: _named_by_users(_answers(response), group_id)}

        missing = None if may_create else await self._missing(group_id, call)
        if missing is not None and may_create is False:
            raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, missing)
        answers = await self._one_group(group_id, ask, call)
        if missing is not None:
            _log.warning(
                "%s: %s; it is made now. Write may_create=True if it is a new group,"
                " delete_groups([%r]) to remove it",
                call,
                missing,
                group_id,
            )
        return answers

    async def _missing(self, group_id: str, call: str) -> str | None:
        """Returns what to say if there is no such group."""
        arguments.a_name(group_id, call, "group")
        found = (await self.describe_groups([group_id]))[group_id]
        if not isinstance(found, KafkaError) or found.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        known = [listing.group_id for listing in await self.list_groups()]
        return f"there is no group {group_id!r}{did_you_mean(group_id, known)}"

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, bool | KafkaError]:
        """Deletes offsets; partitions of topics that members subscribe to are refused."""
        call = "delete_group_offsets()"
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequestPartition(partition_index=index) for index in many
                    ],
                )
                for topic, many in by_topic(arguments.partitions(partitions, call)).items()
            ],
        )

        async def ask(
            connection: Connection, _: list[str]
        ) -> dict[str, Answers[bool] | KafkaError]:
            response = await connection.request(request, OffsetDeleteResponse)
            if response.error_code:
                return {group_id: error_for(response.error_code)}
            return {group_id: _answers(response)}

        return await self._one_group(group_id, ask, call)

    async def _one_group(
        self,
        group_id: str,
        ask: Callable[[Connection, list[str]], Awaitable[dict[str, Answers[T] | KafkaError]]],
        call: str,
    ) -> Results[TopicPartition, T | KafkaError]:
        arguments.a_name(group_id, call, "group")
        answer = (await self.ask_coordinators(KeyType.GROUP, [group_id], ask))[group_id]
        if isinstance(answer, KafkaError):
            raise answer
        return Results(call, answer)


def _group_offset(given: object, call: str) -> GroupOffset:
    """Returns the offset to set. It may be what a consumer commits: an `OffsetAndMetadata`, whose
    fields are the same in another order, or a pair of offset and metadata."""
    if isinstance(given, tuple) and given and not isinstance(given, GroupOffset):
        given = GroupOffset(**dict(zip(_AS_COMMITTED, given, strict=False)))
    if not isinstance(given, GroupOffset):
        return GroupOffset(arguments.offset(given, call))
    arguments.offset(given.offset, call)
    return given


def _fetch_request(
    connection: Connection,
    group_id: str,
    indexes: dict[str, list[int]] | None,
    require_stable: bool,
) -> OffsetFetchRequest:
    if connection.supports(OffsetFetchRequest, _FIRST_VERSION_WITH_GROUPS):
        topics = None
        if indexes is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic, partition_indexes=many)
                for topic, many in indexes.items()
            ]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        return OffsetFetchRequest(groups=[group], require_stable=require_stable)
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if indexes is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=many)
            for topic, many in indexes.items()
        ],
        require_stable=require_stable,
    )


def _offsets(
    topics: Iterable[
        tuple[str, list[OffsetFetchResponsePartitions] | list[OffsetFetchResponsePartition]]
    ],
) -> Answers[GroupOffset]:
    answers: Answers[GroupOffset] = {}
    for name, partitions in topics:
        for answer in partitions:
            partition = TopicPartition(name, answer.partition_index)
            if answer.error_code:
                answers[partition] = error_for(answer.error_code)
            elif answer.committed_offset >= 0:
                answers[partition] = GroupOffset(
                    answer.committed_offset,
                    answer.committed_leader_epoch,
                    answer.metadata or "",
                )
    return answers


def _named_by_users(
    answers: Answers[bool] | KafkaError, group_id: str
) -> Answers[bool] | KafkaError:
    """Returns the answers, in which UNKNOWN_MEMBER_ID says what it means: a program that is no
    member cannot set offsets of a group that has some."""
    if isinstance(answers, KafkaError):
        return answers
    for partition, answer in answers.items():
        if isinstance(answer, KafkaError) and answer.code == ErrorCode.UNKNOWN_MEMBER_ID:
            answers[partition] = error_for(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group_id!r} has members, who alone set its offsets: stop them first",
            )
    return answers


def _answers(
    response: OffsetCommitResponse | OffsetDeleteResponse,
) -> Answers[bool] | KafkaError:
    """Returns the answer for each partition, or one error if the broker is not the coordinator."""
    answers: Answers[bool] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            error = error_for(partition.error_code) if partition.error_code else None
            if isinstance(error, CoordinatorError):
                return error
            answers[TopicPartition(topic.name, partition.partition_index)] = error or True
    return answers
