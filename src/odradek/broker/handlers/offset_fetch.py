"""OffsetFetch (v1-v10): the committed offsets of a group; from version 8 of several groups.

A request without topics asks for all topics of a group. With `require_stable` (from version 7),
partitions with offsets of an open transaction get UNSTABLE_OFFSET_COMMIT. From version 10 topics
are identified by id. An offset that was committed for a deleted topic of the same name is not
returned.
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from itertools import groupby
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import FetchedOffset, FetchOffsets, PartitionToFetch
from odradek.metadata import ClusterImage, TopicImage
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import (
    API,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.types import NO_TOPIC_ID, TopicPartition
from odradek.world.timeslice import Timeslice

# How many partitions are fetched in one step: some milliseconds' work.
_AT_ONCE: Final = 1_000
_FIRST_VERSION_WITH_ERROR: Final = OffsetFetchResponse.first_version_with("error_code")
_FIRST_VERSION_WITH_GROUPS: Final = OffsetFetchRequest.first_version_with("groups")
_FIRST_VERSION_WITH_TOPIC_IDS: Final = OffsetFetchRequestTopics.first_version_with("topic_id")


async def handle(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    if context.version >= _FIRST_VERSION_WITH_GROUPS:
        return await _fetch_groups(services, context, request)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group_request = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    if context.authorize(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        denied = _take_out_denied(context, group_request)
        group = await _group(services, group_request, request.require_stable, by_id=False)
        _leave_out_hidden(context, group)
    else:
        denied = []
        group = _denied_group(group_request)
    if group.error_code and context.version < _FIRST_VERSION_WITH_ERROR:
        group.topics = _refused_each(group_request.topics or (), group.error_code)
    group.topics += denied
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[_of_one_group(partition) for partition in topic.partitions],
            )
            for topic in group.topics
        ],
    )


async def _fetch_groups(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    by_id = context.version >= _FIRST_VERSION_WITH_TOPIC_IDS
    allowed: list[tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]] = []
    denied_groups = []
    for group_request in request.groups:
        if context.authorize(Operation.DESCRIBE, ResourceType.GROUP, group_request.group_id):
            allowed.append((group_request, _take_out_denied(context, group_request)))
        else:
            denied_groups.append(_denied_group(group_request))
    groups = []
    for group_request, denied in allowed:
        group = await _group(services, group_request, request.require_stable, by_id=by_id)
        _leave_out_hidden(context, group)
        if not group.error_code:
            group.topics += denied
        groups.append(group)
    return OffsetFetchResponse(groups=groups + denied_groups)


def _denied_group(group_request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group_request.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )


def _take_out_denied(
    context: RequestContext, group_request: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Removes the topics that the client may not describe from the request. Returns the answers for
    them."""
    if group_request.topics is None:
        return []
    group_request.topics, denied = context.split_authorized(
        Operation.DESCRIBE,
        ResourceType.TOPIC,
        group_request.topics,
        lambda topic: context.topic_name(topic.name, topic.topic_id),
    )
    return _refused_each(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _leave_out_hidden(context: RequestContext, group: OffsetFetchResponseGroup) -> None:
    """Removes the topics that the client may not describe from the answer. A request for all topics
    of a group does not name them."""
    group.topics = [
        topic
        for topic in group.topics
        if not topic.name
        or context.authorize_without_logging(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    ]


async def _group(
    services: Services, group_request: OffsetFetchRequestGroup, stable: bool, *, by_id: bool
) -> OffsetFetchResponseGroup:
    """Fetches the offsets of one group, some partitions at a time; other connections are served in
    between."""
    image = services.images.image
    unknown_topics: list[OffsetFetchResponseTopics] = []
    partitions: tuple[PartitionToFetch, ...] | None = None
    if group_request.topics is not None:
        partitions_to_fetch: list[PartitionToFetch] = []
        timeslice = Timeslice.of_running_loop()
        for topic in group_request.topics:
            if len(partitions_to_fetch) + len(unknown_topics) > _AT_ONCE and timeslice.is_over():
                await timeslice.next_turn()
            topic_image = _find(image, topic, by_id=by_id)
            if topic_image is None and by_id:
                unknown_topic = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
                async for indexes in timeslice.batches(topic.partition_indexes, _AT_ONCE):
                    unknown_topic.partitions += _error_partitions(
                        indexes, ErrorCode.UNKNOWN_TOPIC_ID
                    )
                unknown_topics.append(unknown_topic)
                continue
            name = topic.name if topic_image is None else topic_image.name
            topic_id = NO_TOPIC_ID if topic_image is None else topic_image.topic_id
            async for indexes in timeslice.batches(topic.partition_indexes, _AT_ONCE):
                partitions_to_fetch += [
                    PartitionToFetch(TopicPartition(name, index), topic_id) for index in indexes
                ]
        partitions = tuple(partitions_to_fetch)
    query = FetchOffsets(
        group_request.group_id,
        partitions,
        stable,
        group_request.member_id,
        group_request.member_epoch,
    )
    topics: list[OffsetFetchResponseTopics] = []
    try:
        async for offsets in _fetch_in_steps(services, query):
            for answer in _by_topic(image, offsets, by_id=by_id):
                if topics and topics[-1].name == answer.name:
                    topics[-1].partitions += answer.partitions
                else:
                    topics.append(answer)
    except ApiError as error:
        return OffsetFetchResponseGroup(group_id=group_request.group_id, error_code=error.code)
    return OffsetFetchResponseGroup(
        group_id=group_request.group_id, topics=[*topics, *unknown_topics]
    )


async def _fetch_in_steps(
    services: Services, query: FetchOffsets
) -> AsyncIterator[list[FetchedOffset]]:
    """Yields the committed offsets in the order of the query, at most `_AT_ONCE` partitions a step.
    A query for all partitions of a group is one step of the coordinator, which is short."""
    timeslice = Timeslice.of_running_loop()
    requested_partitions = query.partitions
    first = 0
    while True:
        if requested_partitions is not None and len(requested_partitions) > _AT_ONCE:
            query = replace(query, partitions=requested_partitions[first : first + _AT_ONCE])
        fetched_offsets = await services.groups.ask(query.group_id, query)
        for begin in range(0, len(fetched_offsets), _AT_ONCE):
            yield fetched_offsets[begin : begin + _AT_ONCE]
            if len(fetched_offsets) >= _AT_ONCE and timeslice.is_over():
                await timeslice.next_turn()
        first += _AT_ONCE
        if requested_partitions is None or first >= len(requested_partitions):
            return


def _find(
    image: ClusterImage, topic: OffsetFetchRequestTopics, *, by_id: bool
) -> TopicImage | None:
    return image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)


def _by_topic(
    image: ClusterImage, fetched_offsets: list[FetchedOffset], *, by_id: bool
) -> Iterable[OffsetFetchResponseTopics]:
    for name, offsets in groupby(fetched_offsets, lambda offset: offset.partition.topic):
        topic = image.topics.get(name)
        if by_id and topic is None:
            continue
        topic_id = NO_TOPIC_ID if topic is None else topic.topic_id
        yield OffsetFetchResponseTopics(
            name=name,
            topic_id=topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=offset.partition.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    error_code=offset.error,
                )
                for offset in offsets
                if NO_TOPIC_ID in (offset.topic_id, topic_id) or offset.topic_id == topic_id
            ],
        )


def _refused_each(
    topics: Iterable[OffsetFetchRequestTopics], error_code: int
) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=_error_partitions(topic.partition_indexes, error_code),
        )
        for topic in topics
    ]


def _error_partitions(
    indexes: Iterable[int], error_code: int
) -> list[OffsetFetchResponsePartitions]:
    return [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, metadata="", error_code=error_code
        )
        for index in indexes
    ]


def _of_one_group(answer: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=answer.partition_index,
        committed_offset=answer.committed_offset,
        committed_leader_epoch=answer.committed_leader_epoch,
        metadata=answer.metadata,
        error_code=answer.error_code,
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DESCRIBE on each group and on each topic"),
    # Within a group the handler itself fetches some partitions at a time.
    splitting=[
        Splitting("groups", "groups"),
        Splitting("topics", "topics", "partition_indexes", "partitions", max_elements=1_000),
    ],
)
