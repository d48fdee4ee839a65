"""Membership of a group by the new protocol (KIP-848): one heartbeat says and hears everything.

    out --poll--> joining (epoch 0) --heartbeat--> member (epoch > 0) <--> reconciling
     ^                                                 |                       |
     +-- fenced, unknown, no poll() for too long ------+-----------------------+

The broker assigns. A heartbeat's answer may bring a new assignment; the member gives up what is
not in it, takes what is new, and its next heartbeat says what it has now. Only then does the
broker give to others what was given up, so no partition has two readers. Members that keep
theirs hear nothing of it.

Invariant: what a heartbeat leaves out is as the last one that was answered said it.
"""

import asyncio
import logging
from collections.abc import Iterable

from odradek.client.cluster import Cluster
from odradek.client.consumer.poll_gate import PollGate
from odradek.client.coordinator import Coordinator
from odradek.client.errors import ClientError, UnsupportedVersion, is_retriable
from odradek.client.group.assignment import Holdings
from odradek.client.group.offsets import GroupMetadata
from odradek.client.group.subscription import Subscription
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.types import TopicId, TopicPartition
from odradek.wording import counted

_log = logging.getLogger("odradek.client")

_OUT = -1
_JOINING = 0
_LEAVING = -1
# A static member that leaves may come back: its partitions wait for it.
_LEAVING_FOR_NOW = -2
_FENCED = {
    ErrorCode.FENCED_MEMBER_EPOCH: "the coordinator has given its partitions to others",
    ErrorCode.UNKNOWN_MEMBER_ID: "the coordinator does not know this member any more",
}
_FIRST_VERSION_WITH_OWN_IDS = 1
_FIRST_VERSION_WITH_PATTERNS = 1
_NAME_RETRY_S = 0.1

_Owned = list[tuple[TopicId, list[int]]]


class ConsumerMembership:
    """Keeps a consumer in its group; `run` is a task of the group's."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        group_id: str,
        *,
        coordinator: Coordinator,
        subscription: Subscription,
        holdings: Holdings,
        gate: PollGate,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._group_id = group_id
        self._coordinator = coordinator
        self._subscription = subscription
        self._holdings = holdings
        self._gate = gate
        self._member_id = str(cluster.randomness.uuid())
        self._epoch = _JOINING
        self._last_known_as = self.who()
        self._interval_s = settings.heartbeat_interval_ms / 1000
        self._must_say_all = False
        self._must_say_owned = False
        self._said_topics: tuple[str, ...] | None = None
        self._said_pattern: str | None = None
        self._target: _Owned = []
        self._names: dict[TopicId, str] = {}
        self._ids: dict[str, TopicId] = {}
        self._target_changed = asyncio.Event()
        self._now = asyncio.Event()
        self._fault: BaseException | None = None
        self._fault_seen = asyncio.Event()
        self._out_because = ""

    # What others ask and tell

    def who(self) -> GroupMetadata:
        return GroupMetadata(
            self._group_id,
            self._epoch if self._epoch > 0 else -1,
            self._member_id,
            self._settings.group_instance_id,
        )

    def last_known_as(self) -> GroupMetadata:
        return self._last_known_as

    def offsets_reader(self) -> GroupMetadata | None:
        return self.who() if self._epoch > 0 else None

    def subscription_changed(self) -> None:
        self._now.set()

    def metadata_changed(self) -> None:
        """The names of topics may be known now that were assigned by id."""
        if any(topic_id not in self._names for topic_id, _ in self._target):
            self._target_changed.set()

    def refused(self, code: ErrorCode, generation: int) -> None:
        if code in _FENCED and generation == self._epoch:
            self._fall_out(_FENCED[code])
        elif code == ErrorCode.STALE_MEMBER_EPOCH:
            self._now.set()

    def take_fault(self) -> BaseException | None:
        """What poll() is to raise. Being fenced is for ever; the rest is tried again."""
        fault = self._fault
        if fault is not None and not _is_final(fault):
            self._fault = None
            self._fault_seen.set()
        return fault

    # The task

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconcile(), name="odradek-reconcile")
            tasks.create_task(self._beat(), name="odradek-heartbeats")

    async def _beat(self) -> None:
        failures = self._cluster.retry.failures()
        await self._gate.next_poll()
        while True:
            if not self._subscription.is_known:
                await self._now.wait()
                self._now.clear()
                continue
            if self._epoch == _OUT:
                await self._come_back()
            if self._fault is not None:
                await self._fault_seen.wait()
            self._now.clear()
            try:
                await self._beat_once()
            except (ClientError, KafkaError) as error:
                self._must_say_all = True
                if not self._takes_in(error):
                    await failures.wait()
                continue
            failures.reset()
            await self._until_next()

    async def _until_next(self) -> None:
        """Waits for the interval, for news to tell, or for the end of the user's patience."""
        max_idle_s = self._settings.max_poll_interval_ms / 1000
        until_idle_s = max(max_idle_s - self._gate.idle_s(), 0) + 0.001
        try:
            async with asyncio.timeout(min(self._interval_s, until_idle_s)):
                await self._now.wait()
        except TimeoutError:
            pass
        if self._gate.idle_s() >= max_idle_s:
            limit = f"max.poll.interval.ms={self._settings.max_poll_interval_ms}"
            _log.warning(
                "group %s: poll() was not called for %s, so this consumer leaves the group: raise"
                " it, or lower max.poll.records so that there is less to do between polls",
                self._group_id,
                limit,
            )
            epoch = self._epoch
            self._fall_out(f"poll() was not called for {limit}")
            if epoch > 0:
                await self._say_goodbye()

    async def _beat_once(self) -> None:
        settings, topics = self._settings, self._subscription.topics
        pattern = self._subscription.broker_pattern
        is_joining = self._epoch == _JOINING
        says_all = is_joining or self._must_say_all
        says_owned = says_all or self._must_say_owned
        connection = await self._coordinator.connection()
        has_own_id = connection.supports(ConsumerGroupHeartbeatRequest, _FIRST_VERSION_WITH_OWN_IDS)
        if pattern is not None and not connection.supports(
            ConsumerGroupHeartbeatRequest, _FIRST_VERSION_WITH_PATTERNS
        ):
            raise UnsupportedVersion(
                "the broker does not compare patterns yet: subscribe with re.compile(pattern)"
            )
        owned = [] if is_joining else self._owned_by_id()
        told = list(self._holdings.owned)
        response = await self._coordinator.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self._member_id if has_own_id or not is_joining else "",
                member_epoch=self._epoch,
                instance_id=settings.group_instance_id,
                rack_id=(settings.client_rack or None) if says_all else None,
                rebalance_timeout_ms=settings.max_poll_interval_ms if says_all else -1,
                subscribed_topic_names=(
                    list(topics) if says_all or topics != self._said_topics else None
                ),
                subscribed_topic_regex=(
                    (pattern or ("" if self._said_pattern else None))
                    if says_all or pattern != self._said_pattern
                    else None
                ),
                server_assignor=settings.group_remote_assignor if says_all else None,
                topic_partitions=(
                    [
                        TopicPartitions(topic_id=topic_id, partitions=indexes)
                        for topic_id, indexes in owned
                    ]
                    if says_owned
                    else None
                ),
            ),
            ConsumerGroupHeartbeatResponse,
        )
        if response.error_code:
            error = error_for(response.error_code, response.error_message)
            self._coordinator.forget_if_moved(error)
            raise error
        self._said_topics, self._said_pattern = topics, pattern
        self._must_say_all = False
        if says_owned and (is_joining or told == self._holdings.owned):
            self._must_say_owned = False
        self._heard(response)

    def _heard(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if self._epoch == _OUT:
            # It fell out while the answer was on its way.
            return
        if response.member_id:
            self._member_id = response.member_id
        if response.member_epoch != self._epoch:
            _log.info("group %s: member epoch %d", self._group_id, response.member_epoch)
        self._epoch = response.member_epoch
        self._last_known_as = self.who()
        if response.heartbeat_interval_ms > 0:
            self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._target = [
                (topic.topic_id, list(topic.partitions))
                for topic in response.assignment.topic_partitions
            ]
            self._target_changed.set()

    def _takes_in(self, error: ClientError | KafkaError) -> bool:
        """Deals with an error; False if the same is to be tried again after a while."""
        if isinstance(error, KafkaError) and error.code in _FENCED:
            self._fall_out(_FENCED[error.code])
            return True
        if is_retriable(error):
            return False
        if isinstance(error, UnsupportedVersion) and "Heartbeat" in str(error):
            error = UnsupportedVersion(
                "the cluster does not offer the new consumer protocol: set group.protocol=classic"
            )
        self._fail(error)
        return True

    # What the broker wants

    async def _reconcile(self) -> None:
        failures = self._cluster.retry.failures()
        while True:
            await self._target_changed.wait()
            self._target_changed.clear()
            target = self._target
            if not await self._learn_names(one for one, _ in target):
                await failures.wait()
                self._target_changed.set()
                continue
            failures.reset()
            assigned = [
                TopicPartition(self._names[topic_id], index)
                for topic_id, indexes in target
                for index in indexes
            ]
            await self._gate.run(lambda: self._change_to(target, assigned))  # noqa: B023
            self._must_say_owned = True
            self._now.set()

    async def _change_to(self, target: _Owned, assigned: list[TopicPartition]) -> None:
        if self._target is not target or self._epoch <= 0:
            return
        holdings = self._holdings
        before, now = set(holdings.owned), set(assigned)
        try:
            await holdings.revoke(
                [partition for partition in holdings.owned if partition not in now]
            )
        finally:
            await holdings.gain(
                assigned, [partition for partition in assigned if partition not in before]
            )

    async def _learn_names(self, topic_ids: Iterable[TopicId]) -> bool:
        """Whether every topic that was assigned by id is known by name."""
        view = self._cluster.view
        missing: list[TopicId] = []
        for topic_id in topic_ids:
            name = view.names.get(topic_id) or self._names.get(topic_id)
            if name is None:
                missing.append(topic_id)
            else:
                self._names[topic_id], self._ids[name] = name, topic_id
        if not missing:
            return True
        try:
            connection = await self._cluster.any_connection()
            response = await connection.request(
                MetadataRequest(
                    topics=[MetadataRequestTopic(topic_id=one, name=None) for one in missing],
                    allow_auto_topic_creation=False,
                ),
                MetadataResponse,
            )
        except (ClientError, KafkaError) as error:
            if not is_retriable(error):
                self._fail(error)
            return False
        for topic in response.topics:
            if topic.name and not topic.error_code:
                self._names[topic.topic_id], self._ids[topic.name] = topic.name, topic.topic_id
        return all(one in self._names for one in missing)

    def _owned_by_id(self) -> _Owned:
        by_id: dict[TopicId, list[int]] = {}
        for topic, index in self._holdings.owned:
            by_id.setdefault(self._ids[topic], []).append(index)
        return list(by_id.items())

    # Falling out and coming back

    def _fall_out(self, reason: str) -> None:
        """What we had may be read by others already."""
        self._epoch = _OUT
        self._out_because = reason
        self._target = []
        self._now.set()

    async def _come_back(self) -> None:
        await self._gate.next_poll()
        if self._holdings.owned:
            _log.warning(
                "group %s: %s lost, for %s; joining again",
                self._group_id,
                counted(len(self._holdings.owned), "partition was", "partitions were"),
                self._out_because,
            )
            await self._gate.run(lambda: self._holdings.lose(self._holdings.owned))
        self._epoch = _JOINING

    def _fail(self, error: BaseException) -> None:
        """The next poll() raises it."""
        if isinstance(error, KafkaError) and error.code == ErrorCode.FENCED_INSTANCE_ID:
            error = error_for(
                error.code,
                f"Another consumer of group {self._group_id} runs as group.instance.id="
                f"{self._settings.group_instance_id}: give each its own, and close this one.",
            )
            self._epoch = _OUT
        self._fault = error
        self._fault_seen.clear()
        self._gate.wake()

    async def leave(self, reason: str) -> None:
        """Goes at once; a static member keeps its place for a while."""
        epoch, self._epoch = self._epoch, _OUT
        self._target = []
        _log.info("group %s: leaving: %s", self._group_id, reason)
        if epoch > 0:
            await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        instance = self._settings.group_instance_id
        try:
            await self._coordinator.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group_id,
                    member_id=self._member_id,
                    instance_id=instance,
                    member_epoch=_LEAVING if instance is None else _LEAVING_FOR_NOW,
                ),
                ConsumerGroupHeartbeatResponse,
            )
        except (ClientError, KafkaError) as error:
            _log.info("group %s: could not say goodbye: %s", self._group_id, error)


def _is_final(error: BaseException) -> bool:
    return isinstance(error, KafkaError) and error.code == ErrorCode.FENCED_INSTANCE_ID
