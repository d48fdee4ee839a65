"""What a coordinator reads in the metadata of consumers that use the classic protocol.

To the coordinator the metadata and the assignment of a classic member are bytes, which the members
understand. Only of consumers it knows the format (ConsumerProtocolSubscription), and reads it for
two questions. Metadata that cannot be decoded answers neither.
"""

from collections.abc import Iterable

from odradek.groups.classic_member import ClassicMember
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
)


def subscribed_topics(
    members: Iterable[ClassicMember], protocol_name: str | None
) -> frozenset[str] | None:
    """Returns the topics that the members subscribe to; None if that cannot be read."""
    topics: set[str] = set()
    try:
        for member in members:
            # Every version of a subscription begins with the fields of version 0.
            subscription = ConsumerProtocolSubscription.decode(
                member.metadata(protocol_name), 0, 2, allow_trailing=True
            )
            topics.update(subscription.topics)
    except MalformedMessage:
        return None
    return frozenset(topics)


def owes_revocation(member: ClassicMember, protocol_name: str | None) -> bool:
    """Returns whether a cooperative member joined with partitions that its new assignment lacks.

    Such a member revokes them and rejoins, and other members get them in the generation after. If
    it is replaced before that, its successor knows nothing of these partitions.
    """
    if not member.assignment:
        return False
    try:
        subscription = decode_versioned(
            ConsumerProtocolSubscription, member.metadata(protocol_name)
        )
        assignment = decode_versioned(ConsumerProtocolAssignment, member.assignment)
    except MalformedMessage:
        return False
    assigned = {
        (topic.topic, index)
        for topic in assignment.assigned_partitions
        for index in topic.partitions
    }
    return any(
        (topic.topic, index) not in assigned
        for topic in subscription.owned_partitions
        for index in topic.partitions
    )
