"""What settings belong to, as DescribeConfigs and AlterConfigs name it."""

from enum import IntEnum

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


async def replace_overrides(
    services: Services,
    resource_type: int,
    name: str,
    overrides: dict[str, str],
    *,
    validate_only: bool,
) -> None:
    """Makes these all the overrides of a resource."""
    if resource_type == ResourceType.TOPIC:
        services.configs.topic_overrides(name)
        await services.configs.set_topic(name, overrides, validate_only=validate_only)
    elif resource_type == ResourceType.BROKER:
        broker_resource(services, name)
        await services.configs.set_broker(name, overrides, validate_only=validate_only)
    else:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Resource type {resource_type} has no settings here."
        )
