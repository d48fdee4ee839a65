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
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.protocol.schema import Request, Response, Struct

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


def _each_resource(
    operation: Operation,
    refused: Callable[..., Struct],
    *,
    answered: str,
    response: type[Response],
) -> Callable[[Access, int, Request], Verdict]:
    """Asks for the operation on each resource; `refused` is what its answer is made of."""

    def refuse(resource: config_resources.Resource, error: ErrorCode) -> Struct:
        return refused(
            error_code=error,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    def guard(access: Access, version: int, request: Request) -> Verdict:
        resources: list[config_resources.Resource] = getattr(request, "resources")  # noqa: B009
        allowed, refusals = _parted(access, operation, resources, refuse)
        return split(
            request,
            allowed,
            refusals,
            asked="resources",
            answered=answered,
            response=response,
        )

    return guard


describe_configs = _each_resource(
    Operation.DESCRIBE_CONFIGS,
    DescribeConfigsResult,
    answered="results",
    response=DescribeConfigsResponse,
)
alter_configs = _each_resource(
    Operation.ALTER_CONFIGS,
    replacing.AlterConfigsResourceResponse,
    answered="responses",
    response=replacing.AlterConfigsResponse,
)
incremental_alter_configs = _each_resource(
    Operation.ALTER_CONFIGS,
    incremental.AlterConfigsResourceResponse,
    answered="responses",
    response=incremental.IncrementalAlterConfigsResponse,
)


def _nothing_listed(request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


list_config_resources = on_cluster(Operation.DESCRIBE_CONFIGS, _nothing_listed)
