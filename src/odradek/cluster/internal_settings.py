"""The settings that the coordinators' topics must have, however they are created or changed.

A coordinator replays its partition to know its groups or transactions, so a record may be removed
only when a later one of the same key replaces it: `cleanup.policy` is `compact` and nothing else.
With `delete`, committed offsets and the states of transactional ids would be gone after seven days.
Kafka creates these topics with the coordinators' settings too when a client asks for their metadata
first. Unlike Kafka, this broker also does so when an operator creates one, and refuses another
cleanup policy.

Called by `topics` when a topic is created, by `configs` when its settings are changed, and by
`adoption` when it is found on the disk.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.config import BrokerSettings
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal_topics import GROUPS, INTERNAL_TOPICS, TRANSACTIONS

__all__ = [
    "GROUPS",
    "INTERNAL_TOPICS",
    "TRANSACTIONS",
    "InternalTopic",
    "internal_topic",
    "replication_factor_setting",
    "required_overrides",
]

_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"


class InternalTopic(NamedTuple):
    """The partitions, replicas and settings of a new internal topic, unless others are asked
    for."""

    partitions: int
    replication_factor: int
    overrides: Mapping[str, str]


def replication_factor_setting(name: str) -> str:
    """Returns the name of the setting that holds the replication factor of an internal topic."""
    if name == GROUPS:
        return BrokerSettings.offsets_topic_replication_factor.name
    return BrokerSettings.transaction_state_log_replication_factor.name


def internal_topic(
    name: str, brokers: int, settings: BrokerSettings, replication_factor: int | None = None
) -> InternalTopic:
    """Returns what the coordinators' settings say. A replication factor that was requested or that
    the operator has set is kept, even if there are fewer brokers; the default is lowered to their
    number, so that a single broker has groups and transactions without any settings."""
    assert name in INTERNAL_TOPICS, name
    if name == GROUPS:
        factor = settings.offsets_topic_replication_factor
    else:
        factor = settings.transaction_state_log_replication_factor
    if replication_factor is not None:
        factor = replication_factor
    elif replication_factor_setting(name) not in settings.layers.static:
        factor = min(factor, brokers)
    if name == GROUPS:
        return InternalTopic(
            settings.offsets_topic_num_partitions,
            factor,
            {
                _POLICY: _COMPACT,
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    return InternalTopic(
        settings.transaction_state_log_num_partitions,
        factor,
        {
            _POLICY: _COMPACT,
            "compression.type": "uncompressed",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(min(settings.transaction_state_log_min_isr, factor)),
            "unclean.leader.election.enable": "false",
        },
    )


def required_overrides(name: str, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the overrides completed by those that an internal topic must have; those of other
    topics are returned as they are. Raises `ApiError` if they contradict each other."""
    if name not in INTERNAL_TOPICS:
        return overrides
    policy = overrides.get(_POLICY, _COMPACT)
    if policy.strip() != _COMPACT:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{_POLICY} of '{name}' is {_COMPACT}, not {policy}: the coordinators would lose "
            "what they keep there.",
        )
    return {**overrides, _POLICY: _COMPACT}
