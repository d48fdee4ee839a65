"""The resources that have settings: topics, brokers, groups, as the APIs of configs name them."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, Protocol, TypeVar

from odradek.broker.permissions import DENIALS
from odradek.broker.services import RequestContext, Services
from odradek.protocol import acls
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


# The ACLs of topics and groups cover their settings too; those of the cluster cover the rest.
_PROTECTED: Final = {
    int(ResourceType.TOPIC): acls.ResourceType.TOPIC,
    int(ResourceType.GROUP): acls.ResourceType.GROUP,
}


def broker_resource(services: Services, name: str) -> BrokerId | None:
    """Returns the id of this broker, or None for the default of all brokers (an empty name). Raises
    `ApiError` for another broker."""
    if not name:
        return None
    if name != str(services.broker_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {services.broker_id} answers for itself; ask broker {name!r} directly.",
        )
    return services.broker_id


class Resource(Protocol):
    """The resource whose settings a request describes or changes."""

    resource_type: int
    resource_name: str


AnyResource = TypeVar("AnyResource", bound=Resource)


async def change_overrides(
    services: Services,
    asked: Resource,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> tuple[ErrorCode, str | None]:
    """Changes the overrides of a resource to what `change` returns for them. Returns the error, if
    there is one, and its message. `change` is called again if another request has changed the same
    resource in the meantime (`odradek.cluster.configs`)."""
    try:
        await _change(
            services,
            asked.resource_type,
            asked.resource_name,
            change,
            validate_only=validate_only,
        )
    except ApiError as refusal:
        return refusal.code, refusal.message
    return ErrorCode.NONE, None


async def _change(
    services: Services,
    resource_type: int,
    name: str,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> None:
    if resource_type == ResourceType.TOPIC:
        await services.configs.change_topic(name, change, validate_only=validate_only)
    elif resource_type == ResourceType.BROKER:
        broker_resource(services, name)
        await services.configs.change_broker(name, change, validate_only=validate_only)
    elif resource_type == ResourceType.GROUP:
        await services.configs.change_group(name, change, validate_only=validate_only)
    else:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Resource type {resource_type} has no settings here."
        )


def split_authorized(
    context: RequestContext, operation: Operation, resources: list[AnyResource]
) -> tuple[list[AnyResource], list[AnyResource]]:
    """Returns the resources on which the operation is allowed, and those on which it is denied."""
    allowed: list[AnyResource] = []
    denied: list[AnyResource] = []
    for resource in resources:
        kind = _PROTECTED.get(resource.resource_type)
        is_allowed = (
            context.authorize_cluster(operation)
            if kind is None
            else context.authorize(operation, kind, resource.resource_name)
        )
        (allowed if is_allowed else denied).append(resource)
    return allowed, denied


def denial(resource: Resource) -> ErrorCode:
    """Returns the error for a resource whose settings the client may not see or change."""
    return DENIALS[_PROTECTED.get(resource.resource_type, acls.ResourceType.CLUSTER)]
