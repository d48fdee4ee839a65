"""Permission to take part in groups (READ), to see them (DESCRIBE) and to remove them (DELETE)."""

from collections.abc import Callable
from typing import Final, Protocol

from odradek.broker.authorized_operations import GROUP_OPERATIONS
from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.broker.guards.items import each
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import consumer_group_describe as consumer_groups
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse
from odradek.protocol.schema import Response

_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_FIRST_VERSION_WITH_MANY_KEYS: Final = 4
_COORDINATED: Final = {
    0: (ResourceType.GROUP, _DENIED),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


class _OfGroup(Protocol):
    group_id: str


def _member(
    response: Callable[[ErrorCode], Response],
) -> Callable[[Access, int, _OfGroup], Verdict]:
    """READ on the group."""

    def guard(access: Access, version: int, request: _OfGroup) -> Verdict:
        if access.may(Operation.READ, ResourceType.GROUP, request.group_id):
            return None
        return response(_DENIED)

    return guard


join_group = _member(lambda error: JoinGroupResponse(error_code=error))
sync_group = _member(lambda error: SyncGroupResponse(error_code=error))
heartbeat = _member(lambda error: HeartbeatResponse(error_code=error))
leave_group = _member(lambda error: LeaveGroupResponse(error_code=error))


def consumer_group_heartbeat(
    access: Access, version: int, request: ConsumerGroupHeartbeatRequest
) -> Verdict:
    """READ on the group, DESCRIBE on every topic that is named in the subscription."""
    if not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=_DENIED)
    for topic in request.subscribed_topic_names or ():
        if not access.may_on_topic(Operation.DESCRIBE, topic):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def find_coordinator(access: Access, version: int, request: FindCoordinatorRequest) -> Verdict:
    """DESCRIBE on the group or the transactional id."""
    if request.key_type not in _COORDINATED:
        return None
    kind, error = _COORDINATED[request.key_type]
    if version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return _COORDINATORS[request.key_type](access, version, request)
    if access.may(Operation.DESCRIBE, kind, request.key):
        return None
    return FindCoordinatorResponse(
        error_code=error, error_message=error.message, node_id=-1, port=-1
    )


def _no_coordinator(error: ErrorCode) -> Callable[[str], Coordinator]:
    return lambda key: Coordinator(
        key=key, node_id=-1, port=-1, error_code=error, error_message=error.message
    )


_COORDINATORS: Final = {
    key_type: each(
        Operation.DESCRIBE,
        kind,
        str,
        _no_coordinator(error),
        asked="coordinator_keys",
        answered="coordinators",
        response=FindCoordinatorResponse,
    )
    for key_type, (kind, error) in _COORDINATED.items()
}


def list_groups(access: Access, version: int, request: ListGroupsRequest) -> Verdict:
    """DESCRIBE on the cluster shows all groups, on a group that one."""
    if access.sees_on_cluster(Operation.DESCRIBE):
        return None

    def amend(response: Response) -> Response:
        assert isinstance(response, ListGroupsResponse)
        response.groups = [
            group
            for group in response.groups
            if access.sees(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
        return response

    return amend


def describe_groups(access: Access, version: int, request: DescribeGroupsRequest) -> Verdict:
    """DESCRIBE on each group."""
    allowed, refusals = _describable(access, request.groups)
    request.groups = allowed

    def amend(response: Response) -> Response:
        assert isinstance(response, DescribeGroupsResponse)
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = access.operations(
                        ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                    )
        response.groups += [
            DescribedGroup(group_id=group_id, error_code=_DENIED, error_message=_DENIED.message)
            for group_id in refusals
        ]
        return response

    return amend


def consumer_group_describe(
    access: Access, version: int, request: consumer_groups.ConsumerGroupDescribeRequest
) -> Verdict:
    """DESCRIBE on each group, and on all topics of which its members read."""
    allowed, refusals = _describable(access, request.group_ids)
    request.group_ids = allowed

    def amend(response: Response) -> Response:
        assert isinstance(response, consumer_groups.ConsumerGroupDescribeResponse)
        response.groups = [_as_shown(access, group) for group in response.groups]
        if request.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = access.operations(
                        ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                    )
        response.groups += [
            consumer_groups.DescribedGroup(
                group_id=group_id, error_code=_DENIED, error_message=_DENIED.message
            )
            for group_id in refusals
        ]
        return response

    return amend


def _as_shown(
    access: Access, group: consumer_groups.DescribedGroup
) -> consumer_groups.DescribedGroup:
    topics = {
        part.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for part in assignment.topic_partitions
    }.union(*(member.subscribed_topic_names for member in group.members))
    if all(access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in sorted(topics)):
        return group
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return consumer_groups.DescribedGroup(
        group_id=group.group_id,
        error_code=error,
        error_message="Members of the group read topics that the client may not see.",
    )


def _describable(access: Access, groups: list[str]) -> tuple[list[str], list[str]]:
    allowed: list[str] = []
    refused: list[str] = []
    for group_id in groups:
        may = access.may(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        (allowed if may else refused).append(group_id)
    return allowed, refused


def _not_deleted(group_id: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=_DENIED)


delete_groups = each(
    Operation.DELETE,
    ResourceType.GROUP,
    str,
    _not_deleted,
    asked="groups_names",
    answered="results",
    response=DeleteGroupsResponse,
)
