"""Permission to write, read, make and remove topics. What a consumer may fetch is asked where
partitions are read (`broker.fetching.consumer_reader`): a session outlives the rules it began
under."""

from typing import Final

from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.broker.guards.items import each, split
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.look_up import (
    LookUpPartitionResult,
    LookUpResponse,
    LookUpTopic,
    LookUpTopicResult,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records import TRANSACTIONAL_FLAG
from odradek.protocol.schema import Response, Struct
from odradek.protocol.types import NO_TOPIC_ID

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# Where a batch says in its attributes that it belongs to a transaction.
_ATTRIBUTES: Final = 22
_FIRST_DELETION_WITH_IDS: Final = 6
_CONSUMER: Final = -1


def produce(access: Access, version: int, request: ProduceRequest) -> Verdict:
    """WRITE on every topic; for a transaction also WRITE on the transactional id."""
    if _is_transactional(request):
        name = request.transactional_id
        if name is None or not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            _hang_up_if_unanswered(request)
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ProduceResponse(
                responses=[_not_produced(topic, error) for topic in request.topic_data]
            )
    allowed: list[TopicProduceData] = []
    refusals: list[Struct] = []
    for topic in request.topic_data:
        name = access.topic_name(topic.name, topic.topic_id)
        if name is None or access.may(Operation.WRITE, ResourceType.TOPIC, name):
            allowed.append(topic)
        else:
            refusals.append(_not_produced(topic, _DENIED))
    if refusals:
        _hang_up_if_unanswered(request)
    return split(
        request,
        allowed,
        refusals,
        asked="topic_data",
        answered="responses",
        response=ProduceResponse,
    )


def _is_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES
                and records[_ATTRIBUTES] & TRANSACTIONAL_FLAG
            ):
                return True
    return False


def _hang_up_if_unanswered(request: ProduceRequest) -> None:
    if request.acks == 0:
        raise MalformedMessage("nobody waits for the answer: no permission to produce this")


def _not_produced(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            for data in topic.partition_data
        ],
    )


def fetch(access: Access, version: int, request: FetchRequest) -> Verdict:
    """Replicas: CLUSTER_ACTION. Consumers: READ, asked partition by partition when it is read."""
    replica = request.replica_state
    is_replica = (request.replica_id if replica is None else replica.replica_id) >= 0
    if not is_replica or access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _not_looked_up(topic: LookUpTopic) -> LookUpTopicResult:
    return LookUpTopicResult(
        name=topic.name,
        partitions=[
            LookUpPartitionResult(
                partition_index=one.partition_index,
                error_code=_DENIED,
                error_message=_DENIED.message,
            )
            for one in topic.partitions
        ],
    )


look_up = each(
    Operation.READ,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _not_looked_up,
    asked="topics",
    answered="topics",
    response=LookUpResponse,
)


def _no_offsets(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=_DENIED)
            for one in topic.partitions
        ],
    )


def list_offsets(access: Access, version: int, request: ListOffsetsRequest) -> Verdict:
    """DESCRIBE, unless it is a broker that asks, with CLUSTER_ACTION."""
    if request.replica_id != _CONSUMER and access.sees_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return _offsets_of_topics(access, version, request)


_offsets_of_topics = each(
    Operation.DESCRIBE,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _no_offsets,
    asked="topics",
    answered="topics",
    response=ListOffsetsResponse,
)


def offset_for_leader_epoch(
    access: Access, version: int, request: OffsetForLeaderEpochRequest
) -> Verdict:
    """DESCRIBE, unless it is a broker that asks, with CLUSTER_ACTION."""
    if access.sees_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return _epochs_of_topics(access, version, request)


def _no_epochs(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            EpochEndOffset(error_code=_DENIED, partition=one.partition) for one in topic.partitions
        ],
    )


_epochs_of_topics = each(
    Operation.DESCRIBE,
    ResourceType.TOPIC,
    lambda topic: topic.topic,
    _no_epochs,
    asked="topics",
    answered="topics",
    response=OffsetForLeaderEpochResponse,
)


def _not_shortened(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=one.partition_index, low_watermark=-1, error_code=_DENIED
            )
            for one in topic.partitions
        ],
    )


delete_records = each(
    Operation.DELETE,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _not_shortened,
    asked="topics",
    answered="topics",
    response=DeleteRecordsResponse,
)


def _no_producers(topic: TopicRequest) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(
                partition_index=index, error_code=_DENIED, error_message=_DENIED.message
            )
            for index in topic.partition_indexes
        ],
    )


describe_producers = each(
    Operation.READ,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _no_producers,
    asked="topics",
    answered="topics",
    response=DescribeProducersResponse,
)


def create_topics(access: Access, version: int, request: CreateTopicsRequest) -> Verdict:
    """CREATE on the cluster, or on each topic. The settings of the new topics are shown to whoever
    has DESCRIBE_CONFIGS."""
    allowed, refusals = [], []
    anywhere = access.sees_on_cluster(Operation.CREATE)
    for topic in request.topics:
        if anywhere or access.may_on_topic(Operation.CREATE, topic.name):
            allowed.append(topic)
        else:
            refusals.append(
                CreatableTopicResult(
                    name=topic.name, error_code=_DENIED, error_message=_DENIED.message, configs=None
                )
            )
    if not allowed and refusals:
        return CreateTopicsResponse(topics=refusals)
    request.topics = allowed

    def amend(response: Response) -> Response:
        assert isinstance(response, CreateTopicsResponse)
        for result in response.topics:
            if not access.sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name):
                result.topic_config_error_code = _DENIED
                result.num_partitions = result.replication_factor = -1
                result.configs = None
        response.topics += refusals
        return response

    return amend


def _not_extended(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=topic.name, error_code=_DENIED, error_message=_DENIED.message
    )


create_partitions = each(
    Operation.ALTER,
    ResourceType.TOPIC,
    lambda topic: topic.name,
    _not_extended,
    asked="topics",
    answered="results",
    response=CreatePartitionsResponse,
)


def delete_topics(access: Access, version: int, request: DeleteTopicsRequest) -> Verdict:
    """DELETE on the cluster or on each topic. Whoever may not see a topic is not told the name
    that belongs to an id."""
    if access.sees_on_cluster(Operation.DELETE):
        return None
    if version < _FIRST_DELETION_WITH_IDS:
        return _delete_by_name(access, version, request)
    allowed, refusals = [], list[Struct]()
    for topic in request.topics:
        name = access.topic_name(topic.name, topic.topic_id)
        if name is None or access.may_on_topic(Operation.DELETE, name):
            allowed.append(topic)
        else:
            shown = name if _may_know(access, topic, name) else None
            refusals.append(_not_deleted(shown, topic))
    return split(
        request,
        allowed,
        refusals,
        asked="topics",
        answered="responses",
        response=DeleteTopicsResponse,
    )


def _may_know(access: Access, asked: DeleteTopicState, name: str) -> bool:
    return asked.topic_id == NO_TOPIC_ID or access.sees(
        Operation.DESCRIBE, ResourceType.TOPIC, name
    )


def _not_deleted(name: str | None, topic: DeleteTopicState | None = None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=NO_TOPIC_ID if topic is None else topic.topic_id,
        error_code=_DENIED,
        error_message=_DENIED.message,
    )


_delete_by_name = each(
    Operation.DELETE,
    ResourceType.TOPIC,
    str,
    _not_deleted,
    asked="topic_names",
    answered="responses",
    response=DeleteTopicsResponse,
)
