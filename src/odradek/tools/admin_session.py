"""An admin client for one command: connects by the shared flags, gives up soon, speaks plainly."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from odradek.client.admin.admin import Admin
from odradek.client.cluster import Topic
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.topic_names import no_such_topic

K = TypeVar("K")
T = TypeVar("T")

# A person waits: a broker that is not there is said after two looks, not after a minute.
_RETRIES = "1"
_LOOKS = 5
_LOOK_AGAIN_S = 0.2
# How many partitions a message names.
_FEW = 5


@asynccontextmanager
async def open_admin(arguments: argparse.Namespace, **defaults: str) -> AsyncIterator[Admin]:
    """`defaults`, client settings in snake_case, give way to what the user set."""
    defaults = {"client_id": "odradek-admin", "retries": _RETRIES} | defaults
    properties = client_properties(arguments, **defaults)
    async with Admin(AdminSettings.from_properties(properties)) as admin:
        yield admin


@asynccontextmanager
async def open_admin_beside(properties: Mapping[str, str]) -> AsyncIterator[Admin]:
    """For tools that produce or consume: only what says where and how to connect is taken."""
    known = {name: properties[name] for name in _SHARED & properties.keys()}
    async with Admin(AdminSettings.from_properties({"retries": _RETRIES} | known)) as admin:
        yield admin


_SHARED = frozenset({"bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol"})


def checked(answers: Mapping[K, T | KafkaError]) -> list[T]:
    """The answers, or the first thing that a broker refused."""
    values: list[T] = []
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise CommandFailed(answer.message)
        values.append(answer)
    return values


async def topics_named(admin: Admin, names: Iterable[str]) -> dict[str, Topic]:
    """The topics of these names; one that is missing ends the command with a clear line."""
    answers = await admin.describe_topics(names)
    found: dict[str, Topic] = {}
    for name, answer in answers.items():
        if isinstance(answer, KafkaError):
            if answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise CommandFailed(answer.message)
            raise no_such_topic(name, list(await admin.list_topics(include_internal=True)))
        found[name] = answer
    return found


async def require_brokers(admin: Admin, asked: Iterable[int]) -> list[int]:
    """The ids of all brokers; one that was asked for and is not among them ends the command."""
    known = sorted(broker.id for broker in (await admin.describe_cluster()).brokers)
    missing = sorted(set(asked) - set(known))
    if missing:
        raise CommandFailed(
            f"there is no broker {', '.join(map(str, missing))};"
            f" the cluster has {', '.join(map(str, known))}"
        )
    return list(known)


def _warn_of_leaderless(name: str, partitions: Sequence[MetadataResponsePartition]) -> None:
    """Records for these wait for a leader, and whoever types them should know why."""
    leaderless = sorted(
        partition.partition_index for partition in partitions if partition.leader_id < 0
    )
    if leaderless:
        shown = ", ".join(map(str, leaderless[:_FEW])) + (" ..." if leaderless[_FEW:] else "")
        which = f"partition {shown} has" if len(leaderless) == 1 else f"partitions {shown} have"
        print(
            f"warning: topic {name}: {which} no leader now; what is written there waits until a"
            " broker that holds a copy is back, for delivery.timeout.ms at most",
            file=sys.stderr,
        )


async def require_producible(admin: Admin, name: str) -> None:
    """Lets a broker that creates topics by itself do so; else a missing topic is said at once."""
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )
    for _ in range(_LOOKS):
        response = await admin.request(asked, MetadataResponse)
        code = response.topics[0].error_code
        if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise CommandFailed(f"{name!r} cannot be the name of a topic")
        if code not in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}:
            _warn_of_leaderless(name, response.topics[0].partitions)
            return
        # Kafka answers so while it creates the topic: it is there a moment later, or never.
        await asyncio.sleep(_LOOK_AGAIN_S)
    await topics_named(admin, [name])
