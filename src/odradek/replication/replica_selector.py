"""Selects the replica that a consumer should read from (KIP-392).

With `replica.selector.class` set to Kafka's RackAwareReplicaSelector, a consumer that names its
rack is sent to an in-sync replica on that rack, the one with the highest log end offset. If the
leader is on that rack, or no in-sync replica is, the consumer reads from the leader.
"""

from collections.abc import Mapping
from typing import Final

from odradek.metadata.image import BrokerImage
from odradek.protocol.types import BrokerId, Offset
from odradek.replication.partition import Partition

_RACK_AWARE: Final = "RackAwareReplicaSelector"


def is_rack_aware(selector_class: str | None) -> bool:
    return selector_class is not None and selector_class.endswith(_RACK_AWARE)


def preferred_read_replica(
    partition: Partition, rack: str, offset: Offset, brokers: Mapping[BrokerId, BrokerImage]
) -> BrokerId | None:
    """Returns the follower that a consumer on `rack` should read `offset` from; None for the
    leader."""
    leadership = partition.leadership
    if leadership is None or _rack(brokers, partition.leader) == rack:
        return None
    candidates = [
        (-follower.log_end, replica)
        for replica, follower in leadership.followers.items()
        if replica in leadership.in_sync
        and _rack(brokers, replica) == rack
        and follower.log_start <= offset <= follower.log_end
    ]
    return min(candidates)[1] if candidates else None


def _rack(brokers: Mapping[BrokerId, BrokerImage], broker_id: BrokerId) -> str | None:
    broker = brokers.get(broker_id)
    return None if broker is None else broker.rack
