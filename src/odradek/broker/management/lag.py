"""How far groups lag behind: in records, and in seconds.

A coordinator knows what its groups have committed, and the leaders know the high watermark and the
time of the first record that is not read. For partitions that this broker leads both are at hand.
The leaders of the others are asked once in an interval (`odradek.metrics.lag.interval.ms`), in one
request each for all groups together. Nobody asks while there is no management port.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.broker.backlogs import NO_TIMESTAMP, Backlog, backlog_of
from odradek.client.errors import ClientError
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.look_up import (
    LookUpOffset,
    LookUpPartition,
    LookUpRequest,
    LookUpResponse,
    LookUpTopic,
)
from odradek.protocol.types import BrokerId, Offset, TopicPartition
from odradek.replication.peers import Peers, PeerUnreachable
from odradek.storage import StorageError
from odradek.world.timeslice import Timeslice

if TYPE_CHECKING:
    from odradek.broker.services import Services

logger = logging.getLogger("odradek.server")

_TIMEOUT_S: Final = 2.0
_PURPOSE: Final = "lag"

_Question = tuple[TopicPartition, Offset]


class GroupBacklog(NamedTuple):
    """`age_s` is the age of the first record that the group has not read, 0 if it has read all, and
    None if it is not known."""

    records: int
    age_s: float | None


class LagMonitor:
    """The collector of groups asks it for each committed offset (`backlog`)."""

    def __init__(self, services: "Services", peers: Peers, max_partitions: int) -> None:
        self._services = services
        self._peers = peers
        self._max_partitions = max_partitions
        # What other leaders have answered in the last interval.
        self._answers: dict[tuple[str, TopicPartition], Backlog] = {}

    async def run(self) -> None:
        """Asks the leaders again and again, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(
                self._services.settings.broker.odradek_metrics_lag_interval_ms / 1000
            )

    async def refresh(self) -> None:
        """Asks each leader once. Of one that does not answer, the lags are not known."""
        questions = await self._questions()
        asked = {leader: list(wanted) for leader, wanted in questions.items()}
        answers = await asyncio.gather(
            *(self._ask(leader, wanted) for leader, wanted in asked.items())
        )
        found: dict[_Question, Backlog] = {}
        for answer in answers:
            found.update(answer)
        self._answers = {
            (group_id, question[0]): found[question]
            for wanted in questions.values()
            for question, groups in wanted.items()
            if question in found
            for group_id in groups
        }

    def backlog(
        self, group_id: str, partition: TopicPartition, offset: Offset, now_ms: int
    ) -> GroupBacklog | None:
        """Returns how far a group that has committed `offset` lags behind; None if the leader did
        not answer."""
        local = self._services.replicas.get(*partition)
        if local is not None and local.is_leader:
            try:
                found = backlog_of(local, offset)
            except (OSError, StorageError):
                return None
        else:
            answer = self._answers.get((group_id, partition))
            if answer is None:
                return None
            found = answer
        records = max(found.high_watermark - offset, 0)
        if not records:
            return GroupBacklog(0, 0.0)
        if found.timestamp_ms == NO_TIMESTAMP:
            return GroupBacklog(records, None)
        return GroupBacklog(records, max(now_ms - found.timestamp_ms, 0) / 1000)

    async def _questions(self) -> dict[BrokerId, dict[_Question, list[str]]]:
        """Returns what each leader is asked, and for which groups."""
        services = self._services
        try:
            machines = list(services.groups.machines())
        except ApiError:
            return {}  # Without its lease this broker coordinates nothing.
        questions: dict[BrokerId, dict[_Question, list[str]]] = {}
        image, count = services.images.cache.image, 0
        timeslice = Timeslice.of_running_loop()
        for machine in machines:
            for group_id in list(machine.offsets.committed):
                for partition, committed in list(machine.offsets.of(group_id).items()):
                    if timeslice.is_over():
                        await timeslice.next_turn()
                    state = image.partition(*partition)
                    if state is None or state.leader in (services.broker_id, None):
                        continue
                    if state.leader not in image.brokers or count >= self._max_partitions:
                        continue
                    count += 1
                    of_leader = questions.setdefault(state.leader, {})
                    question = (partition, Offset(committed.offset))
                    of_leader.setdefault(question, []).append(group_id)
        return questions

    async def _ask(self, leader: BrokerId, wanted: list[_Question]) -> dict[_Question, Backlog]:
        by_partition: dict[TopicPartition, list[Offset]] = {}
        for partition, offset in wanted:
            by_partition.setdefault(partition, []).append(offset)
        topics: dict[str, LookUpTopic] = {}
        for (name, index), offsets in by_partition.items():
            asked = [LookUpOffset(offset=offset) for offset in offsets]
            topic = topics.setdefault(name, LookUpTopic(name=name))
            topic.partitions.append(LookUpPartition(partition_index=index, offsets=asked))
        request = LookUpRequest(topics=list(topics.values()))
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await self._peers.connection(leader, _PURPOSE)
                response = await connection.request(request, LookUpResponse)
        except (PeerUnreachable, ClientError, KafkaError, TimeoutError) as error:
            logger.debug("broker %d did not say how far groups lag behind: %s", leader, error)
            return {}
        found: dict[_Question, Backlog] = {}
        for result in response.topics:
            for answer in result.partitions:
                partition = TopicPartition(result.name, answer.partition_index)
                for offset, time in zip(by_partition[partition], answer.times, strict=False):
                    found[partition, offset] = Backlog(answer.high_watermark, time.timestamp)
        return found
