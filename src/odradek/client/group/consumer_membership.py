"""Membership of a group with the new protocol (KIP-848), in which heartbeats do everything.

    out --poll--> joining (epoch 0) --heartbeat--> member (epoch > 0) <--> reconciling
     ^                                                 |                       |
     +-- fenced, unknown, no poll() for too long ------+-----------------------+

The broker assigns. The answer to a heartbeat may bring a new assignment: the member gives up the
partitions that are not in it, takes the new ones, and reports what it owns in its next heartbeat.
Only then does the broker assign to others what was given up, so no partition has two readers.
Members whose partitions stay are not affected.

Invariant: a field that a heartbeat leaves out is unchanged since the last heartbeat that was
answered.
"""

import asyncio
import logging
from collections.abc import Iterable

from odradek.client.cluster import Cluster
from odradek.client.consumer.poll_gate import PollGate
from odradek.client.coordinator import Coordinator
from odradek.client.errors import ClientError, UnsupportedVersion, is_retriable
from odradek.client.group.assignment import Ownership
from odradek.client.group.member_fault import MemberFault
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
    """Keeps a consumer in its group; `Group` runs `run` as a task."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        group_id: str,
        *,
        coordinator: Coordinator,
        subscription: Subscription,
        ownership: Ownership,
        gate: PollGate,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._group_id = group_id
        self._coordinator = coordinator
        self._subscription = subscription
        self._ownership = ownership
        self._gate = gate
        self._member_id = str(cluster.randomness.uuid())
        self._epoch = _JOINING
        self._last_known_as = self.who()
        self._interval_s = settings.heartbeat_interval_ms / 1000
        self._must_report_all = False
        self._must_report_owned = False
        self._reported_topics: tuple[str, ...] | None = None
        self._reported_pattern: str | None = None
        self._target: _Owned = []
        self._names: dict[TopicId, str] = {}
        self._ids: dict[str, TopicId] = {}
        self._target_changed = asyncio.Event()
        self._now = asyncio.Event()
        self._fault = MemberFault(group_id, settings.group_instance_id)
        self._out_because = ""

    # Called by the group

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
        """Wakes the reconciliation if it waits for names of topics that were assigned by id."""
        if any(topic_id not in self._names for topic_id, _ in self._target):
            self._target_changed.set()

    def handle_error(self, code: ErrorCode, generation: int) -> None:
        if code in _FENCED and generation == self._epoch:
            self._leave_generation(_FENCED[code])
        elif code == ErrorCode.STALE_MEMBER_EPOCH:
            self._now.set()

    def take_fault(self) -> BaseException | None:
        return self._fault.take()

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
                await self._join_again()
            await self._fault.wait_until_taken()
            self._now.clear()
            try:
                await self._beat_once()
            except (ClientError, KafkaError) as error:
                self._must_report_all = True
                if not self._is_handled(error):
                    await failures.wait()
                continue
            failures.reset()
            await self._until_next()

    async def _until_next(self) -> None:
        """Waits until the next heartbeat is due.

        That is after the interval, when there is something to report, or when the program has not
        polled for `max.poll.interval.ms`.
        """
        try:
            async with asyncio.timeout(min(self._interval_s, self._gate.until_overdue_s())):
                await self._now.wait()
        except TimeoutError:
            pass
        if self._gate.is_overdue():
            limit = f"max.poll.interval.ms={self._settings.max_poll_interval_ms}"
            _log.warning(
                "group %s: poll() was not called for %s, so this consumer leaves the group: raise"
                " it, or lower max.poll.records so that there is less to do between polls",
                self._group_id,
                limit,
            )
            epoch = self._epoch
            self._leave_generation(f"poll() was not called for {limit}")
            if epoch > 0:
                await self._send_leave()

    async def _beat_once(self) -> None:
        settings, topics = self._settings, self._subscription.topics
        pattern = self._subscription.broker_pattern
        is_joining = self._epoch == _JOINING
        reports_all = is_joining or self._must_report_all
        reports_owned = reports_all or self._must_report_owned
        connection = await self._coordinator.connection()
        has_own_id = connection.supports(ConsumerGroupHeartbeatRequest, _FIRST_VERSION_WITH_OWN_IDS)
        if pattern is not None and not connection.supports(
            ConsumerGroupHeartbeatRequest, _FIRST_VERSION_WITH_PATTERNS
        ):
            raise UnsupportedVersion(
                "the broker does not compare patterns yet: subscribe with re.compile(pattern)"
            )
        owned = [] if is_joining else self._owned_by_id()
        reported = list(self._ownership.owned)
        response = await self._coordinator.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self._member_id if has_own_id or not is_joining else "",
                member_epoch=self._epoch,
                instance_id=settings.group_instance_id,
                rack_id=(settings.client_rack or None) if reports_all else None,
                rebalance_timeout_ms=settings.max_poll_interval_ms if reports_all else -1,
                subscribed_topic_names=(
                    list(topics) if reports_all or topics != self._reported_topics else None
                ),
                subscribed_topic_regex=(
                    (pattern or ("" if self._reported_pattern else None))
                    if reports_all or pattern != self._reported_pattern
                    else None
                ),
                server_assignor=settings.group_remote_assignor if reports_all else None,
                topic_partitions=(
                    [
                        TopicPartitions(topic_id=topic_id, partitions=indexes)
                        for topic_id, indexes in owned
                    ]
                    if reports_owned
                    else None
                ),
            ),
            ConsumerGroupHeartbeatResponse,
        )
        if response.error_code:
            error = error_for(response.error_code, response.error_message)
            self._coordinator.forget_if_moved(error)
            raise error
        self._reported_topics, self._reported_pattern = topics, pattern
        self._must_report_all = False
        if reports_owned and (is_joining or reported == self._ownership.owned):
            self._must_report_owned = False
        self._handle_response(response)

    def _handle_response(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if self._epoch == _OUT:
            # The member left the group before the response came.
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

    def _is_handled(self, error: ClientError | KafkaError) -> bool:
        """Handles an error; returns False if the heartbeat is to be sent again after a back-off."""
        if isinstance(error, KafkaError) and error.code in _FENCED:
            self._leave_generation(_FENCED[error.code])
            return True
        if is_retriable(error):
            return False
        if isinstance(error, UnsupportedVersion) and "Heartbeat" in str(error):
            error = UnsupportedVersion(
                "the cluster does not offer the new consumer protocol: set group.protocol=classic"
            )
        self._fail(error)
        return True

    # The assignment of the broker

    async def _reconcile(self) -> None:
        failures = self._cluster.retry.failures()
        while True:
            await self._target_changed.wait()
            self._target_changed.clear()
            target = self._target
            if not await self._learn_names(topic_id for topic_id, _ in target):
                await failures.wait()
                self._target_changed.set()
                continue
            failures.reset()
            begun_s = asyncio.get_running_loop().time()
            assigned = [
                TopicPartition(self._names[topic_id], index)
                for topic_id, indexes in target
                for index in indexes
            ]
            await self._gate.run(lambda: self._change_to(target, assigned))  # noqa: B023
            now_s = asyncio.get_running_loop().time()
            self._ownership.rebalances.add(now_s - begun_s, now_s)
            self._must_report_owned = True
            self._now.set()

    async def _change_to(self, target: _Owned, assigned: list[TopicPartition]) -> None:
        if self._target is not target or self._epoch <= 0:
            return
        ownership = self._ownership
        before, now = set(ownership.owned), set(assigned)
        try:
            await ownership.revoke(
                [partition for partition in ownership.owned if partition not in now]
            )
        finally:
            await ownership.gain(
                assigned, [partition for partition in assigned if partition not in before]
            )

    async def _learn_names(self, topic_ids: Iterable[TopicId]) -> bool:
        """Looks up names of topics; returns whether each of these ids has a name now."""
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
                    topics=[
                        MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in missing
                    ],
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
        return all(topic_id in self._names for topic_id in missing)

    def _owned_by_id(self) -> _Owned:
        by_id: dict[TopicId, list[int]] = {}
        for topic, index in self._ownership.owned:
            by_id.setdefault(self._ids[topic], []).append(index)
        return list(by_id.items())

    # Leaving and joining again

    def _leave_generation(self, reason: str) -> None:
        """The consumer is no longer a member; other members may read its partitions already."""
        self._epoch = _OUT
        self._out_because = reason
        self._target = []
        self._now.set()

    async def _join_again(self) -> None:
        await self._gate.next_poll()
        if self._ownership.owned:
            _log.warning(
                "group %s: %s lost, for %s; joining again",
                self._group_id,
                counted(len(self._ownership.owned), "partition was", "partitions were"),
                self._out_because,
            )
            await self._gate.run(lambda: self._ownership.lose(self._ownership.owned))
        self._epoch = _JOINING

    def _fail(self, error: BaseException) -> None:
        """Makes the next poll() raise the error."""
        self._fault.record(error)
        if self._fault.is_final:
            self._epoch = _OUT
        self._gate.wake()

    async def leave(self, reason: str) -> None:
        """Leaves the group at once; the coordinator keeps the place of a static member."""
        epoch, self._epoch = self._epoch, _OUT
        self._target = []
        _log.info("group %s: leaving: %s", self._group_id, reason)
        if epoch > 0:
            await self._send_leave()

    async def _send_leave(self) -> None:
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
            _log.info("group %s: the last heartbeat failed: %s", self._group_id, error)
