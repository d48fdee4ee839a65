"""Adds partitions to transactions, or verifies that they were added, before records are written.

The handlers of Produce and TxnOffsetCommit use it, as those of Kafka use
`AddPartitionsToTxnManager` (KIP-890). A producer of transactions version 2 adds a partition by
writing to it. For an older producer the coordinator is asked whether the producer added the
partition before. The coordinator is on this broker or another one (`remote_coordinator`).

While the markers of the last transaction are being written, or the coordinator moves, the answer is
to retry. That is done here for a short time, which saves the client a round trip. Asking twice does
no harm: a partition that is in the transaction is not added again.

The reply of the coordinator is worthless if a marker is written while the coordinator is asked: the
marker may end the transaction before, which the producer has left already, or the very one that was
asked about. Then the coordinator is asked again. So a caller that appends after `join` without
awaiting anything knows that no marker was written in between. Records after such a marker would
belong to a transaction that never ends.
"""

import asyncio
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Final

from odradek.config import BrokerSettings
from odradek.metadata import MetadataCache
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.coordinator_partitions import CoordinatorPartitions, partition_of
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.commands import Added, AddPartitions
from odradek.transactions.machine import TransactionMachine, WriteMarkers
from odradek.transactions.transaction import VERSION_2

if TYPE_CHECKING:
    from odradek.transactions.remote_coordinator import RemoteCoordinator
    from odradek.transactions.request_batcher import PeerDirectory

_FIRST_PAUSE_S: Final = 0.001
_NO_COORDINATOR_NOW: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_RETRIED: Final = _NO_COORDINATOR_NOW | {ErrorCode.CONCURRENT_TRANSACTIONS}


class TransactionVerifier:
    """Asks the coordinators of transactions, on this broker and on others."""

    def __init__(
        self,
        broker_id: BrokerId,
        transactions: CoordinatorPartitions[TransactionMachine, WriteMarkers],
        replicas: Replicas,
        images: MetadataCache,
        peers: "PeerDirectory",
        *,
        settings: BrokerSettings,
    ) -> None:
        self._broker_id = broker_id
        self._transactions = transactions
        self._replicas = replicas
        self._images = images
        self._peers = peers
        self._settings = settings
        self._remote: RemoteCoordinator | None = None

    async def join(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Set[TopicPartition],
        *,
        adds: bool,
        last_markers: Callable[[], object],
    ) -> Set[TopicPartition]:
        """Adds partitions to the open transaction, or (without `adds`) verifies that they are in
        it. Returns the partitions that are not in it.

        `last_markers` returns the offsets of the producer's last markers in the partitions. Raises
        `ApiError` if the producer may not write to any of them.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id is empty.")
        command = AddPartitions(
            transactional_id,
            producer.producer_id,
            producer.producer_epoch,
            frozenset(partitions),
            client_transaction_version=VERSION_2 if adds else 0,
            verify_only=not adds,
        )
        settings = self._settings
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + settings.add_partitions_to_txn_retry_backoff_max_ms / 1000
        pause_s = _FIRST_PAUSE_S
        while True:
            markers_before = last_markers()
            added = await self._ask(command)
            if added.error is ErrorCode.NONE and last_markers() != markers_before:
                added = Added(ErrorCode.CONCURRENT_TRANSACTIONS)
            if added.error not in _RETRIED or loop.time() + pause_s > deadline_s:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, settings.add_partitions_to_txn_retry_backoff_ms / 1000)
        if added.error is ErrorCode.PRODUCER_FENCED:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if added.error is not ErrorCode.NONE:
            raise ApiError(added.error)
        return added.missing

    async def join_offsets(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partition: TopicPartition,
        *,
        adds: bool,
    ) -> None:
        """Does the same for the partition of `__consumer_offsets` that TxnOffsetCommit writes to.
        The caller appends after it without awaiting anything."""
        try:
            producers = self._replicas.leader(*partition).log.producers
        except ApiError as error:
            raise ApiError(ErrorCode.NOT_COORDINATOR) from error
        entry = producers.entries.get(producer.producer_id)
        if entry is not None and entry.epoch > producer.producer_epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if entry is not None and entry.is_in_transaction(producer.producer_epoch):
            return
        try:
            missing = await self.join(
                transactional_id,
                producer,
                {partition},
                adds=adds,
                last_markers=lambda: producers.last_marker_offset(producer.producer_id),
            )
        except ApiError as error:
            if error.code in _NO_COORDINATOR_NOW:
                # It is the transaction's coordinator that is missing. The client shall retry, and
                # not look for another group coordinator.
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                raise ApiError(code, error.message) from error
            raise
        if missing:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, "The group was not added to the transaction."
            )

    async def _ask(self, command: AddPartitions) -> Added:
        try:
            return await self._ask_coordinator(command)
        except ApiError as error:
            return Added(error.code)

    async def _ask_coordinator(self, command: AddPartitions) -> Added:
        """Returns the reply of the coordinator. Raises `ApiError` if there is none."""
        image, topic = self._images.image, self._transactions.topic
        state = image.partition(topic, partition_of(command.transactional_id, image, topic))
        if state is None or state.leader == NO_LEADER:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if state.leader == self._broker_id:
            return await self._transactions.ask(command.transactional_id, command)
        if self._remote is None:
            # A lone broker never needs this module.
            from odradek.transactions.remote_coordinator import RemoteCoordinator  # noqa: PLC0415

            self._remote = RemoteCoordinator(self._peers)
        return await self._remote.add(state.leader, command)

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()


def as_produce_error(error: ApiError) -> ApiError:
    """Returns the error for the response to Produce. If the transaction coordinator is not
    available, the returned error makes clients retry. The original error would make them look for
    another partition leader, or give up if they are older and do not know it."""
    if error.code in _RETRIED:
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"The transaction cannot be verified now: {error.message}",
        )
    return error
