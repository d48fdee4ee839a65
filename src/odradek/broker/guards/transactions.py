"""Permission to use transactional ids (WRITE) and to see them (DESCRIBE); what brokers ask of each
other for transactions needs CLUSTER_ACTION."""

from typing import Final

from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.schema import Response

_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_FIRST_VERSION_OF_BROKERS: Final = 4


def _may_use(access: Access, transactional_id: str) -> bool:
    return access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _sees(access: Access, transactional_id: str) -> bool:
    return access.sees(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def init_producer_id(access: Access, version: int, request: InitProducerIdRequest) -> Verdict:
    """WRITE on the transactional id. For idempotence alone WRITE on any topic is enough, or
    IDEMPOTENT_WRITE on the cluster."""
    if request.transactional_id is not None:
        if _may_use(access, request.transactional_id):
            return None
        return InitProducerIdResponse(error_code=_DENIED, producer_epoch=-1)
    if access.may_on_any(Operation.WRITE, ResourceType.TOPIC) or access.may_on_cluster(
        Operation.IDEMPOTENT_WRITE
    ):
        return None
    return InitProducerIdResponse(error_code=_CLUSTER_DENIED, producer_epoch=-1)


def end_txn(access: Access, version: int, request: EndTxnRequest) -> Verdict:
    """WRITE on the transactional id."""
    if _may_use(access, request.transactional_id):
        return None
    return EndTxnResponse(error_code=_DENIED)


def add_offsets_to_txn(access: Access, version: int, request: AddOffsetsToTxnRequest) -> Verdict:
    """WRITE on the transactional id, READ on the group."""
    if not _may_use(access, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=_DENIED)
    if not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


def add_partitions_to_txn(
    access: Access, version: int, request: AddPartitionsToTxnRequest
) -> Verdict:
    """Producers: WRITE on the transactional id and on all topics, or nothing is added. Brokers,
    who have asked their producers before: CLUSTER_ACTION."""
    if version >= _FIRST_VERSION_OF_BROKERS:
        if access.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        return AddPartitionsToTxnResponse(error_code=_CLUSTER_DENIED)
    topics = request.v3_and_below_topics
    if not _may_use(access, request.v3_and_below_transactional_id):
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[_not_added(topic, _DENIED) for topic in topics]
        )
    errors = {
        topic.name: ErrorCode.OPERATION_NOT_ATTEMPTED
        if access.may_on_topic(Operation.WRITE, topic.name)
        else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for topic in topics
    }
    if ErrorCode.TOPIC_AUTHORIZATION_FAILED not in errors.values():
        return None
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[_not_added(topic, errors[topic.name]) for topic in topics]
    )


def _not_added(topic: AddPartitionsToTxnTopic, error: ErrorCode) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
            for index in topic.partitions
        ],
    )


def write_txn_markers(access: Access, version: int, request: WriteTxnMarkersRequest) -> Verdict:
    """ALTER on the cluster (operators who end a hanging transaction) or CLUSTER_ACTION."""
    if access.sees_on_cluster(Operation.ALTER) or access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=_CLUSTER_DENIED
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def describe_transactions(
    access: Access, version: int, request: DescribeTransactionsRequest
) -> Verdict:
    """DESCRIBE on each transactional id; topics that the client may not see are left out."""
    refusals = []
    allowed = []
    for name in request.transactional_ids:
        if access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            allowed.append(name)
        else:
            refusals.append(TransactionState(transactional_id=name, error_code=_DENIED))
    request.transactional_ids = allowed

    def amend(response: Response) -> Response:
        assert isinstance(response, DescribeTransactionsResponse)
        for state in response.transaction_states:
            state.topics = [
                topic
                for topic in state.topics
                if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
            ]
        response.transaction_states += refusals
        return response

    return amend


def list_transactions(access: Access, version: int, request: ListTransactionsRequest) -> Verdict:
    """Shows those with DESCRIBE on their transactional id."""

    def amend(response: Response) -> Response:
        assert isinstance(response, ListTransactionsResponse)
        response.transaction_states = [
            state for state in response.transaction_states if _sees(access, state.transactional_id)
        ]
        return response

    return amend
