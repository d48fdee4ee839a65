"""The coordinators of groups and transactions: state machines on the internal topics.

They meet in one place: a marker in `__consumer_offsets` makes the offsets of a transaction
count, so the group machine of that partition is told of it.
"""

import asyncio

from odradek.cluster.internal_topics import GROUPS, TRANSACTIONS
from odradek.config import BrokerSettings
from odradek.groups.commands import ForgetTopics
from odradek.groups.consumer.commands import TopicsChanged
from odradek.groups.consumer.coordinator import ConsumerGroups
from odradek.groups.group import GroupChanged
from odradek.groups.machine import GroupMachine
from odradek.metadata import ClusterImage, ImageChange
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.replicas import Replicas
from odradek.replication.state_partitions import StatePartitions
from odradek.statemachine.machine import Marker
from odradek.transactions.commands import Command as TransactionCommand
from odradek.transactions.machine import TransactionMachine
from odradek.transactions.markers import LocalMarkers, MarkerWriter
from odradek.world import World

GroupCoordinators = StatePartitions[object, GroupChanged]
TransactionCoordinators = StatePartitions[TransactionCommand, None]


class Coordinators:
    """All of one broker. `follow` the image, after the replicas have; `run` in the background."""

    def __init__(
        self, broker_id: BrokerId, replicas: Replicas, world: World, settings: BrokerSettings
    ) -> None:
        self._settings = settings
        self._world = world
        self._image = ClusterImage()
        self.groups: GroupCoordinators = StatePartitions(
            GROUPS, broker_id, replicas, world.clock, self._group_machine
        )
        self.transactions: TransactionCoordinators = StatePartitions(
            TRANSACTIONS, broker_id, replicas, world.clock, self._transaction_machine
        )
        self.markers = LocalMarkers(replicas, world.clock, self._end_in_group)
        self._writer = MarkerWriter(self.transactions, self.markers)

    def follow(self, change: ImageChange) -> None:
        self._image = change.after
        self.groups.follow(change.after)
        self.transactions.follow(change.after)
        gone = change.topics - change.after.topics.keys()
        if gone:
            self.groups.tell_all(ForgetTopics(gone))
        remade = frozenset(name for name in change.topics if _is_remade(change, name))
        if remade:
            self.groups.tell_all(TopicsChanged(remade))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self.groups.run())
            parts.create_task(self._writer.run())
            parts.create_task(self.transactions.run())

    def _group_machine(self, partition: int) -> GroupMachine:
        settings, randomness = self._settings, self._world.randomness

        def new_identifier() -> str:
            return str(randomness.uuid())

        consumer_groups = ConsumerGroups(settings, new_identifier, lambda: self._image)
        return GroupMachine(settings, new_identifier, (consumer_groups,))

    def _transaction_machine(self, partition: int) -> TransactionMachine:
        settings = self._settings
        return TransactionMachine(
            max_timeout_ms=settings.transaction_max_timeout_ms,
            expiration_ms=settings.transactional_id_expiration_ms,
            sweep_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            on_prepared=self._writer.prepared,
        )

    def _end_in_group(self, partition: TopicPartition, marker: Marker) -> None:
        if partition.topic == GROUPS:
            self.groups.note(partition.partition, marker)


def _is_remade(change: ImageChange, name: str) -> bool:
    """Whether a topic came, went, or has other partitions or replicas than before: who leads
    them does not matter to those who share them out."""
    before, after = change.before.topics.get(name), change.after.topics.get(name)
    if before is None or after is None or before.topic_id != after.topic_id:
        return True
    return [each.replicas for each in before.partitions] != [
        each.replicas for each in after.partitions
    ]
