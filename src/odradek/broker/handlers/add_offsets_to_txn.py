"""AddOffsetsToTxn (v0-v4): adds to a transaction the partition that keeps the offsets of a group.

TxnOffsetCommit writes the offsets to the partition of `__consumer_offsets` that the group's id
hashes to, so that partition becomes part of the transaction.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.cluster.internal_topics import GROUPS
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import (
    API,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.coordinator_partitions import partition_of
from odradek.transactions.commands import AddPartitions

_FIRST_VERSION_WITH_FENCED: Final = 2


async def handle(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    if not context.authorize(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = await _add(services, context, request)
    if error is ErrorCode.PRODUCER_FENCED and context.version < _FIRST_VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error)


async def _add(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    services.late_requests.check(
        context.address, request.transactional_id, request.producer_id, request.producer_epoch
    )
    try:
        await services.internal_topics.ensure_exists(GROUPS)
        partition = partition_of(request.group_id, services.images.image, GROUPS)
        command = AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({TopicPartition(GROUPS, partition)}),
            client_address=context.address,
        )
        answer = await services.transactions.ask(request.transactional_id, command)
    except ApiError as error:
        return error.code
    return answer.error


HANDLER: Final = Handler(
    API, handle, permission=CheckedByHandler("WRITE on the transactional id, READ on the group")
)
