"""What the leader of a classic group does for all members: it shares out the partitions.

It remembers how many partitions the topics had, so that the group can be asked to join again
when they change, and it keeps the cluster's metadata about topics of other members fresh.
"""

from collections.abc import Iterable, Sequence

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, is_retriable
from odradek.client.group.assignors import Assignor, Member
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

# All versions of an assignment have the same content, and the oldest is read by everybody.
_ASSIGNMENT_VERSION = 0


class GroupLeader:
    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription
        # The number of partitions of each topic that the assignment was made from.
        self._based_on: dict[str, int] | None = None
        self._tracked: set[str] = set()

    @property
    def is_outdated(self) -> bool:
        """We lead, and the topics of the group have grown, come or gone since."""
        return self._based_on is not None and self._based_on != self._counts(self._based_on)

    def resign(self) -> None:
        self._based_on = None
        for topic in self._tracked.difference(self._subscription.topics):
            self._cluster.untrack(topic)
        self._tracked.clear()

    async def share_out(
        self, joined: JoinGroupResponse, assignor: Assignor
    ) -> list[SyncGroupRequestAssignment]:
        """Everybody's assignment."""
        members = [_member(one) for one in joined.members]
        topics = sorted({topic for member in members for topic in member.topics})
        await self._learn_of(topics)
        self._based_on = self._counts(topics)
        if joined.skip_assignment:
            # A static leader came back: the group goes on with the assignment it has.
            return []
        view = self._cluster.view
        partitions = {
            topic: view.topics[topic].all_partitions for topic in topics if topic in view.topics
        }
        shares = assignor.assign(partitions, members)
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

    async def _learn_of(self, topics: Sequence[str]) -> None:
        """The partitions of topics that only others subscribe to are needed as well."""
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
    """Partitions as the protocol lists them."""
    topics: dict[str, NamedPartitions] = {}
    for topic, index in partitions:
        topics.setdefault(topic, NamedPartitions(topic=topic)).partitions.append(index)
    return list(topics.values())
