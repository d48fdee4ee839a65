"""The group coordinators and the transaction coordinators of one broker.

Each of them is a state machine on a partition of an internal topic. They meet in two places: a
transaction marker in `__consumer_offsets` makes the offsets of the transaction count, so the group
machine of that partition is told of it; and records are only written to a transaction after its
coordinator was asked (`transactions.verification`).

The group machine is imported when the first group coordinator is made. It takes 12 ms, which a
broker without groups does not need for its start.
"""

import asyncio
from typing import TYPE_CHECKING, Never

from odradek.cluster.internal_topics import GROUPS, TRANSACTIONS
from odradek.config import BrokerSettings
from odradek.metadata import ClusterImage, ImageChange, MetadataCache
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, Offset, TopicPartition
from odradek.replication.coordinator_partitions import CoordinatorPartitions
from odradek.replication.peers import Peers
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import Marker, no_effects
from odradek.statemachine.pending_replies import CommitTimeout
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.machine import TransactionMachine, WriteMarkers
from odradek.transactions.markers import MarkerWriter
from odradek.transactions.verification import TransactionVerifier
from odradek.world import World

if TYPE_CHECKING:
    from odradek.groups.machine import GroupMachine

GroupCoordinators = CoordinatorPartitions["GroupMachine", Never]
TransactionCoordinators = CoordinatorPartitions[TransactionMachine, WriteMarkers]


class Coordinators:
    """The broker runs it in the background, and calls `follow` with each change of the image after
    the replicas have followed it."""

    def __init__(
        self,
        broker_id: BrokerId,
        replicas: Replicas,
        images: MetadataCache,
        peers: Peers,
        *,
        world: World,
        settings: BrokerSettings,
    ) -> None:
        self._settings = settings
        self._world = world
        self.groups: GroupCoordinators = CoordinatorPartitions(
            GROUPS,
            broker_id,
            replicas,
            world.clock,
            self._group_machine,
            perform=no_effects,
            limit=CommitTimeout(settings.offsets_commit_timeout_ms, _commit_timed_out),
        )
        self.transactions: TransactionCoordinators = CoordinatorPartitions(
            TRANSACTIONS,
            broker_id,
            replicas,
            world.clock,
            self._transaction_machine,
            perform=self._write_markers,
        )
        self.markers = LocalMarkers(replicas, world.clock, self._end_in_group)
        self.verifier = TransactionVerifier(
            broker_id, self.transactions, replicas, images, peers, settings=settings
        )
        self._writer = MarkerWriter(broker_id, self.transactions, self.markers, images, peers)

    def follow(self, change: ImageChange) -> None:
        self.groups.follow(change.after)
        self.transactions.follow(change.after)
        if change.topics and self.groups.has_coordinators:
            self._tell_groups(change)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self.groups.run())
                parts.create_task(self._writer.run())
                parts.create_task(self.transactions.run())
        finally:
            self.verifier.close()

    def fail_waiters(self) -> None:
        """Fails every client that waits for a coordinator, because the lease is lost."""
        self.groups.fail_waiters()
        self.transactions.fail_waiters()

    def wake(self) -> None:
        """Resumes what waits for the lease, because the lease is back."""
        self.groups.wake()
        self.transactions.wake()

    def _tell_groups(self, change: ImageChange) -> None:
        from odradek.groups.commands import ForgetTopics  # noqa: PLC0415
        from odradek.groups.consumer.commands import TopicsChanged  # noqa: PLC0415

        deleted = frozenset(change.topics - change.after.topics.keys())
        if deleted:
            self.groups.tell_all(ForgetTopics(deleted))
        changed = frozenset(name for name in change.topics if _needs_assignment(change, name))
        if changed:
            self.groups.tell_all(TopicsChanged(changed))

    def _group_machine(self, partition: int) -> "GroupMachine":
        from odradek.groups.consumer.coordinator import ConsumerGroups  # noqa: PLC0415
        from odradek.groups.machine import GroupMachine  # noqa: PLC0415

        settings, randomness = self._settings, self._world.randomness

        def new_identifier() -> str:
            return str(randomness.uuid())

        consumer_groups = ConsumerGroups(
            settings, new_identifier, has_authorizer=bool(settings.authorizer_class_name)
        )
        return GroupMachine(settings, new_identifier, (consumer_groups,), self._max_batch_bytes)

    def _max_batch_bytes(self, image: ClusterImage) -> int:
        return self._settings.topic(image.topic_overrides(GROUPS)).max_message_bytes

    def _transaction_machine(self, partition: int) -> TransactionMachine:
        settings = self._settings
        return TransactionMachine(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            expiration_ms=settings.transactional_id_expiration_ms,
            sweep_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            # Kafka looks for timed-out transactions once in this interval, so that on average a
            # transaction stays open for half of it beyond its timeout.
            grace_ms=settings.transaction_abort_timed_out_transaction_cleanup_interval_ms // 2,
        )

    def _write_markers(self, effect: WriteMarkers) -> None:
        self._writer.write(effect)

    def _end_in_group(self, partition: TopicPartition, marker: Marker, end_offset: Offset) -> None:
        if partition.topic == GROUPS:
            self.groups.note(partition.partition, marker, end_offset)


def _commit_timed_out() -> ApiError:
    """Kafka answers so for all writes of the group coordinator that time out. Clients look for the
    coordinator and retry."""
    return ApiError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "The replicas of the group's state did not answer within offsets.commit.timeout.ms.",
    )


def _needs_assignment(change: ImageChange, name: str) -> bool:
    """Returns whether the change of a topic may need a new assignment: it was created or deleted,
    or its partitions or their replicas (and so their racks) changed. Leaders do not matter."""
    before, after = change.before.topics.get(name), change.after.topics.get(name)
    if before is None or after is None or before.topic_id != after.topic_id:
        return True
    return [partition.replicas for partition in before.partitions] != [
        partition.replicas for partition in after.partitions
    ]
