"""An admin client for one command, configured by the shared flags, with short timeouts and clear
errors."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from odradek.client.admin.channel import AdminChannel
from odradek.client.cluster_view import Topic
from odradek.client.settings.shared import AdminSettings
from odradek.config.spelling import did_you_mean, nearest
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.types import TopicPartition
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.topic_names import no_such_topic, no_topic_name

if TYPE_CHECKING:
    from odradek.client.admin.brokers import BrokerCalls
    from odradek.client.admin.topics import TopicCalls

A = TypeVar("A", bound=AdminChannel)
K = TypeVar("K")
T = TypeVar("T")

# A person is waiting, so an unreachable broker is reported after two attempts, not after a minute.
_PATIENCE = {
    "retries": "1",
    # A port that accepts and says nothing is given up after this and twice this.
    "socket.connection.setup.timeout.ms": "5000",
}
_LOOKS = 5
_LOOK_AGAIN_S = 0.2
# How many partitions a message names.
_FEW = 5
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})


@asynccontextmanager
async def open_admin(
    calls: type[A], arguments: argparse.Namespace, **defaults: str
) -> AsyncIterator[A]:
    """Opens an admin client. `defaults`, client settings in snake_case, apply where the user has
    set nothing.

    A tool names the class with the calls that it uses, such as `TopicCalls`, or combines several.
    All of them are in `Admin`, but to import their messages takes as long as the tool's work.
    """
    defaults = {"client.id": "odradek-admin"} | _PATIENCE | defaults
    properties = client_properties(arguments, **defaults)
    async with calls(AdminSettings.from_properties(properties)) as admin:
        yield admin


@asynccontextmanager
async def open_admin_beside(calls: type[A], properties: Mapping[str, str]) -> AsyncIterator[A]:
    """Opens an admin client for a tool that produces or consumes. Only the connection properties
    are used."""
    known = {
        name: value
        for name, value in properties.items()
        if name in _SHARED or name.startswith(("ssl.", "sasl.", "socket."))
    }
    async with calls(AdminSettings.from_properties(_PATIENCE | known)) as admin:
        yield admin


_SHARED = frozenset({"bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol"})


def checked(answers: Mapping[K, T | KafkaError]) -> list[T]:
    """Returns the answers; raises the first error among them."""
    values: list[T] = []
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise CommandFailed(answer.message)
        values.append(answer)
    return values


async def topics_named(admin: "TopicCalls", names: Iterable[str]) -> dict[str, Topic]:
    """Returns the topics of these names. A missing topic ends the command with one clear line."""
    answers = await admin.describe_topics(names)
    topics: dict[str, Topic] = {}
    for name, answer in answers.items():
        if isinstance(answer, KafkaError):
            if answer.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise no_topic_name(name)
            if answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise CommandFailed(answer.message)
            raise no_such_topic(name, list(await admin.list_topics(include_internal=True)))
        topics[name] = answer
    return topics


async def named_partitions(admin: "TopicCalls", texts: Iterable[str]) -> list[TopicPartition]:
    """Reads partitions: `orders` means all partitions of the topic, `orders:0,1` two of them."""
    chosen = indexes_by_topic(texts)
    known = await topics_named(admin, chosen)
    partitions: list[TopicPartition] = []
    for topic, numbers in chosen.items():
        there = known[topic].partitions
        for index in there if numbers is None else dict.fromkeys(numbers):
            if index not in there:
                raise CommandFailed(
                    f"topic {topic!r} has no partition {index}; it has 0 to {len(there) - 1}"
                )
            partitions.append(TopicPartition(topic, index))
    return partitions


def indexes_by_topic(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Returns the topics that `orders` and `orders:0,1` name, with partitions; None means all."""
    chosen: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, indexes = text.partition(":")
        added = _indexes(text, indexes) if colon else None
        before = chosen.get(topic, [])
        chosen[topic] = None if added is None or before is None else before + added
    return chosen


def _indexes(text: str, indexes: str) -> list[int]:
    try:
        return [int(index) for index in indexes.split(",")]
    except ValueError:
        raise CommandFailed(f"--topic {text!r} is not like orders or orders:0,1") from None


async def require_brokers(admin: "BrokerCalls", ids: Iterable[int]) -> list[int]:
    """Returns the ids of all brokers. A requested broker that is not among them ends the
    command."""
    known = sorted(broker.id for broker in (await admin.describe_cluster()).brokers)
    missing = sorted(set(ids) - set(known))
    if missing:
        raise CommandFailed(
            f"there is no broker {', '.join(map(str, missing))};"
            f" the cluster has {', '.join(map(str, known))}"
        )
    return list(known)


def leaderless_partitions(topic: Topic) -> list[int]:
    """Returns the partitions of a topic that have no leader now, sorted."""
    return sorted(index for index, known in topic.partitions.items() if known.leader < 0)


def warn_of_leaderless(name: str, leaderless: Sequence[int], consequence: str) -> None:
    """Warns about partitions without a leader, if there are any: the tool waits for them, and the
    user should know why. `consequence` says what waits."""
    if leaderless:
        print(
            f"warning: topic {name}: {without_leader(leaderless)}; {consequence} until a broker"
            " that holds a copy is back",
            file=sys.stderr,
        )


def without_leader(leaderless: Sequence[int]) -> str:
    """Returns `partition 3 has no leader now`, or the same of several partitions."""
    shown = ", ".join(map(str, leaderless[:_FEW])) + (" ..." if leaderless[_FEW:] else "")
    which = f"partition {shown} has" if len(leaderless) == 1 else f"partitions {shown} have"
    return f"{which} no leader now"


def _is_another(name: str, known: list[str]) -> bool:
    """Returns whether a new name only looks like the nearest one: names of a letter or two, and
    those of a series, such as `orders-2` beside `orders-1`."""
    near = nearest(name, known) or ""
    return len(name) < 3 or near.rstrip("0123456789") == name.rstrip("0123456789")


async def require_producible(admin: "TopicCalls", name: str) -> None:
    """Checks that a topic exists, or that the brokers create it (auto.create.topics.enable);
    otherwise raises at once. A name that is nearly that of another topic is hinted at."""
    topic = (await admin.describe_metadata([name])).topics[0]
    cannot, near, known = "cannot be written", "", list[str]()
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        known = list(await admin.list_topics(include_internal=True))
        topic = await _create_by_asking(admin, name)
        if topic.error_code in _UNKNOWN:
            raise no_such_topic(name, known, may_create=True)
        cannot, near = "does not exist and cannot be created", did_you_mean(name, known)
    if topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        raise no_topic_name(name)
    if topic.error_code not in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}:
        reason = error_for(topic.error_code).message.rstrip(".")
        raise CommandFailed(f"topic {name!r} {cannot}: {reason}{near}")
    if near and not _is_another(name, known):
        hint(f"topic {name} is new{near} `odradek topics --delete --topic {name}` takes it back")
    leaderless = sorted(
        partition.partition_index for partition in topic.partitions if partition.leader_id < 0
    )
    consequence = "what is written there waits, delivery.timeout.ms at most,"
    warn_of_leaderless(name, leaderless, consequence)


async def _create_by_asking(admin: "TopicCalls", name: str) -> MetadataResponseTopic:
    """Asks for a topic as a producer does, so that brokers create it if they may. They say that it
    is unknown, or has no leader, while they create it, so it may exist a moment later."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )
    for _ in range(_LOOKS):
        topic = (await admin.request(request, MetadataResponse)).topics[0]
        if topic.error_code not in _UNKNOWN:
            break
        await asyncio.sleep(_LOOK_AGAIN_S)
    return topic
