"""ConsumerGroupDescribe (v0-v1): epochs, members and assignments of consumer groups.

From version 1 the response says which protocol each member uses. Partitions of deleted topics are
left out, because the names of the topics are unknown. Classic groups are answered with
GROUP_ID_NOT_FOUND: DescribeGroups describes them.
"""

from collections.abc import Iterable
from typing import Final

from odradek.broker.group_descriptions import add_authorized_operations, denied_group
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.groups.consumer.commands import (
    ConsumerMemberDescription,
    DescribeConsumerGroup,
)
from odradek.groups.consumer.member import TopicIdPartition
from odradek.groups.consumer.records import by_topic
from odradek.metadata import ClusterImage
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    API,
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


async def handle(
    services: Services, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    allowed, denied = context.split_authorized(
        Operation.DESCRIBE, ResourceType.GROUP, request.group_ids, lambda group_id: group_id
    )
    described = [await _describe(services, group_id) for group_id in allowed]
    groups = [_check_topic_access(services, context, group) for group in described]
    if request.include_authorized_operations:
        for group in groups:
            add_authorized_operations(context, group)
    groups += [denied_group(DescribedGroup, group_id) for group_id in denied]
    return ConsumerGroupDescribeResponse(groups=groups)


def _check_topic_access(
    services: Services, context: RequestContext, group: DescribedGroup
) -> DescribedGroup:
    """Returns the group, or an error if its members read a topic that the client may not describe.
    An incomplete assignment would mislead the reader, so nothing of the group is shown."""
    if services.authorizer is None:
        return group
    topics = {
        part.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for part in assignment.topic_partitions
    }.union(*(member.subscribed_topic_names for member in group.members))
    if all(
        context.authorize_without_logging(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        for topic in sorted(topics)
    ):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="Members of the group read topics that the client may not see.",
    )


async def _describe(services: Services, group_id: str) -> DescribedGroup:
    try:
        group = await services.groups.ask(group_id, DescribeConsumerGroup(group_id))
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    image = services.images.image
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(member, image) for member in group.members],
    )


def _member(described: ConsumerMemberDescription, image: ClusterImage) -> Member:
    member, profile = described.member, described.member.profile
    return Member(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=member.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topics),
        subscribed_topic_regex=profile.pattern or None,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(described.target, image),
        member_type=_CONSUMER_MEMBER if profile.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Iterable[TopicIdPartition], image: ClusterImage) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DESCRIBE on each group and on the topics that its members read"),
    splitting=[Splitting("group_ids", "groups")],
)
