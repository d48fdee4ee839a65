"""What administrators do to a cluster, and what must be true afterwards.

Two administrators change different settings of one topic at the same moment: every acknowledged
change must be there. A client asks for an internal topic before any coordinator needs it: it must
be created as an internal topic. One topic is denied to every user: its name and partitions must not
be shown, whether a request names the topic or its id.
"""

import asyncio
from random import Random
from typing import Final

from odradek.client import Admin
from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigType
from odradek.client.admin.group_types import GroupOffset
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.types import TopicId, TopicPartition
from odradek.world import World
from simulation.checkers import Violation
from simulation.simulated_cluster import Brokers, Program

INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
HIDDEN: Final = "hidden"

# Settings that have no effect in these short runs.
_SETTINGS: Final = (
    "segment.jitter.ms",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.compaction.lag.ms",
)
_GROUP: Final = "administrators"
# Notifications of the metadata store reach every broker within half a second.
_LOOKS, _LOOK_AGAIN_S = 10, 0.2
_DENY, _ALL_OPERATIONS, _TOPIC, _LITERAL = 2, 2, 2, 3


class Administrators:
    """`found` collects violations, which the scenario reports at the end."""

    def __init__(self, brokers: Brokers, random: Random) -> None:
        self.found: list[Violation] = []
        self._brokers = brokers
        self._random = random
        # The last acknowledged value of each topic's setting; no entry if the value is unknown.
        self._settings: dict[tuple[str, str], str] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._hidden_id: TopicId | None = None

    # Settings

    async def change_settings(self, topic: str) -> None:
        """Changes two settings at once, by two clients."""
        values = {
            name: str(self._random.randint(1, 1000) * 1000)
            for name in self._random.sample(_SETTINGS, 2)
        }
        answered = await asyncio.gather(
            *(self._brokers.try_to(self._changing(topic, *item)) for item in values.items())
        )
        for (name, value), is_done in zip(values.items(), answered, strict=True):
            if is_done:
                self._settings[topic, name] = value
            else:
                self._settings.pop((topic, name), None)

    def _changing(self, topic: str, name: str, value: str) -> Program[None]:
        async def change(world: World) -> None:
            resource = ConfigResource(ConfigType.TOPIC, topic)
            async with self._brokers.admin(world) as admin:
                asked = {resource: [ConfigChange(name, value)]}
                for error in (await admin.incremental_alter_configs(asked)).values():
                    if error is not None:
                        raise error

        return change

    def store_was_lost(self) -> None:
        """Settings and ACLs are gone with it; topics and committed offsets are not."""
        self.forget_settings()
        self._hidden_id = None

    def forget_settings(self, topic: str | None = None) -> None:
        """The topic was deleted, or the store lost."""
        for key in [key for key in self._settings if topic in (None, key[0])]:
            del self._settings[key]

    async def check_settings(self, world: World) -> None:
        async with self._brokers.admin(world) as admin:
            for (topic, name), value in self._settings.items():
                told = await _setting(admin, topic, name)
                for _ in range(_LOOKS):
                    if told == value:
                        break
                    # The broker that was asked may not have been notified yet.
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    told = await _setting(admin, topic, name)
                else:
                    detail = f"{name} is {told}, acknowledged was {value}"
                    self.found.append(Violation("lost setting", topic, detail))

    # Positions

    async def commit(self, partition: TopicPartition) -> None:
        """Commits an offset of the administrators' group, which creates `__consumer_offsets`."""
        offset = self._random.randint(0, 1000)

        async def move(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                for told in (await admin.alter_group_offsets(_GROUP, {partition: offset})).values():
                    if isinstance(told, KafkaError):
                        raise told

        self._positions.pop(partition, None)
        if await self._brokers.try_to(move):
            self._positions[partition] = offset

    def forget_positions(self) -> None:
        """The topic was deleted, and what was committed for it goes with it."""
        self._positions.clear()

    async def check_positions(self, world: World) -> None:
        if not self._positions:
            return
        async with self._brokers.admin(world) as admin:
            told = await admin.list_group_offsets(_GROUP, self._positions)
        for partition, offset in self._positions.items():
            known = told.get(partition)
            if not isinstance(known, GroupOffset) or known.offset != offset:
                detail = f"{known}, acknowledged was {offset}"
                self.found.append(Violation("lost position", partition, detail))

    # Internal topics

    async def ask_for_internal(self) -> None:
        name = self._random.choice(INTERNAL)

        async def ask(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                topics = [MetadataRequestTopic(name=name)]
                await admin.request(
                    MetadataRequest(topics=topics, allow_auto_topic_creation=True),
                    MetadataResponse,
                )

        await self._brokers.try_to(ask, 3.0)

    async def check_internal(self, world: World, partitions: int) -> None:
        async with self._brokers.admin(world) as admin:
            there = await admin.list_topics(include_internal=True)
            for name in INTERNAL:
                if name not in there:
                    continue
                resource = ConfigResource(ConfigType.TOPIC, name)
                told = (await admin.describe_configs([resource], ["cleanup.policy"]))[resource]
                if isinstance(told, KafkaError):
                    raise told
                policy = told["cleanup.policy"].value
                count = len(there[name].partitions)
                if policy != "compact" or count != partitions:
                    detail = f"{count} partitions, cleanup.policy={policy}"
                    self.found.append(Violation("ordinary internal topic", name, detail))

    # Access rules

    async def hide_a_topic(self) -> None:
        """Denies one topic to everybody."""
        await self._brokers.create_topic(HIDDEN, 1, 1)

        async def deny(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                while self._hidden_id is None:
                    try:
                        (topic,) = (await admin.describe_metadata([HIDDEN])).topics
                    except (ClientError, KafkaError):
                        await asyncio.sleep(0.1)
                        continue
                    if not topic.error_code:
                        self._hidden_id = TopicId(topic.topic_id)
                await _deny(admin)

        await self._brokers.ask(deny)
        await asyncio.sleep(1)  # Until every broker knows.

    async def look_for_hidden(self, public: str) -> None:
        """Asks in every way in which a name and an id can be put together."""
        if self._hidden_id is None:
            return
        ways = [
            MetadataRequestTopic(name=HIDDEN),
            MetadataRequestTopic(name=None, topic_id=self._hidden_id),
            MetadataRequestTopic(name=public, topic_id=self._hidden_id),
        ]

        async def look(world: World) -> None:
            async with self._brokers.admin(world) as admin:
                for way in ways:
                    answer = await admin.request(
                        MetadataRequest(topics=[way], allow_auto_topic_creation=False),
                        MetadataResponse,
                    )
                    for topic in answer.topics:
                        if topic.partitions and topic.topic_id == self._hidden_id:
                            detail = f"asked for {way.name} with its id"
                            self.found.append(Violation("denied topic shown", HIDDEN, detail))

        await self._brokers.try_to(look, 3.0)


async def _deny(admin: Admin) -> None:
    rule = AclCreation(
        resource_type=_TOPIC,
        resource_name=HIDDEN,
        resource_pattern_type=_LITERAL,
        principal="User:*",
        host="*",
        operation=_ALL_OPERATIONS,
        permission_type=_DENY,
    )
    await admin.controller_request(CreateAclsRequest(creations=[rule]), CreateAclsResponse)


async def _setting(admin: Admin, topic: str, name: str) -> str | None:
    resource = ConfigResource(ConfigType.TOPIC, topic)
    told = (await admin.describe_configs([resource], [name]))[resource]
    if isinstance(told, KafkaError):
        raise told
    return told[name].value
