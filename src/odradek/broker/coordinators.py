"""The coordinators of groups and transactions: state machines on the internal topics.

They meet in two places. A marker in `__consumer_offsets` makes the offsets of a transaction
count, so the group machine of that partition is told of it. And whoever lets records into a
transaction asks its coordinator, on this broker or another.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from odradek.cluster.internal_topics import GROUPS, TRANSACTIONS
from odradek.config import BrokerSettings
from odradek.groups.commands import ForgetTopics
from odradek.groups.consumer.commands import TopicsChanged
from odradek.groups.consumer.coordinator import ConsumerGroups
from odradek.groups.group import GroupChanged
from odradek.groups.machine import GroupMachine
from odradek.metadata import ClusterImage, ImageChange, MetadataCache
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.peers import Peers
from odradek.replication.replicas import Replicas
from odradek.replication.state_partitions import StatePartitions, partition_of
from odradek.statemachine.machine import Marker
from odradek.statemachine.pending_replies import CommitLimit
from odradek.transactions.commands import Added, AddPartitions
from odradek.transactions.commands import Command as TransactionCommand
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.machine import TransactionMachine
from odradek.transactions.markers import MarkerWriter
from odradek.world import World

if TYPE_CHECKING:
    from odradek.transactions.remote_joins import RemoteJoins

GroupCoordinators = StatePartitions[object, GroupChanged]
TransactionCoordinators = StatePartitions[TransactionCommand, None]


class Joins:
    """Adds partitions to transactions, wherever their coordinator is."""

    def __init__(
        self,
        broker_id: BrokerId,
        transactions: TransactionCoordinators,
        images: MetadataCache,
        peers: Peers,
    ) -> None:
        self._broker_id = broker_id
        self._transactions = transactions
        self._images = images
        self._peers = peers
        self._remote: RemoteJoins | None = None

    async def add(self, command: AddPartitions) -> Added:
        """The coordinator's answer. Raises `ApiError` if none could be had."""
        image = self._images.image
        partition = partition_of(command.transactional_id, image, TRANSACTIONS)
        state = image.partition(TRANSACTIONS, partition)
        if state is None or state.leader == NO_LEADER:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if state.leader == self._broker_id:
            return cast(Added, await self._transactions.ask(command.transactional_id, command))
        if self._remote is None:
            from odradek.transactions.remote_joins import RemoteJoins  # noqa: PLC0415 - clusters

            self._remote = RemoteJoins(self._peers)
        return await self._remote.add(state.leader, command)

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()


class Coordinators:
    """All of one broker. `follow` the image, after the replicas have; `run` in the background."""

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
        self._image = ClusterImage()
        self.groups: GroupCoordinators = StatePartitions(
            GROUPS,
            broker_id,
            replicas,
            world.clock,
            self._group_machine,
            limit=CommitLimit(settings.offsets_commit_timeout_ms, _commit_timed_out),
        )
        self.transactions: TransactionCoordinators = StatePartitions(
            TRANSACTIONS, broker_id, replicas, world.clock, self._transaction_machine
        )
        self.markers = LocalMarkers(replicas, world.clock, self._end_in_group)
        self.joins = Joins(broker_id, self.transactions, images, peers)
        self._writer = MarkerWriter(broker_id, self.transactions, self.markers, images, peers)

    def follow(self, change: ImageChange) -> None:
        self._image = change.after
        self.groups.follow(change.after)
        self.transactions.follow(change.after)
        gone = frozenset(change.topics - change.after.topics.keys())
        if gone:
            self.groups.tell_all(ForgetTopics(gone))
        remade = frozenset(name for name in change.topics if _is_remade(change, name))
        if remade:
            self.groups.tell_all(TopicsChanged(remade))

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self.groups.run())
                parts.create_task(self._writer.run())
                parts.create_task(self.transactions.run())
        finally:
            self.joins.close()

    def send_away(self) -> None:
        """Refuses everyone who waits for a coordinator, because the lease is lost."""
        self.groups.send_away()
        self.transactions.send_away()

    def wake(self) -> None:
        """The lease is back: what was left undone meanwhile is taken up again."""
        self.groups.wake()
        self.transactions.wake()

    def _group_machine(self, partition: int) -> GroupMachine:
        settings, randomness = self._settings, self._world.randomness

        def new_identifier() -> str:
            return str(randomness.uuid())

        consumer_groups = ConsumerGroups(
            settings,
            new_identifier,
            lambda: self._image,
            is_guarded=bool(settings.authorizer_class_name),
        )
        return GroupMachine(settings, new_identifier, (consumer_groups,), self._largest_batch)

    def _largest_batch(self) -> int:
        return self._settings.topic(self._image.topic_overrides(GROUPS)).max_message_bytes

    def _transaction_machine(self, partition: int) -> TransactionMachine:
        settings = self._settings
        return TransactionMachine(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            expiration_ms=settings.transactional_id_expiration_ms,
            sweep_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            on_prepared=self._writer.prepared,
            # Kafka looks once in this time, so a transaction lives for half of it longer.
            grace_ms=settings.transaction_abort_timed_out_transaction_cleanup_interval_ms // 2,
        )

    def _end_in_group(self, partition: TopicPartition, marker: Marker, end_offset: int) -> None:
        if partition.topic == GROUPS:
            self.groups.note(partition.partition, marker, end_offset)


def _commit_timed_out() -> ApiError:
    """As Kafka answers for all writes of the group coordinator that time out; clients look for
    the coordinator and try again."""
    return ApiError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "The replicas of the group's state did not answer within offsets.commit.timeout.ms.",
    )


def _is_remade(change: ImageChange, name: str) -> bool:
    """Whether a topic came, went, or has other partitions or replicas than before: who leads
    them does not matter to those who share them out."""
    before, after = change.before.topics.get(name), change.after.topics.get(name)
    if before is None or after is None or before.topic_id != after.topic_id:
        return True
    return [each.replicas for each in before.partitions] != [
        each.replicas for each in after.partitions
    ]
