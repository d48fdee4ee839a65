"""Planted bugs in replication and elections; see `planted_bugs`.

skip-truncation           a follower keeps the tail that its leader never had
ignore-min-isr            a leader alone acknowledges and commits, whatever was asked for
elect-unclean             any live replica may lead, in sync or not
forget-leader-fencing     a deposed leader's changes of its ISR are taken
ack-before-replication    acks=all is answered when the leader has written
"""

from typing import Any

from odradek.cluster import elections
from odradek.metadata import MetadataCache
from odradek.metadata.store import ANY_VERSION, Operation, Set
from odradek.protocol.types import BrokerId
from odradek.replication import isr_changes
from odradek.replication.partition import Partition
from odradek.replication.replica import EndOfEpoch

Patch = tuple[object, str, Any]


def skip_truncation() -> list[Patch]:
    def only_where_it_is_longer(
        self: Partition, last_fetched_epoch: int, fetch_offset: int
    ) -> EndOfEpoch | None:
        log = self.log
        if fetch_offset <= log.log_end_offset:
            return None
        return EndOfEpoch(log.leader_epochs.latest, log.log_end_offset)

    return [(Partition, "diverging_replica", only_where_it_is_longer)]


def ignore_min_isr() -> list[Patch]:
    return [(Partition, "min_in_sync", 1)]


def elect_unclean() -> list[Patch]:
    def first_alive(partition: Any, live: Any) -> BrokerId | None:
        return next((BrokerId(replica) for replica in partition.replicas if replica in live), None)

    def with_its_leader(
        leader: BrokerId, partition: Any, in_sync: tuple[BrokerId, ...], controller_epoch: int
    ) -> Any:
        among = in_sync if leader < 0 or leader in in_sync else (*in_sync, leader)
        return led_by(leader, partition, among, controller_epoch)

    led_by = elections._led_by
    return [
        (elections, "_first_in_sync", first_alive),
        (elections, "_led_by", with_its_leader),
    ]


def forget_leader_fencing() -> list[Patch]:
    async def at_any_version(images: MetadataCache, *operations: Operation) -> list[int]:
        return await images.write(
            *(
                operation._replace(version=ANY_VERSION) if isinstance(operation, Set) else operation
                for operation in operations
            )
        )

    return [(isr_changes, "attempt", at_any_version)]


def ack_before_replication() -> list[Patch]:
    append = Partition.append

    def append_for_one(self: Partition, records: Any, acks: int, *more: Any) -> Any:
        if acks == -1:
            self.check_in_sync()
        return append(self, records, 1, *more)

    return [(Partition, "append", append_for_one)]
