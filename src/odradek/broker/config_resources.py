"""What settings belong to, as DescribeConfigs and AlterConfigs name it."""

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId
from odradek.replication.refusal import Refused


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def broker_resource(services: Services, name: str) -> BrokerId | None:
    """This broker, or None for the cluster-wide default. Any other broker is refused."""
    if not name:
        return None
    if name != str(services.broker_id):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Broker {services.broker_id} answers for itself; ask broker {name!r} directly.",
        )
    return services.broker_id


class Resource(Protocol):
    """What settings are asked for, in either API."""

    resource_type: int
    resource_name: str


async def replace_overrides(
    services: Services,
    asked: Resource,
    overrides_of: Callable[[], dict[str, str]],
    *,
    validate_only: bool,
) -> tuple[ErrorCode, str | None]:
    """Makes these all the overrides of a resource; says why not, if it cannot."""
    try:
        await _replace(
            services,
            asked.resource_type,
            asked.resource_name,
            overrides_of(),
            validate_only=validate_only,
        )
    except Refused as refusal:
        return refusal.code, refusal.message
    return ErrorCode.NONE, None


async def _replace(
    services: Services,
    resource_type: int,
    name: str,
    overrides: dict[str, str],
    *,
    validate_only: bool,
) -> None:
    if resource_type == ResourceType.TOPIC:
        services.configs.topic_overrides(name)
        await services.configs.set_topic(name, overrides, validate_only=validate_only)
    elif resource_type == ResourceType.BROKER:
        broker_resource(services, name)
        await services.configs.set_broker(name, overrides, validate_only=validate_only)
    elif resource_type == ResourceType.GROUP:
        services.configs.group_overrides(name)
        await services.configs.set_group(name, overrides, validate_only=validate_only)
    else:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Resource type {resource_type} has no settings here."
        )
