"""Permission to commit, read and remove the offsets of groups: on the group, and on each topic."""

from typing import Final

from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.broker.guards.items import each, split
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.schema import Response, Struct

_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_FIRST_VERSION_WITH_GROUPS: Final = 8
_FIRST_VERSION_WITH_ERROR: Final = 2


def offset_commit(access: Access, version: int, request: OffsetCommitRequest) -> Verdict:
    """READ on the group and on each topic."""
    if not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return OffsetCommitResponse(
            topics=[_not_committed(topic, _GROUP_DENIED) for topic in request.topics]
        )
    allowed, refusals = [], list[Struct]()
    for topic in request.topics:
        name = access.topic_name(topic.name, topic.topic_id)
        if name is None or access.may_on_topic(Operation.READ, name):
            allowed.append(topic)
        else:
            refusals.append(_not_committed(topic, _TOPIC_DENIED))
    return split(
        request,
        allowed,
        refusals,
        asked="topics",
        answered="topics",
        response=OffsetCommitResponse,
    )


def _not_committed(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


def txn_offset_commit(access: Access, version: int, request: TxnOffsetCommitRequest) -> Verdict:
    """WRITE on the transactional id, READ on the group and on each topic."""
    error = None
    if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
        error = _GROUP_DENIED
    if error is not None:
        return TxnOffsetCommitResponse(
            topics=[_not_in_transaction(topic, error) for topic in request.topics]
        )
    return _topics_in_transaction(access, version, request)


def _not_in_transaction(
    topic: TxnOffsetCommitRequestTopic, error: ErrorCode = _TOPIC_DENIED
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one in topic.partitions
        ],
    )


_topics_in_transaction = each(
    Operation.READ,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _not_in_transaction,
    asked="topics",
    answered="topics",
    response=TxnOffsetCommitResponse,
)


def offset_delete(access: Access, version: int, request: OffsetDeleteRequest) -> Verdict:
    """DELETE on the group, READ on each topic."""
    if not access.may(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=_GROUP_DENIED)
    return _topics_to_forget(access, version, request)


def _not_forgotten(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=one.partition_index, error_code=_TOPIC_DENIED
            )
            for one in topic.partitions
        ],
    )


_topics_to_forget = each(
    Operation.READ,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _not_forgotten,
    asked="topics",
    answered="topics",
    response=OffsetDeleteResponse,
)


def offset_fetch(access: Access, version: int, request: OffsetFetchRequest) -> Verdict:
    """DESCRIBE on the group and on each topic; without topics, those are left out that the client
    may not see."""
    if version >= _FIRST_VERSION_WITH_GROUPS:
        return _fetch_groups(access, request)
    if not access.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        refused = [] if version >= _FIRST_VERSION_WITH_ERROR else request.topics or []
        return OffsetFetchResponse(
            error_code=_GROUP_DENIED, topics=[_unread(topic, _GROUP_DENIED) for topic in refused]
        )
    refusals = []
    if request.topics is not None:
        allowed = []
        for topic in request.topics:
            if access.may_on_topic(Operation.DESCRIBE, topic.name):
                allowed.append(topic)
            else:
                refusals.append(_unread(topic, _TOPIC_DENIED))
        request.topics = allowed

    def amend(response: Response) -> Response:
        assert isinstance(response, OffsetFetchResponse)
        response.topics = [topic for topic in response.topics if _sees(access, topic.name)]
        response.topics += refusals
        return response

    return amend


def _fetch_groups(access: Access, request: OffsetFetchRequest) -> Verdict:
    allowed: list[OffsetFetchRequestGroup] = []
    denied: list[OffsetFetchResponseGroup] = []
    refusals: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in request.groups:
        if not access.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            denied.append(
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=_GROUP_DENIED)
            )
            continue
        allowed.append(group)
        if group.topics is not None:
            visible, refused = _visible(access, group.topics)
            group.topics = visible
            refusals[group.group_id] = refused
    request.groups = allowed

    def amend(response: Response) -> Response:
        assert isinstance(response, OffsetFetchResponse)
        for group in response.groups:
            group.topics = [
                topic
                for topic in group.topics
                if (name := access.topic_name(topic.name, topic.topic_id)) is None
                or _sees(access, name)
            ]
            if not group.error_code:
                group.topics += refusals.get(group.group_id, [])
        response.groups += denied
        return response

    return amend


def _visible(
    access: Access, topics: list[OffsetFetchRequestTopics]
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    visible, refused = [], []
    for topic in topics:
        name = access.topic_name(topic.name, topic.topic_id)
        if name is None or access.may_on_topic(Operation.DESCRIBE, name):
            visible.append(topic)
        else:
            refused.append(
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=-1,
                            metadata="",
                            error_code=_TOPIC_DENIED,
                        )
                        for index in topic.partition_indexes
                    ],
                )
            )
    return visible, refused


def _sees(access: Access, topic: str) -> bool:
    return access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _unread(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )
