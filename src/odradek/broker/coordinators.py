"""The coordinators of groups and transactions: state machines on the internal topics."""

from odradek.cluster.internal_topics import GROUPS
from odradek.config import BrokerSettings
from odradek.groups.group import GroupChanged
from odradek.groups.machine import GroupMachine
from odradek.protocol.types import BrokerId
from odradek.replication.replicas import Replicas
from odradek.replication.state_partitions import StatePartitions
from odradek.world import World

GroupCoordinators = StatePartitions[object, GroupChanged]


def group_coordinators(
    broker_id: BrokerId,
    replicas: Replicas,
    world: World,
    settings: BrokerSettings,
) -> GroupCoordinators:
    def make_machine(partition: int) -> GroupMachine:
        return GroupMachine(settings, lambda: str(world.randomness.uuid()))

    return StatePartitions(GROUPS, broker_id, replicas, world.clock, make_machine)
