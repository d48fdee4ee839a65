"""A client that asks every broker directly, whether it leads or not, and checks the answers.

Clients follow metadata, so they leave a broker that no longer leads, and never see what it would
still answer. This observer keeps a connection to each broker and asks it again and again: for the
end of every partition, for the committed offsets of the group and for the leaders, and it commits
offsets of a group of its own. A broker that does not lead must refuse.

    stale end        a broker named a log end below an offset that was acknowledged before
    stale offset     a broker named an offset that a later acknowledged commit had replaced
    self-named       a broker that had lost its lease still named itself as a leader
    slow answer      a broker that ran all the time took too long for a small request
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from odradek.client import Admin
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.world import World
from simulation.checkers import History, Violation
from simulation.group_checkers import Commit, GroupHistory, Observation
from simulation.simulated_broker import SimulatedBroker
from simulation.workload import Options

_LATEST: Final = -1
_PATIENCE_MS: Final = 30_000
# The highest versions that name topics by their names.
_FETCH_VERSION: Final = 9
_COMMIT_VERSION: Final = 9
_OWN_GROUP: Final = "observers"


@dataclass(slots=True)
class _Ran:
    """Which process ran when something was asked, and since when nothing held it up."""

    starts: int
    is_paused: bool


class DirectObserver:
    """One for each broker. `found` are the rules that were broken."""

    def __init__(
        self,
        broker: SimulatedBroker,
        groups: Mapping[str, GroupHistory],
        partitions: Sequence[TopicPartition],
        *,
        acknowledged: History,
        longest_s: float,
    ) -> None:
        """`partitions` are read by the groups; `acknowledged` tells what their ends must be. A
        small request is answered within `longest_s`, refused or not."""
        self.name = f"observer-{broker.node_id}"
        self.found: list[Violation] = []
        self.asked = 0
        self._broker = broker
        self._groups = groups
        self._partitions = partitions
        self._log = acknowledged
        self._longest_s = longest_s
        self._commits = 0

    async def run(self, world: World) -> None:
        settings: Options = {
            "bootstrap_servers": self._broker.address,
            "request_timeout_ms": _PATIENCE_MS,
        }
        async with Admin(settings, world=world) as admin, asyncio.TaskGroup() as group:
            for ask in (
                self._ask_for_ends,
                self._ask_for_positions,
                self._ask_for_leaders,
                self._commit,
            ):
                group.create_task(self._again(admin, world, ask))

    async def _again(
        self, admin: Admin, world: World, ask: Callable[[Admin, World], Coroutine[Any, Any, None]]
    ) -> None:
        while True:
            broker = self._broker
            before, asked_s = self._state(), world.clock.monotonic_s()
            with suppress(ClientError, KafkaError):
                await ask(admin, world)
            took_s = world.clock.monotonic_s() - asked_s
            self.asked += 1
            if before == self._state() and not before.is_paused and took_s > self._longest_s:
                name = getattr(ask, "__name__", "")
                detail = f"{name.strip('_')} took {took_s:.1f} s on {broker.name}"
                self.found.append(Violation("slow answer", broker.name, detail))
            await asyncio.sleep(0.3 + 2 * world.randomness.fraction())

    def _state(self) -> _Ran:
        return _Ran(self._broker.interruptions, self._broker.is_paused)

    async def _ask_for_ends(self, admin: Admin, world: World) -> None:
        floors = {
            partition: max(
                (
                    s.offset
                    for s in self._log.sends
                    if s.partition == partition and s.offset is not None
                ),
                default=-1,
            )
            for partition in self._partitions
        }
        topics: dict[str, ListOffsetsTopic] = {}
        for topic, index in self._partitions:
            asked = topics.setdefault(topic, ListOffsetsTopic(name=topic))
            asked.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=_LATEST))
        response = await admin.request(
            ListOffsetsRequest(replica_id=BrokerId(-1), topics=list(topics.values())),
            ListOffsetsResponse,
        )
        for answered in response.topics:
            for partition in answered.partitions:
                topic_partition = TopicPartition(answered.name, partition.partition_index)
                if not partition.error_code and partition.offset <= floors[topic_partition]:
                    detail = f"{self._broker.name} says it ends at {partition.offset},"
                    detail = f"{detail} {floors[topic_partition]} was acknowledged before"
                    self.found.append(Violation("stale end", topic_partition, detail))

    async def _ask_for_positions(self, admin: Admin, world: World) -> None:
        asked_s = world.clock.monotonic_s()
        by_topic: dict[str, list[int]] = {}
        for topic, index in self._partitions:
            by_topic.setdefault(topic, []).append(index)
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic.items()
        ]
        connection = await admin.connection(None)
        response = await connection.request(
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(group_id=group, topics=topics) for group in self._groups
                ],
                # A commit of a transaction is answered before its markers are written: until then
                # the position is about to change, and only who asks for stable ones hears so.
                require_stable=True,
            ),
            OffsetFetchResponse,
            max_version=_FETCH_VERSION,
        )
        now_s = world.clock.monotonic_s()
        for group in response.groups:
            if group.error_code:
                continue
            for answered in group.topics:
                for partition in answered.partitions:
                    if not partition.error_code:
                        told = (
                            partition.committed_offset if partition.committed_offset >= 0 else None
                        )
                        topic_partition = TopicPartition(answered.name, partition.partition_index)
                        self._groups[group.group_id].observations.append(
                            Observation(self.name, topic_partition, told, asked_s, now_s)
                        )

    async def _ask_for_leaders(self, admin: Admin, world: World) -> None:
        has_lost_lease = self._broker.has_lost_lease
        topics = [
            MetadataRequestTopic(name=name)
            for name in dict.fromkeys(t for t, _ in self._partitions)
        ]
        response = await admin.request(
            MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse
        )
        if not (has_lost_lease and self._broker.has_lost_lease):
            return
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.leader_id == self._broker.node_id:
                    detail = f"{self._broker.name} has lost its lease"
                    topic_partition = TopicPartition(topic.name or "", partition.partition_index)
                    self.found.append(Violation("self-named", topic_partition, detail))

    async def _commit(self, admin: Admin, world: World) -> None:
        """Of a group of its own: whether it is taken does not matter, only how soon it is said."""
        self._commits += 1
        topic, index = self._partitions[0]
        connection = await admin.connection(None)
        await connection.request(
            OffsetCommitRequest(
                group_id=_OWN_GROUP,
                generation_id_or_member_epoch=-1,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=index, committed_offset=self._commits
                            )
                        ],
                    )
                ],
            ),
            OffsetCommitResponse,
            max_version=_COMMIT_VERSION,
        )


class Committer:
    """Moves a group of its own again and again, each time with a client that knows nothing yet, so
    that a new coordinator has something to tell soon."""

    name = "committer"

    def __init__(
        self, group: str, groups: GroupHistory, partition: TopicPartition, bootstrap: str
    ) -> None:
        self._group = group
        self._groups = groups
        self._partition = partition
        self._options: Options = {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": 1000,
            "default_api_timeout_ms": 2000,
        }

    async def run(self, world: World) -> None:
        offset = 0
        while True:
            offset += 1
            commit = Commit(self.name, self._partition, offset, world.clock.monotonic_s())
            self._groups.commits.append(commit)
            with suppress(ClientError, KafkaError):
                async with Admin(self._options, world=world) as admin:
                    asked = {self._partition: offset}
                    (told,) = (await admin.alter_group_offsets(self._group, asked)).values()
                if not isinstance(told, KafkaError):
                    commit.is_acknowledged = True
                    commit.ended_s = world.clock.monotonic_s()
            await asyncio.sleep(0.5 + world.randomness.fraction())
