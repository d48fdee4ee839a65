"""Limits how fast the replicas of a plan are copied: Kafka's replication quotas.

Brokers and topics may have throttles already, which somebody else set. So the values from before
are read and kept in the journal, and restored at the end. A broker answers only for its own
settings: if it is down, its throttle cannot be lifted until it is back.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigSource, ConfigType
from odradek.client.errors import ClientError
from odradek.config.operation import ConfigOperation
from odradek.ops.balance.journal import Overrides, Throttles
from odradek.ops.balance.plan import Move
from odradek.ops.balance.reading import BalanceAdmin
from odradek.protocol.errors import ErrorCode, KafkaError

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
_OWN: Final = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG)
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def read_throttles(admin: BalanceAdmin, moves: Iterable[Move]) -> Throttles:
    """Returns the settings that `set_rates` and `list_replicas` would change for these moves."""
    moves = list(moves)
    alive = {int(broker.id) for broker in (await admin.describe_cluster()).brokers}
    brokers = {broker for move in moves for broker in (*move.before, *move.after)} & alive
    topics = {move.partition.topic for move in moves}
    return Throttles(
        brokers=await _own(admin, ConfigType.BROKER, map(str, sorted(brokers)), RATES),
        topics=await _own(admin, ConfigType.TOPIC, sorted(topics), (LEADERS, FOLLOWERS)),
    )


async def _own(
    admin: BalanceAdmin, kind: ConfigType, resources: Iterable[str], names: tuple[str, ...]
) -> Overrides:
    found: Overrides = {}
    asked = [ConfigResource(kind, resource) for resource in resources]
    answers = await admin.describe_configs(asked, names) if asked else {}
    for resource, answer in answers.items():
        if isinstance(answer, KafkaError):
            if answer.code in _GONE:
                continue
            raise answer
        found[resource.name] = {
            name: answer[name].value if name in answer and answer[name].source in _OWN else None
            for name in names
        }
    return found


async def set_rates(admin: BalanceAdmin, brokers: Iterable[str], rate: int) -> None:
    await _alter(
        admin,
        {
            ConfigResource(ConfigType.BROKER, broker): [
                ConfigChange(name, str(rate)) for name in RATES
            ]
            for broker in brokers
        },
    )


async def list_replicas(admin: BalanceAdmin, moves: Iterable[Move]) -> None:
    """Puts the replicas that send and receive under the throttle. Replicas in sync are not slowed
    down, although their partition is named."""
    senders: dict[str, list[str]] = {}
    receivers: dict[str, list[str]] = {}
    for move in moves:
        topic, index = move.partition
        senders.setdefault(topic, []).extend(f"{index}:{broker}" for broker in move.before)
        receivers.setdefault(topic, []).extend(f"{index}:{broker}" for broker in move.adding)
    await _alter(
        admin,
        {
            ConfigResource(ConfigType.TOPIC, topic): [
                ConfigChange(LEADERS, ",".join(senders[topic])),
                ConfigChange(FOLLOWERS, ",".join(receivers[topic])),
            ]
            for topic in senders
        },
    )


async def restore(admin: BalanceAdmin, throttles: Throttles) -> Throttles:
    """Gives brokers and topics back what they had. Returns what could not be restored, because a
    broker does not answer."""
    await _alter(admin, _restoring(ConfigType.TOPIC, throttles.topics))
    alive = {str(broker.id) for broker in (await admin.describe_cluster()).brokers}
    left: Overrides = {}
    for broker, values in throttles.brokers.items():
        if broker not in alive:
            left[broker] = values
            continue
        try:
            await _alter(admin, _restoring(ConfigType.BROKER, {broker: values}))
        except (ClientError, OSError):
            left[broker] = values
    return Throttles(brokers=left)


def _restoring(kind: ConfigType, overrides: Overrides) -> dict[ConfigResource, list[ConfigChange]]:
    return {
        ConfigResource(kind, resource): [
            ConfigChange(name, None, ConfigOperation.DELETE)
            if value is None
            else ConfigChange(name, value)
            for name, value in values.items()
        ]
        for resource, values in overrides.items()
    }


async def _alter(admin: BalanceAdmin, changes: Mapping[ConfigResource, list[ConfigChange]]) -> None:
    """Changes settings. A topic that was deleted meanwhile needs no throttle."""
    if not changes:
        return
    for error in (await admin.incremental_alter_configs(changes)).values():
        if error is not None and error.code not in _GONE:
            raise error
