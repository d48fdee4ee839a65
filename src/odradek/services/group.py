"""Membership of a service's instance in a group of Kafka's, in which the instances agree.

    out --JoinGroup--> joined --SyncGroup--> member --Heartbeat--> member
     ^                                         |
     +---- rebalance, or not a member any more +

Each instance says something of itself. The member that Kafka makes the leader of the group is given
what all of them say, and answers for each of them. What is said and answered is the subclass's: the
registry elects its primary so, and workers of Connect share their tasks.

A member that was killed would count for the session time-out. So whoever finds that nothing listens
at the address of another instance removes that member (`remove`), and an instance that starts
removes members with its own address, which it is listening at itself.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from odradek.client.cluster import Cluster
from odradek.client.coordinator import Coordinator
from odradek.client.coordinator_lookup import KeyType
from odradek.client.errors import ClientError
from odradek.protocol.errors import ErrorCode, KafkaError, error_for, raise_for
from odradek.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
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

_log = logging.getLogger("odradek.services")

HEARTBEAT_S: Final = 1.0
_RETRY_S: Final = 0.5
_MORE_MS: Final = 5_000
_JOIN: Final = "join"


class GroupMember(ABC):
    protocol_type: str
    protocol: str
    group_setting: str
    """The setting that names the group, for what is said of a group of another kind."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 10_000,
    ) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.failure: str | None = None
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._coordinator = Coordinator(cluster, KeyType.GROUP, group_id)
        self._rejoin = asyncio.Event()

    # What subclasses say

    @abstractmethod
    def metadata(self) -> bytes:
        """Returns what this instance says of itself."""

    @abstractmethod
    def is_former_self(self, metadata: bytes) -> bool:
        """Returns whether a member with this metadata is this instance, before it was killed."""

    @abstractmethod
    async def decide(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Returns the answer for each member; called in the member that leads the group."""

    @abstractmethod
    def note_decision(self, decision: bytes, *, leads: bool) -> None:
        """Is given the answer for this member."""

    @abstractmethod
    def note_out(self) -> None:
        """Is called when this instance is not a member any more, or may not be."""

    # Membership

    async def run(self) -> None:
        """Keeps the instance in the group until it is cancelled; then it leaves."""
        try:
            await self._retry(self._remove_former_self)
            while True:
                await self._retry(self._join)
                await self._beat()
        finally:
            await asyncio.shield(self._leave())

    def rejoin(self) -> None:
        """Makes the group decide again."""
        self._rejoin.set()

    async def remove(self, member_id: str) -> None:
        """Removes a member that is dead for certain, so that nobody waits for it."""
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, group_instance_id=None)],
        )
        response = await self._coordinator.ask(request, LeaveGroupResponse)
        if response.error_code:
            _log.info("member %s was not removed: %s", member_id, response.error_code)

    async def _retry(self, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await call()
            except (ClientError, KafkaError, OSError) as error:
                if str(error) != self.failure:
                    _log.warning("the group %s: %s", self.group_id, error)
                self.failure = str(error)
                self._coordinator.forget()
                await asyncio.sleep(_RETRY_S)
            else:
                self.failure = None
                return

    async def _remove_former_self(self) -> None:
        response = await self._coordinator.ask(
            DescribeGroupsRequest(groups=[self.group_id]), DescribeGroupsResponse
        )
        for group in response.groups:
            if group.error_code and group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise_for(group.error_code)
            if group.protocol_type not in {"", self.protocol_type}:
                raise error_for(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"{self.group_id} is a group of type {group.protocol_type}: choose another"
                    f" {self.group_setting}",
                )
            for member in group.members:
                if self.is_former_self(bytes(member.member_metadata)):
                    await self.remove(member.member_id)

    async def _join(self) -> None:
        self._rejoin.clear()
        response = await self._coordinator.ask(
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=self._rebalance_timeout_ms,
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type=self.protocol_type,
                protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=self.metadata())],
            ),
            JoinGroupResponse,
            timeout_ms=self._rebalance_timeout_ms + _MORE_MS,
            purpose=_JOIN,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            await self._join()
            return
        if response.error_code:
            self._forget_membership(response.error_code)
            raise error_for(response.error_code, self.refusal(response.error_code))
        self.member_id = response.member_id
        self.generation = response.generation_id
        await self._sync(response)

    def refusal(self, code: int) -> str | None:
        """Returns more words for a refusal to join; subclasses may have some."""
        return None

    async def _sync(self, joined: JoinGroupResponse) -> None:
        assignments = []
        leads = joined.leader == joined.member_id
        if leads:
            members = {member.member_id: bytes(member.metadata) for member in joined.members}
            assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=answer)
                for member_id, answer in (await self.decide(members)).items()
            ]
        response = await self._coordinator.ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type=self.protocol_type,
                protocol_name=self.protocol,
                assignments=assignments,
            ),
            SyncGroupResponse,
            timeout_ms=self._rebalance_timeout_ms + _MORE_MS,
            purpose=_JOIN,
        )
        if response.error_code:
            self._forget_membership(response.error_code)
            raise_for(response.error_code)
        self.note_decision(bytes(response.assignment), leads=leads)

    async def _beat(self) -> None:
        """Returns when the group has to be joined again."""
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while not self._rejoin.is_set():
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._rejoin.wait()
            except TimeoutError:
                pass
            try:
                code = await self._heartbeat()
            except (ClientError, KafkaError) as error:
                self.failure = str(error)
                if loop.time() - last_s > self._session_timeout_ms / 1000:
                    # The coordinator counts this member as gone; the others may have decided.
                    self.note_out()
                    return
                continue
            self.failure = None
            last_s = loop.time()
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if code:
                self._forget_membership(code)
                return

    async def _heartbeat(self) -> int:
        response = await self._coordinator.ask(
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
            ),
            HeartbeatResponse,
        )
        code = response.error_code
        if code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self._coordinator.forget()
            raise error_for(code)
        return code

    def _forget_membership(self, code: int) -> None:
        if code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            self._coordinator.forget()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            self.note_out()

    async def _leave(self) -> None:
        if self.member_id:
            try:
                async with asyncio.timeout(1):
                    await self.remove(self.member_id)
            except (ClientError, KafkaError, OSError, TimeoutError) as error:
                _log.info("the group %s was not left: %s", self.group_id, error)
        await self._coordinator.close()
