"""The requests of a transactional producer to its coordinators, one function per request.

Each function sends its request once and raises the error of the answer; the caller retries.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.client.coordinator import Coordinator
from odradek.client.errors import is_retriable
from odradek.client.group.offsets import GroupMetadata, OffsetAndMetadata
from odradek.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from odradek.client.settings import ProducerSettings

# Newer versions are used between brokers only.
_LAST_ADD_PARTITIONS = 3
# The last versions in which a transaction keeps the epoch of the transaction before.
_LAST_END_WITHOUT_EPOCH = 4
_LAST_COMMIT_WITHOUT_ANNOUNCING = 4


_FEATURE = "transaction.version"
_FIRST_WITH_EPOCHS = 2


class Identity(NamedTuple):
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


def has_version_2(features: Mapping[str, int]) -> bool:
    """Returns whether a coordinator with these features bumps the epoch with every transaction."""
    return features.get(_FEATURE, 0) >= _FIRST_WITH_EPOCHS


def end_version(features: Mapping[str, int]) -> int | None:
    """Returns the newest version of EndTxn to use; None is the newest that both sides know."""
    return None if has_version_2(features) else _LAST_END_WITHOUT_EPOCH


async def initialise(
    coordinator: Coordinator,
    transactional_id: str,
    settings: "ProducerSettings",
    known: tuple[ProducerId, ProducerEpoch] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
) -> tuple[ProducerId, ProducerEpoch]:
    """Returns a producer id and an epoch that fences every earlier producer of this id.

    With `known`, the epoch of that identity is bumped.
    """
    response = await coordinator.ask(
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            producer_id=known[0],
            producer_epoch=known[1],
        ),
        InitProducerIdResponse,
    )
    _raise_for(coordinator, [response.error_code])
    return response.producer_id, response.producer_epoch


async def add_partitions(
    coordinator: Coordinator, who: Identity, partitions: Iterable[TopicPartition]
) -> None:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    response = await coordinator.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=who.transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.producer_epoch,
            v3_and_below_topics=list(topics.values()),
        ),
        AddPartitionsToTxnResponse,
        max_version=_LAST_ADD_PARTITIONS,
    )
    _raise_for(
        coordinator,
        [
            result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ],
    )


async def add_offsets(coordinator: Coordinator, who: Identity, group: GroupMetadata) -> None:
    response = await coordinator.ask(
        AddOffsetsToTxnRequest(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            group_id=group.group_id,
        ),
        AddOffsetsToTxnResponse,
    )
    _raise_for(coordinator, [response.error_code])


async def commit_offsets(
    coordinator: Coordinator,
    who: Identity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
    *,
    announces: bool,
) -> None:
    """Commits offsets at the group's coordinator.

    In version 2 of transactions this also adds the group to the transaction (`announces`).
    """
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, index), committed in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    response = await coordinator.ask(
        TxnOffsetCommitRequest(
            transactional_id=who.transactional_id,
            group_id=group.group_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        ),
        TxnOffsetCommitResponse,
        max_version=None if announces else _LAST_COMMIT_WITHOUT_ANNOUNCING,
    )
    _raise_for(
        coordinator, [answer.error_code for topic in response.topics for answer in topic.partitions]
    )


def end_request(who: Identity, is_commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        committed=is_commit,
    )


async def end(
    coordinator: Coordinator, who: Identity, is_commit: bool, *, bumps_epoch: bool
) -> tuple[ProducerId, ProducerEpoch] | None:
    """Commits or aborts; in version 2 it returns the identity for the next transaction."""
    response = await coordinator.ask(
        end_request(who, is_commit),
        EndTxnResponse,
        max_version=None if bumps_epoch else _LAST_END_WITHOUT_EPOCH,
    )
    _raise_for(coordinator, [response.error_code])
    if response.producer_id < 0:
        return None
    return response.producer_id, response.producer_epoch


def _raise_for(coordinator: Coordinator, codes: Iterable[int]) -> None:
    """Raises the first error that is not retriable, else the first error."""
    errors: list[KafkaError] = [error_for(code) for code in codes if code]
    for error in errors:
        coordinator.forget_if_moved(error)
    for error in errors:
        if not is_retriable(error):
            raise error
    if errors:
        raise errors[0]
