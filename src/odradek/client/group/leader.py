"""The work of the leader of a classic group: it assigns the partitions to all members.

It remembers how many partitions each topic had, so that the group joins again when that changes,
and it keeps metadata of the topics of all members.
"""

from collections.abc import Iterable, Mapping, Sequence

from odradek.client import arguments
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, is_retriable
from odradek.client.group.assignors import Assignor, Member, Partitions
from odradek.client.group.subscription import Subscription
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
    encode_versioned,
)
from odradek.protocol.messages.consumer_protocol import TopicPartition as NamedPartitions
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.sync_group import SyncGroupRequestAssignment
from odradek.protocol.types import TopicPartition
from odradek.wording import kind_of

# All versions of an assignment have the same content, and every client reads the oldest.
_ASSIGNMENT_VERSION = 0


class GroupLeader:
    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription
        # The number of partitions of each topic that the assignment was made from.
        self._partition_counts: dict[str, int] | None = None
        self._tracked: set[str] = set()

    @property
    def is_outdated(self) -> bool:
        """Whether this consumer leads the group and the topics have changed since it assigned."""
        return self._partition_counts is not None and self._partition_counts != self._counts(
            self._partition_counts
        )

    def resign(self) -> None:
        self._partition_counts = None
        for topic in self._tracked.difference(self._subscription.topics):
            self._cluster.untrack(topic)
        self._tracked.clear()

    async def assign(
        self, joined: JoinGroupResponse, assignor: Assignor
    ) -> list[SyncGroupRequestAssignment]:
        """Returns the assignment of every member."""
        members = [_member(described) for described in joined.members]
        topics = sorted({topic for member in members for topic in member.topics})
        await self._get_metadata(topics)
        self._partition_counts = self._counts(topics)
        if joined.skip_assignment:
            # A static leader came back: the group keeps its assignment.
            return []
        view = self._cluster.view
        partitions = {
            topic: view.topics[topic].all_partitions for topic in topics if topic in view.topics
        }
        shares = _checked(assignor, assignor.assign(partitions, members), members, partitions)
        return [
            SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=encode_versioned(
                    ConsumerProtocolAssignment(
                        assigned_partitions=by_topic(shares.get(member.member_id, ()))
                    ),
                    _ASSIGNMENT_VERSION,
                ),
            )
            for member in members
        ]

    async def _get_metadata(self, topics: Sequence[str]) -> None:
        """Gets metadata of all these topics, also of those that only other members read."""
        for topic in topics:
            if topic not in self._subscription.topics:
                self._cluster.track(topic)
                self._tracked.add(topic)
        if any(topic not in self._cluster.view.topics for topic in topics):
            try:
                await self._cluster.refresh()
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    raise

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}


def _checked(
    assignor: Assignor, shares: object, members: Iterable[Member], partitions: Partitions
) -> dict[str, list[TopicPartition]]:
    """Returns what an assignor has assigned, by member id.

    Raises if that cannot be: a partition that nobody gets would be read by nobody, in silence, and
    one that two members get would be read twice.
    """
    call = f"assign() of assignor {assignor.name}"
    if not isinstance(shares, Mapping):
        raise TypeError(
            f"{call} returned {kind_of(shares)}: it must return partitions by member id"
        )
    ids = {member.member_id for member in members}
    known = {TopicPartition(topic, index) for topic in partitions for index in partitions[topic]}
    owners: dict[TopicPartition, str] = {}
    checked: dict[str, list[TopicPartition]] = {}
    for member_id, share in shares.items():
        if member_id not in ids:
            raise ValueError(
                f"{call} returned partitions for {member_id!r}: write {{member.member_id: ...}}"
            )
        checked[member_id] = arguments.partitions(share, call)
        for partition in checked[member_id]:
            if partition not in known:
                raise ValueError(f"{call} returned {partition}, which it was not given")
            if partition in owners:
                raise ValueError(
                    f"{call} gave {partition} to both {owners[partition]} and {member_id}"
                )
            owners[partition] = member_id
    return checked


def _member(joined: JoinGroupResponseMember) -> Member:
    told = decode_versioned(ConsumerProtocolSubscription, joined.metadata)
    return Member(
        member_id=joined.member_id,
        topics=tuple(told.topics),
        instance_id=joined.group_instance_id,
        owned=tuple(
            TopicPartition(owned.topic, index)
            for owned in told.owned_partitions
            for index in owned.partitions
        ),
        generation=told.generation_id,
        user_data=told.user_data,
        rack=told.rack_id,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[NamedPartitions]:
    """Returns partitions grouped by topic, as the protocol lists them."""
    topics: dict[str, NamedPartitions] = {}
    for topic, index in partitions:
        topics.setdefault(topic, NamedPartitions(topic=topic)).partitions.append(index)
    return list(topics.values())
