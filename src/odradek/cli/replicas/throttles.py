"""Limits of the rate at which partitions move: Kafka's replication quotas.

`reassign-partitions --throttle` and `odradek local grow` set them, and lift them at the end.
"""

from collections.abc import Iterable

from odradek.cli.replicas.replica_plans import Plan
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigType
from odradek.client.admin.configs import ConfigCalls
from odradek.config.operation import ConfigOperation
from odradek.tools.admin_session import checked

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"


class ThrottleAdmin(ConfigCalls, BrokerCalls):
    """The admin calls that set and lift throttles."""


async def throttle(admin: ThrottleAdmin, current: Plan, plan: Plan, rate: int) -> None:
    """Sets replication quotas on the brokers that send and receive, only for the partitions that
    move."""
    brokers = {broker for replicas in (*current.values(), *plan.values()) for broker in replicas}
    changes = _rates(brokers, rate)
    for topic in sorted({partition.topic for partition in plan}):
        moves = [partition for partition in plan if partition.topic == topic]
        sources = [
            f"{partition.partition}:{broker}"
            for partition in moves
            for broker in current[partition]
        ]
        targets = [
            f"{partition.partition}:{broker}"
            for partition in moves
            for broker in plan[partition]
            if broker not in current[partition]
        ]
        changes[ConfigResource(ConfigType.TOPIC, topic)] = [
            ConfigChange(_LEADERS, ",".join(sources)),
            ConfigChange(_FOLLOWERS, ",".join(targets)),
        ]
    checked(await admin.incremental_alter_configs(changes))


async def change_rates(admin: ThrottleAdmin, brokers: Iterable[int], rate: int) -> None:
    """Changes the rate of moves that are throttled already."""
    checked(await admin.incremental_alter_configs(_rates(brokers, rate)))


def _rates(brokers: Iterable[int], rate: int) -> dict[ConfigResource, list[ConfigChange]]:
    return {
        ConfigResource(ConfigType.BROKER, str(broker)): [
            ConfigChange(name, str(rate)) for name in _RATES
        ]
        for broker in sorted(brokers)
    }


async def lift_throttles(admin: ThrottleAdmin, topics: Iterable[str]) -> None:
    remove = ConfigOperation.DELETE
    changes = {
        ConfigResource(ConfigType.BROKER, str(broker.id)): [
            ConfigChange(name, None, remove) for name in _RATES
        ]
        for broker in (await admin.describe_cluster()).brokers
    }
    for topic in sorted(topics):
        changes[ConfigResource(ConfigType.TOPIC, topic)] = [
            ConfigChange(name, None, remove) for name in (_LEADERS, _FOLLOWERS)
        ]
    checked(await admin.incremental_alter_configs(changes))
