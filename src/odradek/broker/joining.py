"""Partitions that join a transaction: what produce and TxnOffsetCommit ask the coordinator.

A producer of version 2 adds a partition by writing to it; of an older one the coordinator is
asked whether it added the partition before (KIP-890). While the markers of the last transaction
are being written, or the coordinator moves, the answer is to ask again, which is done here for a
little while: it spares the client a round. Asking twice does no harm: what is in a transaction
is not added again.

A marker that comes while the coordinator is asked makes its answer worthless: it may end the
transaction before, which the producer has left already, or the very one that was asked about.
So the question is put again. Whoever appends without awaiting anything after `join` knows that
no marker came in between, behind which nobody would ever end the records.
"""

import asyncio
from collections.abc import Callable, Set
from typing import Final

from odradek.broker.services import Services
from odradek.cluster.internal_topics import GROUPS
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition
from odradek.replication.state_partitions import partition_of
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.commands import Added, AddPartitions

_VERSION_2: Final = 2
_FIRST_PAUSE_S: Final = 0.001
_NO_COORDINATOR_NOW: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
# Clients that are too old to know these would give up; this one makes them try again.
_TRY_AGAIN: Final = _NO_COORDINATOR_NOW | {ErrorCode.CONCURRENT_TRANSACTIONS}


async def join(
    services: Services,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Set[TopicPartition],
    *,
    adds: bool,
    last_markers: Callable[[], object],
) -> Set[TopicPartition]:
    """Adds partitions to the open transaction, or only asks; returns those that are not in it.

    `last_markers` says where the producer's last markers stand in them. Raises `ApiError` if the
    producer may not write there at all.
    """
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id is empty.")
    command = AddPartitions(
        transactional_id,
        producer.producer_id,
        producer.producer_epoch,
        frozenset(partitions),
        client_version=_VERSION_2 if adds else 0,
        verify_only=not adds,
    )
    settings = services.settings.broker
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + settings.add_partitions_to_txn_retry_backoff_max_ms / 1000
    pause_s = _FIRST_PAUSE_S
    while True:
        before = last_markers()
        added = await _ask(services, command)
        if added.error is ErrorCode.NONE and last_markers() != before:
            added = Added(ErrorCode.CONCURRENT_TRANSACTIONS)
        if added.error not in _TRY_AGAIN or loop.time() + pause_s > deadline_s:
            break
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, settings.add_partitions_to_txn_retry_backoff_ms / 1000)
    if added.error is ErrorCode.PRODUCER_FENCED:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if added.error is not ErrorCode.NONE:
        raise ApiError(added.error)
    return added.missing


async def _ask(services: Services, command: AddPartitions) -> Added:
    try:
        return await services.joins.add(command)
    except ApiError as refusal:
        return Added(refusal.code)


async def join_with_offsets(
    services: Services,
    transactional_id: str,
    producer: ProducerIdentity,
    group_id: str,
    *,
    adds: bool,
) -> None:
    """The partition that keeps a group's offsets joins. Append without awaiting anything after."""
    partition = TopicPartition(GROUPS, partition_of(group_id, services.images.image, GROUPS))
    try:
        producers = services.replicas.leader(*partition).log.producers
    except ApiError as refusal:
        raise ApiError(ErrorCode.NOT_COORDINATOR) from refusal
    known = producers.entries.get(producer.producer_id)
    if known is not None and known.epoch > producer.producer_epoch:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if known is not None and known.is_in_transaction(producer.producer_epoch):
        return
    try:
        missing = await join(
            services,
            transactional_id,
            producer,
            {partition},
            adds=adds,
            last_markers=lambda: producers.last_marker_offset(producer.producer_id),
        )
    except ApiError as refusal:
        if refusal.code in _NO_COORDINATOR_NOW:
            # Of the transaction; the client is to come again, not to look for the group's.
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refusal.message) from refusal
        raise
    if missing:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "The group was not added to the transaction.")


def retriable(refusal: ApiError) -> ApiError:
    """As produce tells it: the wrong coordinator is no reason to look for another leader."""
    if refusal.code in _TRY_AGAIN:
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"The transaction cannot be verified now: {refusal.message}",
        )
    return refusal
