"""Admin calls about groups: listing, describing and deleting them, and removing members."""

import asyncio
from collections.abc import Iterable
from typing import Final

from odradek.client import arguments
from odradek.client.admin.coordinators import CoordinatorChannel
from odradek.client.admin.group_types import (
    CLASSIC,
    CONSUMER,
    CONSUMER_PROTOCOL,
    GroupDescription,
    GroupListing,
    GroupMember,
    MemberToRemove,
)
from odradek.client.admin.results import Results
from odradek.client.cluster_view import Broker
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage, error_for, raise_for
from odradek.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from odradek.protocol.messages.consumer_group_describe import DescribedGroup as DescribedNewGroup
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    decode_versioned,
)
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.types import TopicPartition

_FIRST_VERSION_WITH_STATES: Final = ListGroupsRequest.first_version_with("states_filter")
_FIRST_VERSION_WITH_TYPES: Final = ListGroupsRequest.first_version_with("types_filter")
_FIRST_VERSION_WITH_MEMBERS: Final = LeaveGroupRequest.first_version_with("members")


class GroupCalls(CoordinatorChannel):
    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """Returns the groups of all brokers, or those in these states and of these types."""
        request = ListGroupsRequest(
            states_filter=arguments.names(states, "list_groups()", "states"),
            types_filter=arguments.names(types, "list_groups()", "types"),
        )
        await self.describe_metadata([])
        brokers = list(self.cluster.view.brokers.values())
        lists = await asyncio.gather(*(self._list_groups(broker, request) for broker in brokers))
        return [listing for listings in lists for listing in listings]

    async def _list_groups(self, broker: Broker, request: ListGroupsRequest) -> list[GroupListing]:
        async def ask(connection: Connection) -> ListGroupsResponse:
            if request.types_filter and not connection.supports(
                ListGroupsRequest, _FIRST_VERSION_WITH_TYPES
            ):
                raise error_for(
                    ErrorCode.UNSUPPORTED_VERSION, f"{broker.host} cannot list groups by type."
                )
            if request.states_filter and not connection.supports(
                ListGroupsRequest, _FIRST_VERSION_WITH_STATES
            ):
                raise error_for(
                    ErrorCode.UNSUPPORTED_VERSION, f"{broker.host} cannot list groups by state."
                )
            response = await connection.request(request, ListGroupsResponse)
            raise_for(response.error_code)
            return response

        response = await self.ask_broker(broker.id, ask)
        return [
            GroupListing(
                listed.group_id,
                listed.protocol_type,
                listed.group_state,
                listed.group_type.capitalize(),
                broker,
            )
            for listed in response.groups
        ]

    async def describe_groups(
        self, group_ids: Iterable[str]
    ) -> Results[str, GroupDescription | KafkaError]:
        """Returns state, members and assignments of groups of both protocols.

        A group that does not exist has the error GROUP_ID_NOT_FOUND.
        """

        async def ask(
            connection: Connection, ids: list[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            answers: dict[str, GroupDescription | KafkaError] = {}
            if connection.supports(ConsumerGroupDescribeRequest):
                answers = await self._describe_new(connection, ids)
            classic = [group_id for group_id in ids if _may_be_classic(answers.get(group_id))]
            if classic:
                answers |= await self._describe_classic(connection, classic)
            return answers

        call = "describe_groups()"
        asked = arguments.names(group_ids, call, "groups")
        return Results(call, await self.ask_coordinators(KeyType.GROUP, asked, ask))

    async def _describe_new(
        self, connection: Connection, group_ids: list[str]
    ) -> dict[str, GroupDescription | KafkaError]:
        response = await connection.request(
            ConsumerGroupDescribeRequest(group_ids=group_ids), ConsumerGroupDescribeResponse
        )
        return {
            group.group_id: error_for(group.error_code, group.error_message)
            if group.error_code
            else self._new_group(group)
            for group in response.groups
        }

    def _new_group(self, group: DescribedNewGroup) -> GroupDescription:
        return GroupDescription(
            group_id=group.group_id,
            type=CONSUMER,
            protocol_type=CONSUMER_PROTOCOL,
            state=group.group_state,
            assignor=group.assignor_name,
            coordinator=self.known_coordinator(KeyType.GROUP, group.group_id),
            members=tuple(_new_member(member) for member in group.members),
            group_epoch=group.group_epoch,
            target_assignment_epoch=group.assignment_epoch,
        )

    async def _describe_classic(
        self, connection: Connection, group_ids: list[str]
    ) -> dict[str, GroupDescription | KafkaError]:
        response = await connection.request(
            DescribeGroupsRequest(groups=group_ids), DescribeGroupsResponse
        )
        answers: dict[str, GroupDescription | KafkaError] = {}
        for group in response.groups:
            code = group.error_code
            if not code and group.group_state == "Dead":
                code = ErrorCode.GROUP_ID_NOT_FOUND
            answers[group.group_id] = (
                error_for(code, group.error_message) if code else self._classic_group(group)
            )
        return answers

    def _classic_group(self, group: DescribedGroup) -> GroupDescription:
        return GroupDescription(
            group_id=group.group_id,
            type=CLASSIC,
            protocol_type=group.protocol_type,
            state=group.group_state,
            assignor=group.protocol_data,
            coordinator=self.known_coordinator(KeyType.GROUP, group.group_id),
            members=tuple(_classic_member(group, member) for member in group.members),
        )

    async def delete_groups(self, group_ids: Iterable[str]) -> Results[str, bool | KafkaError]:
        """Deletes groups without members, and their offsets. True means that a group is deleted."""

        async def ask(connection: Connection, ids: list[str]) -> dict[str, bool | KafkaError]:
            response = await connection.request(
                DeleteGroupsRequest(groups_names=ids), DeleteGroupsResponse
            )
            return {
                result.group_id: error_for(result.error_code) if result.error_code else True
                for result in response.results
            }

        call = "delete_groups()"
        asked = arguments.names(group_ids, call, "groups")
        return Results(call, await self.ask_coordinators(KeyType.GROUP, asked, ask))

    async def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str = "removed by an administrator",
    ) -> Results[MemberToRemove, bool | KafkaError]:
        """Removes members from a group, all of them if none are named."""
        call = "remove_members()"
        arguments.a_name(group_id, call, "group")
        if members is None:
            described = (await self.describe_groups([group_id]))[group_id]
            if isinstance(described, KafkaError):
                raise described
            members = [
                MemberToRemove("", member.group_instance_id)
                if member.group_instance_id
                else MemberToRemove(member.member_id)
                for member in described.members
            ]
        leaving = arguments.several(
            MemberToRemove, members, call, "members", "[MemberToRemove(member_id)]"
        )
        if not leaving:
            return Results(call, {})
        identities = [
            MemberIdentity(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                reason=reason,
            )
            for member in leaving
        ]

        async def ask(connection: Connection, ids: list[str]) -> dict[str, list[int] | KafkaError]:
            if not connection.supports(LeaveGroupRequest, _FIRST_VERSION_WITH_MEMBERS):
                return {group_id: error_for(ErrorCode.UNSUPPORTED_VERSION)}
            response = await connection.request(
                LeaveGroupRequest(group_id=group_id, members=identities), LeaveGroupResponse
            )
            if response.error_code:
                return {group_id: error_for(response.error_code)}
            return {group_id: [member.error_code for member in response.members]}

        codes = (await self.ask_coordinators(KeyType.GROUP, [group_id], ask))[group_id]
        if isinstance(codes, KafkaError):
            raise codes
        answers: dict[MemberToRemove, bool | KafkaError] = {
            member: error_for(code) if code else True
            for member, code in zip(leaving, codes, strict=True)
        }
        return Results(call, answers)


def _may_be_classic(answer: GroupDescription | KafkaError | None) -> bool:
    """Whether the group may be a classic one: brokers that know the new protocol answer for classic
    groups that they do not exist."""
    return answer is None or (
        isinstance(answer, KafkaError)
        and answer.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    )


def _classic_member(group: DescribedGroup, member: DescribedGroupMember) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=assigned_partitions(group.protocol_type, member.member_assignment),
    )


def assigned_partitions(protocol_type: str, content: bytes) -> tuple[TopicPartition, ...]:
    """Returns the partitions of an assignment; none if it is not of the consumer protocol."""
    if protocol_type != CONSUMER_PROTOCOL or not content:
        return ()
    try:
        assignment = decode_versioned(ConsumerProtocolAssignment, content)
    except MalformedMessage:
        return ()  # a client's own fault, which must not hide the rest of the group
    return tuple(
        TopicPartition(assigned.topic, index)
        for assigned in assignment.assigned_partitions
        for index in assigned.partitions
    )


def _new_member(member: Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_topic_partitions(member.assignment),
        target_assignment=_topic_partitions(member.target_assignment),
        member_epoch=member.member_epoch,
        is_upgraded=None if member.member_type < 0 else member.member_type == 1,
    )


def _topic_partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )
