"""The topics that a group subscribes to, in the cluster's image: partitions, racks, and a hash of
them. When the hash changes, the group needs a new target assignment."""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from odradek.groups.consumer.assignors import Topic
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.records import ResolvedPattern
from odradek.groups.consumer.topic_patterns import InvalidPattern, compile_pattern
from odradek.groups.group import GroupDecisionContext
from odradek.metadata import ClusterImage, TopicImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId

_HASH_BYTES: Final = 8
_MIN_REFRESH_INTERVAL_MS: Final = 10_000
_MAX_REFRESH_INTERVAL_MS: Final = 600_000


def topics_to_assign(names: Iterable[str], image: ClusterImage) -> dict[TopicId, Topic]:
    """Returns the topics that exist, with the racks of their replicas if brokers have a rack."""
    has_racks = any(broker.rack is not None for broker in image.brokers.values())
    topics = {}
    for name in names:
        topic = image.topics.get(name)
        if topic is not None:
            racks = _racks(topic, image) if has_racks else ()
            topics[topic.topic_id] = Topic(len(topic.partitions), racks)
    return topics


def _racks(topic: TopicImage, image: ClusterImage) -> tuple[frozenset[str], ...]:
    brokers = image.brokers
    return tuple(
        frozenset(
            rack
            for replica in partition.replicas
            if replica in brokers and (rack := brokers[replica].rack) is not None
        )
        for partition in topic.partitions
    )


def metadata_hash(names: Iterable[str], image: ClusterImage) -> int:
    """Returns a hash of the topics that an assignment depends on; 0 if there are none. Kafka uses
    another hash: a group whose coordinator moves between Kafka and Odradek is assigned once more,
    which is harmless."""
    topics = topics_to_assign(names, image)
    if not topics:
        return 0
    digest = blake2b(digest_size=_HASH_BYTES)
    for topic_id, topic in sorted(topics.items()):
        racks = [sorted(partition_racks) for partition_racks in topic.racks]
        digest.update(f"{topic_id.hex()} {topic.partitions} {racks}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)


def resolve(
    pattern: str,
    image: ClusterImage,
    now: GroupDecisionContext,
    may_describe: Callable[[str], bool] | None = None,
) -> ResolvedPattern:
    """Returns the topics that match now, without those that the member may not describe. Raises
    `ApiError` if the regular expression is invalid."""
    try:
        topics = compile_pattern(pattern).matching(image.topics)
    except InvalidPattern as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from error
    if may_describe is not None:
        topics = frozenset(filter(may_describe, topics))
    return ResolvedPattern(topics, image.number, now.wall_ms)


def is_stale(resolved: ResolvedPattern, image: ClusterImage, now: GroupDecisionContext) -> bool:
    """Returns whether the pattern has to be resolved again because permissions may have changed:
    the cluster has changed since, or a long time has passed. The intervals are Kafka's."""
    age_ms = now.wall_ms - resolved.timestamp_ms
    if resolved.version != image.number:
        return not 0 <= age_ms < _MIN_REFRESH_INTERVAL_MS
    return not 0 <= age_ms < _MAX_REFRESH_INTERVAL_MS


def without_deleted(
    resolved: ResolvedPattern, names: Iterable[str], image: ClusterImage
) -> ResolvedPattern:
    """Returns `resolved` without the topics that were deleted. It is as stale as before."""
    return resolved._replace(topics=resolved.topics - (frozenset(names) - image.topics.keys()))


def resolve_again(
    pattern: str,
    resolved: ResolvedPattern,
    names: Iterable[str],
    image: ClusterImage,
    now: GroupDecisionContext,
) -> ResolvedPattern:
    """Returns `resolved` after topics of these names were created or deleted."""
    changed = frozenset(names)
    try:
        matching = compile_pattern(pattern).matching(changed & image.topics.keys())
    except InvalidPattern:
        return (
            resolved  # Another coordinator accepted the expression: its members keep their topics.
        )
    topics = (resolved.topics - changed) | matching
    return (
        resolved
        if topics == resolved.topics
        else ResolvedPattern(topics, image.number, now.wall_ms)
    )


def subscribes_to_any(group: ConsumerGroup, names: frozenset[str]) -> bool:
    return not names.isdisjoint(group.subscribed_topics)
