"""Permission to know of topics and of the cluster. Topics that a client may not see vanish from
lists of all topics, and are refused where it names them."""

from typing import Final

from odradek.broker.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from odradek.protocol.messages.metadata import (
    API,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.schema import Response
from odradek.protocol.types import NO_TOPIC_ID

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ASKS_FOR_ALL_BY_AN_EMPTY_LIST: Final = 0


def metadata(access: Access, version: int, request: MetadataRequest) -> Verdict:
    """DESCRIBE on each topic; to make one, CREATE on it or on the cluster."""
    if request.topics is None or (not request.topics and version == _ASKS_FOR_ALL_BY_AN_EMPTY_LIST):
        return None  # The handler asks `Visible`: it answers with encoded topics.
    allowed, refusals = [], []
    for topic in request.topics:
        if _may_look(access, request, topic):
            allowed.append(topic)
        else:
            by_id = topic.topic_id != NO_TOPIC_ID
            name = None if by_id else topic.name
            refusals.append(
                MetadataResponseTopic(error_code=_DENIED, name=name, topic_id=topic.topic_id)
            )
    request.topics = allowed
    is_empty_list_for_all = not allowed and version == _ASKS_FOR_ALL_BY_AN_EMPTY_LIST
    if is_empty_list_for_all:
        request.topics = [MetadataRequestTopic(name="")]  # No topic has this name.

    def amend(response: Response) -> Response:
        assert isinstance(response, MetadataResponse)
        if is_empty_list_for_all:
            response.topics = []
        response.topics = [_as_seen(access, topic) for topic in response.topics]
        _show_operations(access, request, response)
        response.topics.extend(refusals)
        return response

    return amend


def _as_seen(access: Access, answered: MetadataResponseTopic) -> MetadataResponseTopic:
    """Returns the answer, or a refusal if it shows a topic that the client may not see. The handler
    may have waited, so that an id which nobody knew before is the id of a topic now."""
    name = answered.name
    is_by_id = not answered.error_code and name is not None
    if is_by_id and not access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name or ""):
        return MetadataResponseTopic(error_code=_DENIED, name=None, topic_id=answered.topic_id)
    return answered


class Visible:
    """What the client of one request may know of all topics and of the cluster."""

    __slots__ = ("_access",)

    def __init__(self, services: Services, context: RequestContext) -> None:
        self._access = Access(services, context, API)

    def sees(self, topic: str) -> bool:
        return self._access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def operations(self, topic: str) -> int:
        return self._access.operations(ResourceType.TOPIC, topic, TOPIC_OPERATIONS)

    def cluster_operations(self) -> int:
        return _cluster_operations(self._access)


def _may_look(access: Access, request: MetadataRequest, topic: MetadataRequestTopic) -> bool:
    name = access.topic_name(topic.name, topic.topic_id)
    if name is None:
        return True  # An id that nobody knows; the handler says so.
    if not access.may_on_topic(Operation.DESCRIBE, name):
        return False
    would_create = (
        request.allow_auto_topic_creation
        and access.creates_topics
        and name not in access.image.topics
    )
    return (
        not would_create
        or access.sees_on_cluster(Operation.CREATE)
        or access.may_on_topic(Operation.CREATE, name)
    )


def _show_operations(access: Access, request: MetadataRequest, response: MetadataResponse) -> None:
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if not topic.error_code and topic.name is not None:
                topic.topic_authorized_operations = access.operations(
                    ResourceType.TOPIC, topic.name, TOPIC_OPERATIONS
                )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(access)


def _cluster_operations(access: Access) -> int:
    if not access.may_on_cluster(Operation.DESCRIBE):
        return 0
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)


def describe_cluster(access: Access, version: int, request: DescribeClusterRequest) -> Verdict:
    """Open to all; what may be done with the cluster is told to whoever has DESCRIBE on it."""
    if not request.include_cluster_authorized_operations:
        return None

    def amend(response: Response) -> Response:
        assert isinstance(response, DescribeClusterResponse)
        response.cluster_authorized_operations = _cluster_operations(access)
        return response

    return amend


def describe_topic_partitions(
    access: Access, version: int, request: DescribeTopicPartitionsRequest
) -> Verdict:
    """DESCRIBE on each topic. All topics are asked for by naming none."""
    refusals = []
    if request.topics:
        allowed = []
        for topic in request.topics:
            if access.may_on_topic(Operation.DESCRIBE, topic.name):
                allowed.append(topic)
            else:
                refusals.append(
                    DescribeTopicPartitionsResponseTopic(error_code=_DENIED, name=topic.name)
                )
        if not allowed:
            return DescribeTopicPartitionsResponse(topics=refusals)
        request.topics = allowed
    else:
        request.topics = [
            TopicRequest(name=name)
            for name in access.image.topics
            if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)
        ]
        if not request.topics:
            return DescribeTopicPartitionsResponse()

    def amend(response: Response) -> Response:
        assert isinstance(response, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            if not topic.error_code and topic.name is not None:
                topic.topic_authorized_operations = access.operations(
                    ResourceType.TOPIC, topic.name, TOPIC_OPERATIONS
                )
        response.topics.extend(refusals)
        return response

    return amend
