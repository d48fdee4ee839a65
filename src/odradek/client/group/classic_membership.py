"""Membership of a group with the classic protocol: join, sync, heartbeats, leave.

    out --poll--> joining --JoinGroup--> syncing --SyncGroup--> stable --+
     ^               ^  ^                   |                     |      |
     |               |  +-- rebalance, wrong generation ----------+      | heartbeats
     |               +-- member unknown: partitions lost ---------+      | from the join on
     +-- no poll() for max.poll.interval.ms, unsubscribe, close --+------+

Eager members give up all partitions before they join. Cooperative members keep theirs, give up what
the new assignment takes away, and join again. Listeners are called in poll(), through `poll_gate`;
heartbeats go on meanwhile.

Invariant: `generation >= 0` only while the last answer of the coordinator counted this consumer as
a member of that generation.
"""

import asyncio
import copy
import logging

from odradek.client.cluster import Cluster
from odradek.client.consumer.poll_gate import PollGate
from odradek.client.coordinator import Coordinator
from odradek.client.errors import ClientError, is_retriable
from odradek.client.group.assignment import Ownership
from odradek.client.group.assignors import Assignor, Remembering
from odradek.client.group.leader import GroupLeader, by_topic
from odradek.client.group.member_fault import MemberFault
from odradek.client.group.offsets import GroupMetadata
from odradek.client.group.subscription import Subscription
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, KafkaError, error_for, raise_for
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
    encode_versioned,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

_log = logging.getLogger("odradek.client")

_PROTOCOL_TYPE = "consumer"
_SUBSCRIPTION_VERSION = 3
# The coordinator answers a join when all members have joined, at most max.poll.interval.ms later;
# this much more is allowed for the answer.
_JOIN_MARGIN_MS = 5_000
# A connection of its own: answers come in order, and the answer to a join may take long.
_JOIN = "join"
_DROPPED = {
    ErrorCode.UNKNOWN_MEMBER_ID: "the coordinator does not know this member any more",
    ErrorCode.ILLEGAL_GENERATION: "the group has gone on without this member",
}


class ClassicMembership:
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
        self._coordinator = coordinator
        self._subscription = subscription
        self._ownership = ownership
        self._gate = gate
        self._group_id = group_id
        # Settings may be shared by consumers, and some assignors have state.
        self._assignors: list[Assignor] = [copy.copy(assignor) for assignor in settings.assignors]
        self._is_cooperative = all(assignor.is_cooperative for assignor in self._assignors)
        self._member_id = ""
        self._generation = -1
        self._last_known_as = GroupMetadata(group_id, group_instance_id=settings.group_instance_id)
        self._is_stable = False
        self._dropped_because: str | None = None
        self._rejoin = asyncio.Event()
        self._rejoin_reason = "the consumer is new"
        self._beating = asyncio.Event()
        self._fault = MemberFault(group_id, settings.group_instance_id)
        self._leader = GroupLeader(cluster, subscription)

    # Called by the group

    def who(self) -> GroupMetadata:
        return GroupMetadata(
            self._group_id, self._generation, self._member_id, self._settings.group_instance_id
        )

    def last_known_as(self) -> GroupMetadata:
        return self._last_known_as

    def offsets_reader(self) -> GroupMetadata | None:
        """Returns None: in the classic protocol committed offsets are read without an identity."""
        return None

    def request_rejoin(self, reason: str) -> None:
        """Makes the task join the group again, for the next generation."""
        if not self._rejoin.is_set():
            _log.info("group %s: rejoining: %s", self._group_id, reason)
            self._rejoin_reason = reason
            self._rejoin.set()

    def subscription_changed(self) -> None:
        self.request_rejoin("the subscription changed")

    def metadata_changed(self) -> None:
        """Rejoins to assign again if this member leads and the partitions of the topics changed."""
        if self._is_stable and self._leader.is_outdated:
            self.request_rejoin("the topics of the group have changed")

    def handle_error(self, code: ErrorCode, generation: int) -> None:
        """Rejoins or fails after the coordinator refused a request of this generation."""
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if generation == self._generation:
                self.request_rejoin("the group is rebalancing")
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self._fail(error_for(code))
        elif code in _DROPPED and generation == self._generation:
            self._drop_out(_DROPPED[code])

    def take_fault(self) -> BaseException | None:
        return self._fault.take()

    # The task

    async def run(self) -> None:
        beats = asyncio.get_running_loop().create_task(self._beat(), name="odradek-heartbeats")
        try:
            self._rejoin.set()
            await self._gate.next_poll()
            while True:
                await self._rejoin.wait()
                if self._generation < 0:
                    # Not a member, perhaps because the program did not poll: it must, first.
                    await self._gate.next_poll()
                await self._rebalance()
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)

    async def _rebalance(self) -> None:
        failures, is_prepared = self._cluster.retry.failures(), False
        begun_s = asyncio.get_running_loop().time()
        while True:
            self._rejoin.clear()
            if not is_prepared:
                await self._prepare()
                is_prepared = True
            try:
                joined = await self._join()
                assignment = await self._synchronise(joined)
            except (ClientError, KafkaError) as error:
                if self._must_prepare_after(error):
                    is_prepared = False
                elif isinstance(error, KafkaError) and error.code in _AT_ONCE:
                    failures.reset()
                elif is_retriable(error):
                    _log.info("group %s: joining again: %s", self._group_id, error)
                    await failures.wait()
                else:
                    self._fail(error)
                    await self._fault.wait_until_taken()
                continue
            await self._complete(joined, assignment)
            now_s = asyncio.get_running_loop().time()
            self._ownership.rebalances.add(now_s - begun_s, now_s)
            return

    def _must_prepare_after(self, error: BaseException) -> bool:
        """Handles a refused join or sync; returns whether to join again as a new member."""
        self._coordinator.forget_if_moved(error)
        if isinstance(error, KafkaError) and error.code in _DROPPED:
            self._drop_out(_DROPPED[error.code])
            return True
        return False

    async def _prepare(self) -> None:
        """Gives up partitions before a join: all of them if the member is eager."""
        if not self._ownership.owned:
            self._dropped_because = None
            return

        async def work() -> None:
            ownership = self._ownership
            reason, self._dropped_because = self._dropped_because, None
            if reason is not None:
                _log.warning(
                    "group %s: %s lost, for %s; joining again",
                    self._group_id,
                    counted(len(ownership.owned), "partition was", "partitions were"),
                    reason,
                )
                await ownership.lose(ownership.owned)
            elif self._is_cooperative:
                subscribed_topics = set(self._subscription.topics)
                await ownership.revoke(
                    [
                        partition
                        for partition in ownership.owned
                        if partition.topic not in subscribed_topics
                    ]
                )
            else:
                await ownership.revoke(ownership.owned)

        if self._is_cooperative and self._dropped_because is None:
            subscribed_topics = set(self._subscription.topics)
            if all(partition.topic in subscribed_topics for partition in self._ownership.owned):
                return
        await self._gate.run(work)

    async def _join(self) -> JoinGroupResponse:
        settings = self._settings
        self._beating.clear()
        self._is_stable = False
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=assignor.name, metadata=self._subscription_metadata(assignor)
                )
                for assignor in self._assignors
            ],
            reason=self._rejoin_reason,
        )
        response = await self._coordinator.ask(
            request,
            JoinGroupResponse,
            timeout_ms=max(
                settings.request_timeout_ms, settings.max_poll_interval_ms + _JOIN_MARGIN_MS
            ),
            purpose=_JOIN,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        raise_for(response.error_code)
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._last_known_as = self.who()
        self._beating.set()
        return response

    def _subscription_metadata(self, assignor: Assignor) -> bytes:
        """Returns the metadata that the leader's assignor gets of this member."""
        owned = self._ownership.owned if self._is_cooperative else []
        return encode_versioned(
            ConsumerProtocolSubscription(
                topics=list(self._subscription.topics),
                user_data=assignor.user_data() if isinstance(assignor, Remembering) else None,
                owned_partitions=by_topic(owned),
                generation_id=self._generation if owned else -1,
                rack_id=self._settings.client_rack or None,
            ),
            _SUBSCRIPTION_VERSION,
        )

    async def _synchronise(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        shares: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            shares = await self._leader.assign(joined, self._assignor(joined))
        else:
            self._leader.resign()
        response = await self._coordinator.ask(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._settings.group_instance_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=shares,
            ),
            SyncGroupResponse,
            timeout_ms=max(
                self._settings.request_timeout_ms,
                self._settings.max_poll_interval_ms + _JOIN_MARGIN_MS,
            ),
            purpose=_JOIN,
        )
        raise_for(response.error_code)
        if not response.assignment:
            return []
        told = decode_versioned(ConsumerProtocolAssignment, response.assignment)
        return [
            TopicPartition(topic.topic, index)
            for topic in told.assigned_partitions
            for index in topic.partitions
        ]

    def _assignor(self, joined: JoinGroupResponse) -> Assignor:
        for assignor in self._assignors:
            if assignor.name == joined.protocol_name:
                return assignor
        raise error_for(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The coordinator chose {joined.protocol_name!r}, which this member does not offer.",
        )

    # The new assignment

    async def _complete(self, joined: JoinGroupResponse, assigned: list[TopicPartition]) -> None:
        generation = joined.generation_id
        assignor = self._assignor(joined)

        async def work() -> None:
            if self._generation != generation:
                return
            if isinstance(assignor, Remembering):
                assignor.assigned(assigned, generation)
            ownership = self._ownership
            before, now = set(ownership.owned), set(assigned)
            revoked = [partition for partition in ownership.owned if partition not in now]
            self._is_stable = True
            try:
                if revoked:
                    # These go to other members in the next rebalance.
                    self.request_rejoin(
                        f"{counted(len(revoked), 'partition was', 'partitions were')} given up"
                    )
                    await ownership.revoke(revoked)
            finally:
                await ownership.gain(
                    assigned, [partition for partition in assigned if partition not in before]
                )

        _log.info(
            "group %s: generation %d, %s",
            self._group_id,
            generation,
            counted(len(assigned), "partition"),
        )
        await self._gate.run(work)
        self.metadata_changed()
        subscribed_topics = set(self._subscription.topics)
        if self._generation == generation and any(
            partition.topic not in subscribed_topics for partition in assigned
        ):
            self.request_rejoin("the subscription changed while joining")

    def _drop_out(self, reason: str) -> None:
        """Starts to rejoin without partitions: other members may read them already."""
        self._generation = -1
        self._member_id = ""
        self._is_stable = False
        self._beating.clear()
        self._dropped_because = reason
        self._rejoin_reason = reason
        self._rejoin.set()

    def _fail(self, error: BaseException) -> None:
        """Makes the next poll() raise the error."""
        self._fault.record(error)
        if self._fault.is_final:
            self._generation = -1
            self._is_stable = False
            self._beating.clear()
        self._gate.wake()

    # Heartbeats

    async def _beat(self) -> None:
        failures = self._cluster.retry.failures()
        interval_s = self._settings.heartbeat_interval_ms / 1000
        wait_s = interval_s
        while True:
            await self._beating.wait()
            await asyncio.sleep(min(wait_s, self._gate.until_overdue_s()))
            if not self._beating.is_set():
                continue
            if self._gate.is_overdue():
                await self._stop_for_want_of_polls()
                continue
            try:
                await self._beat_once()
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    self._fail(error)
                wait_s = failures.add()
            else:
                failures.reset()
                wait_s = interval_s

    async def _beat_once(self) -> None:
        generation = self._generation
        response = await self._coordinator.ask(
            HeartbeatRequest(
                group_id=self._group_id,
                generation_id=generation,
                member_id=self._member_id,
                group_instance_id=self._settings.group_instance_id,
            ),
            HeartbeatResponse,
            timeout_ms=min(self._settings.request_timeout_ms, self._settings.session_timeout_ms),
        )
        if not response.error_code:
            return
        error = error_for(response.error_code)
        self._coordinator.forget_if_moved(error)
        if error.code in _OF_MEMBERS:
            # While a sync is under way, its answer says whether to rebalance.
            if self._is_stable or error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.handle_error(error.code, generation)
            return
        raise error

    async def _stop_for_want_of_polls(self) -> None:
        limit = f"max.poll.interval.ms={self._settings.max_poll_interval_ms}"
        _log.warning(
            "group %s: poll() was not called for %s, so this consumer leaves the group: raise it,"
            " or lower max.poll.records so that there is less to do between polls",
            self._group_id,
            limit,
        )
        who = self.who()
        self._drop_out(f"poll() was not called for {limit}")
        await self._leave(who, "poll() was not called in time")

    # The end

    async def leave(self, reason: str) -> None:
        """Leaves the group at once; a static member stays, because it may come back."""
        who = self.who()
        self._generation, self._member_id = -1, ""
        self._is_stable = False
        self._beating.clear()
        self._leader.resign()
        await self._leave(who, reason)

    async def _leave(self, who: GroupMetadata, reason: str) -> None:
        if not who.member_id or who.group_instance_id is not None:
            return
        try:
            await self._coordinator.ask(
                LeaveGroupRequest(
                    group_id=self._group_id,
                    member_id=who.member_id,
                    members=[MemberIdentity(member_id=who.member_id, reason=reason)],
                ),
                LeaveGroupResponse,
            )
        except (ClientError, KafkaError) as error:
            _log.info(
                "group %s: LeaveGroup failed: %s",
                self._group_id,
                error,
            )


_AT_ONCE = {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS}
_OF_MEMBERS = {*_DROPPED, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID}
