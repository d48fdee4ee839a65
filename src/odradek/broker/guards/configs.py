"""Permission to see and to change settings: on the topic, on the group, or on the cluster for
brokers and everything else."""

from collections.abc import Callable
from typing import Final, TypeVar

from odradek.broker import config_resources
from odradek.broker.guards import Verdict
from odradek.broker.guards.access import Access
from odradek.broker.guards.items import on_cluster, split
from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import alter_configs as replacing
from odradek.protocol.messages import incremental_alter_configs as incremental
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.protocol.schema import Struct

_TOPIC: Final = config_resources.ResourceType.TOPIC
_GROUP: Final = config_resources.ResourceType.GROUP

Asked = TypeVar("Asked", bound=config_resources.Resource)


def _parted(
    access: Access,
    operation: Operation,
    resources: list[Asked],
    refuse: Callable[[Asked, ErrorCode], Struct],
) -> tuple[list[Asked], list[Struct]]:
    allowed: list[Asked] = []
    refusals: list[Struct] = []
    for resource in resources:
        kind, name, error = _protected(resource)
        if access.may(operation, kind, name):
            allowed.append(resource)
        else:
            refusals.append(refuse(resource, error))
    return allowed, refusals


def _protected(resource: config_resources.Resource) -> tuple[ResourceType, str, ErrorCode]:
    if resource.resource_type == _TOPIC:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ResourceType.TOPIC, resource.resource_name, error
    if resource.resource_type == _GROUP:
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return ResourceType.GROUP, resource.resource_name, error
    return ResourceType.CLUSTER, CLUSTER_NAME, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def describe_configs(access: Access, version: int, request: DescribeConfigsRequest) -> Verdict:
    """DESCRIBE_CONFIGS."""

    def refuse(resource: DescribeConfigsResource, error: ErrorCode) -> DescribeConfigsResult:
        return DescribeConfigsResult(
            error_code=error,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    allowed, refusals = _parted(access, Operation.DESCRIBE_CONFIGS, request.resources, refuse)
    return split(
        request,
        allowed,
        refusals,
        asked="resources",
        answered="results",
        response=DescribeConfigsResponse,
    )


def alter_configs(access: Access, version: int, request: replacing.AlterConfigsRequest) -> Verdict:
    """ALTER_CONFIGS."""

    def refuse(
        resource: replacing.AlterConfigsResource, error: ErrorCode
    ) -> replacing.AlterConfigsResourceResponse:
        return replacing.AlterConfigsResourceResponse(
            error_code=error,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    allowed, refusals = _parted(access, Operation.ALTER_CONFIGS, request.resources, refuse)
    return split(
        request,
        allowed,
        refusals,
        asked="resources",
        answered="responses",
        response=replacing.AlterConfigsResponse,
    )


def incremental_alter_configs(
    access: Access, version: int, request: incremental.IncrementalAlterConfigsRequest
) -> Verdict:
    """ALTER_CONFIGS."""

    def refuse(
        resource: incremental.AlterConfigsResource, error: ErrorCode
    ) -> incremental.AlterConfigsResourceResponse:
        return incremental.AlterConfigsResourceResponse(
            error_code=error,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    allowed, refusals = _parted(access, Operation.ALTER_CONFIGS, request.resources, refuse)
    return split(
        request,
        allowed,
        refusals,
        asked="resources",
        answered="responses",
        response=incremental.IncrementalAlterConfigsResponse,
    )


def _nothing_listed(request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


list_config_resources = on_cluster(Operation.DESCRIBE_CONFIGS, _nothing_listed)
