"""The actions of `odradek topics`, after its flags are parsed."""

import argparse
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.cli.topics.next_steps import after_refused_partitions, after_refused_topic
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.config_types import ConfigEntry, ConfigResource, ConfigType
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.topic_types import NewPartitions, NewTopic
from odradek.client.admin.topics import TopicCalls
from odradek.client.errors import UnsupportedVersion
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tools.admin_session import checked, open_admin
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.hints import hint, hint_if_none
from odradek.tools.terminal import print_json
from odradek.tools.topic_names import is_internal, names_without_topic, no_match, select_topics
from odradek.wording import counted

_PAGE_PARTITIONS = 2000


class _TopicAdmin(TopicCalls, ConfigCalls, BrokerCalls):
    """The admin calls of this tool."""


async def perform(action: str, arguments: argparse.Namespace) -> int:
    async with open_admin(_TopicAdmin, arguments) as admin:
        perform_one = {
            "create": _create,
            "list": _list,
            "describe": _describe,
            "alter": _alter,
            "delete": _delete,
        }[action]
        await perform_one(admin, arguments)
    return 0


async def _create(admin: _TopicAdmin, arguments: argparse.Namespace) -> None:
    name = arguments.topic
    if "." in name and "_" in name:
        hint("metrics cannot tell . from _ in topic names; it is best to use only one of them")
    topic = NewTopic(
        name,
        arguments.partitions or -1,
        arguments.replication_factor or -1,
        assignments=dict(enumerate(arguments.replica_assignment or [])),
        configs=dict(arguments.config),
    )
    (answer,) = (await admin.create_topics([topic])).values()
    if isinstance(answer, KafkaError):
        if answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise CommandFailed(
                await after_refused_topic(admin, answer, name, dict(arguments.config))
            )
        if not arguments.if_not_exists:
            raise CommandFailed(f"topic {name!r} exists already; --if-not-exists accepts that")
    created = not isinstance(answer, KafkaError)
    if arguments.json:
        print_json({"topic": name, "created": created})
    elif created:
        print(f"Created topic {name}.")


async def _list(admin: _TopicAdmin, arguments: argparse.Namespace) -> None:
    names = await _matching(admin, arguments)
    if arguments.json:
        print_json(names)
    else:
        print("\n".join(names))
        none = "there are no topics yet; odradek topics --create --topic NAME makes one"
        selected = f"no topic matches {arguments.topic}; without --topic all are listed"
        hint_if_none(names, none if arguments.topic is None else selected)


async def _matching(admin: _TopicAdmin, arguments: argparse.Namespace) -> list[str]:
    """Returns the names of existing topics that the flags select, sorted."""
    known = await admin.list_topics(include_internal=True)
    names = [
        name
        for name, topic in known.items()
        if not (arguments.exclude_internal and (topic.is_internal or is_internal(name)))
    ]
    if arguments.topic is None:
        return names
    matches = select_topics(arguments.topic, names)
    if not matches and not (arguments.if_exists or arguments.list):
        raise no_match(arguments.topic, names)
    if matches:
        for name in names_without_topic(arguments.topic, names):
            hint(str(no_match(name, names)))
    if arguments.delete or arguments.alter:
        return _without_internal(arguments.topic, matches)
    return matches


def _without_internal(text: str, names: list[str]) -> list[str]:
    """Returns the topics to change. A pattern changes no internal topic: with `.*` all offsets of
    all groups would be deleted."""
    if text in names:
        return names
    internal = [name for name in names if is_internal(name)]
    if internal:
        hint(f"internal topics are left out: {', '.join(internal)}; name one to change it")
    return [name for name in names if name not in internal]


async def _alter(admin: _TopicAdmin, arguments: argparse.Namespace) -> None:
    names = await _matching(admin, arguments)
    known = await admin.describe_topics(names)
    count = {}
    for name in names:
        topic = known[name]
        if isinstance(topic, KafkaError):
            raise CommandFailed(topic.message)
        assignment = arguments.replica_assignment
        total = arguments.partitions or len(assignment)
        count[name] = NewPartitions(total, assignment and assignment[len(topic.partitions) :])
    if not count:
        return
    for answer in (await admin.create_partitions(count)).values():
        if isinstance(answer, KafkaError):
            raise CommandFailed(after_refused_partitions(answer))
    print(
        "warning: records with a key go to other partitions from now on than before, so the order"
        " of a key's records, and consumers that rely on its partition, are affected",
        file=sys.stderr,
    )
    if arguments.json:
        print_json({name: new.total for name, new in count.items()})
    else:
        for name, new in count.items():
            print(f"Topic {name} has {counted(new.total, 'partition')} now.")


async def _delete(admin: _TopicAdmin, arguments: argparse.Namespace) -> None:
    names = await _matching(admin, arguments)
    checked(await admin.delete_topics(names))
    if arguments.json:
        print_json(names)
    else:
        for name in names:
            print(f"Deleted topic {name}.")


class PartitionState(NamedTuple):
    number: int
    leader: int
    """-1 when there is none."""
    replicas: list[int]
    in_sync: list[int]
    eligible: list[int] | None
    """Eligible leader replicas; None if the broker does not say."""
    last_known_eligible: list[int] | None

    def line(self, topic: str) -> str:
        leader = "none" if self.leader < 0 else self.leader
        return (
            f"\tTopic: {topic}\tPartition: {self.number}\tLeader: {leader}"
            f"\tReplicas: {_joined(self.replicas)}\tIsr: {_joined(self.in_sync)}"
            f"\tElr: {_joined(self.eligible)}\tLastKnownElr: {_joined(self.last_known_eligible)}"
        )


class TopicState(NamedTuple):
    name: str
    id: bytes
    partitions: list[PartitionState]
    configs: dict[str, ConfigEntry]

    @property
    def overrides(self) -> dict[str, str | None]:
        return {entry.name: entry.value for entry in self.configs.values() if not entry.is_default}

    @property
    def min_in_sync(self) -> int:
        entry = self.configs.get("min.insync.replicas")
        return int(entry.value or 1) if entry is not None else 1

    def line(self) -> str:
        configs = ",".join(f"{name}={_text(value)}" for name, value in self.overrides.items())
        identity = f"\tTopicId: {topic_id_text(self.id)}" if any(self.id) else ""
        return (
            f"Topic: {self.name}{identity}\tPartitionCount: {len(self.partitions)}"
            f"\tReplicationFactor: {len(self.partitions[0].replicas) if self.partitions else 0}"
            f"\tConfigs: {configs}"
        )


class PartitionFilter:
    """Which partitions and which topic lines `--describe` shows."""

    def __init__(self, arguments: argparse.Namespace, live_brokers: Iterable[int]) -> None:
        self._under_replicated = arguments.under_replicated_partitions
        self._unavailable = arguments.unavailable_partitions
        self._under_min = arguments.under_min_isr_partitions
        self._at_min = arguments.at_min_isr_partitions
        self._only_overrides = arguments.topics_with_overrides
        self._live = frozenset(live_brokers)
        filters = (self._under_replicated, self._unavailable, self._under_min, self._at_min)
        if sum(filters) + bool(self._only_overrides) > 1:
            raise UsageError("give at most one of the flags that choose what --describe shows")
        self._some = any(filters)

    def shows_topic(self, topic: TopicState) -> bool:
        return not self._some and (not self._only_overrides or bool(topic.overrides))

    def shown_partitions(self, topic: TopicState) -> Iterator[PartitionState]:
        if self._only_overrides:
            return
        for partition in topic.partitions:
            if not self._some or self._is_selected(partition, topic.min_in_sync):
                yield partition

    def _is_selected(self, partition: PartitionState, min_in_sync: int) -> bool:
        in_sync = len(partition.in_sync)
        return (
            (self._under_replicated and in_sync < len(partition.replicas))
            or (self._unavailable and partition.leader not in self._live)
            or (self._under_min and (partition.leader < 0 or in_sync < min_in_sync))
            or (self._at_min and in_sync == min_in_sync)
        )


async def _describe(admin: _TopicAdmin, arguments: argparse.Namespace) -> None:
    names = await _named_by_id(admin, arguments)
    if names is None:
        names = await _matching(admin, arguments)
    live = (await admin.describe_cluster()).brokers
    shown = PartitionFilter(arguments, (broker.id for broker in live))
    page = arguments.partition_size_limit_per_response or _PAGE_PARTITIONS
    topics = await _states(admin, names, page)
    if arguments.json:
        print_json([_as_json(topic, shown) for topic in topics])
        return
    for topic in topics:
        if shown.shows_topic(topic):
            print(topic.line())
        for partition in shown.shown_partitions(topic):
            print(partition.line(topic.name))


async def _named_by_id(admin: _TopicAdmin, arguments: argparse.Namespace) -> list[str] | None:
    if arguments.topic_id is None:
        return None
    topic_id = topic_id_bytes(arguments.topic_id)
    known = await admin.list_topics(include_internal=True)
    names = [name for name, topic in known.items() if topic.id == topic_id]
    if not names and not arguments.if_exists:
        raise CommandFailed(f"no topic has the id {arguments.topic_id}")
    return names


async def _states(admin: _TopicAdmin, names: list[str], page_partitions: int) -> list[TopicState]:
    if not names:
        return []
    configs = await admin.describe_configs(ConfigResource(ConfigType.TOPIC, name) for name in names)
    states: dict[str, TopicState] = {}
    for name, topic_id, partition in await _partitions(admin, names, page_partitions):
        if name not in states:
            answer = configs[ConfigResource(ConfigType.TOPIC, name)]
            entries = {} if isinstance(answer, KafkaError) else answer
            states[name] = TopicState(name, topic_id, [], entries)
        states[name].partitions.append(partition)
    for state in states.values():
        state.partitions.sort()
    return [states[name] for name in sorted(states)]


async def _partitions(
    admin: _TopicAdmin, names: list[str], page_partitions: int
) -> list[tuple[str, bytes, PartitionState]]:
    try:
        return [
            (
                topic.name or "",
                topic.topic_id,
                PartitionState(
                    partition.partition_index,
                    partition.leader_id,
                    partition.replica_nodes,
                    partition.isr_nodes,
                    partition.eligible_leader_replicas or [],
                    partition.last_known_elr or [],
                ),
            )
            async for topic in admin.describe_topic_partitions(
                names, page_partitions=page_partitions
            )
            for partition in topic.partitions
        ]
    except UnsupportedVersion:
        # Brokers before Kafka 3.7: Metadata has the same fields except for the eligible leader
        # replicas.
        answers = checked(await admin.describe_topics(names))
        return [
            (
                topic.name,
                topic.id,
                PartitionState(
                    partition.index,
                    partition.leader,
                    list(partition.replicas),
                    list(partition.in_sync),
                    None,
                    None,
                ),
            )
            for topic in answers
            for partition in topic.partitions.values()
        ]


def _as_json(topic: TopicState, shown: PartitionFilter) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topicId": topic_id_text(topic.id),
        "partitionCount": len(topic.partitions),
        "configs": topic.overrides,
        "partitions": [
            {
                "partition": partition.number,
                "leader": None if partition.leader < 0 else partition.leader,
                "replicas": partition.replicas,
                "isr": partition.in_sync,
                "elr": partition.eligible,
                "lastKnownElr": partition.last_known_eligible,
            }
            for partition in shown.shown_partitions(topic)
        ],
    }


def topic_id_text(topic_id: bytes) -> str:
    """Formats a topic id as Kafka does: base64 without padding."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def topic_id_bytes(text: str) -> bytes:
    try:
        topic_id = urlsafe_b64decode(text + "==")
    except ValueError:
        topic_id = b""
    if len(topic_id) != 16:
        raise UsageError(f"--topic-id {text!r} is not a topic's id, 22 letters and digits")
    return topic_id


def _joined(ids: list[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _text(value: str | None) -> str:
    return "null" if value is None else value
