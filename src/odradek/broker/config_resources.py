"""The resources of DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: their types, the ACLs
that protect them, and changes of their overrides."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Final, Protocol, TypeVar

from odradek.broker.permissions import DENIALS
from odradek.broker.services import RequestContext, Services
from odradek.config import TopicSettings
from odradek.config.listener_settings import split_prefixed
from odradek.protocol import acls
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId
from odradek.security.roles import Area


class ConfigResourceType(IntEnum):
    """The type of a resource that has settings (Kafka: ConfigResource.Type). Its numbers differ
    from those of `acls.ResourceType`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


# The ACLs of topics and groups cover their settings too; those of the cluster cover the rest.
_ACL_RESOURCE_TYPES: Final = {
    int(ConfigResourceType.TOPIC): acls.ResourceType.TOPIC,
    int(ConfigResourceType.GROUP): acls.ResourceType.GROUP,
}


# Passwords, tokens and tickets that are accepted, and whose certificates. A broker's own
# certificates are not among them: operators renew them.
_WHO_CLIENTS_ARE: Final = ("sasl.", "ssl.truststore.", "odradek.ldap.")
_DEAD_LETTER_TOPIC: Final = TopicSettings.odradek_schema_validation_dead_letter_topic.name


def requested_broker_id(services: Services, name: str) -> BrokerId | None:
    """Returns the broker id that a request names, or None for the default of all brokers (an empty
    name). Raises `ApiError` if it is not the id of this broker."""
    if not name:
        return None
    if name != str(services.broker_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"This is broker {services.broker_id}. Send requests about the settings of broker"
            f" {name!r} to that broker.",
        )
    return services.broker_id


class Resource(Protocol):
    """The resource whose settings a request describes or changes."""

    resource_type: int
    resource_name: str


AnyResource = TypeVar("AnyResource", bound=Resource)
ResourceResponse_co = TypeVar("ResourceResponse_co", covariant=True)


class ResponseType(Protocol[ResourceResponse_co]):
    """The response struct of a resource, of AlterConfigs or of IncrementalAlterConfigs."""

    def __call__(
        self,
        *,
        error_code: int,
        error_message: str | None,
        resource_type: int,
        resource_name: str,
    ) -> ResourceResponse_co: ...


def resource_identity(resource: Resource) -> Hashable:
    return resource.resource_type, resource.resource_name


async def alter_resources(
    context: RequestContext,
    resources: list[AnyResource],
    alter: Callable[[AnyResource], Awaitable[None]],
    response_type: ResponseType[ResourceResponse_co],
) -> list[ResourceResponse_co]:
    """Calls `alter` for each resource that the client may alter, and returns a response for every
    resource. `alter` raises `ApiError` if it refuses; the other resources are altered all the same.
    A resource that is named twice is refused."""
    allowed, denied = split_authorized(context, Operation.ALTER_CONFIGS, resources)
    outcomes: list[tuple[AnyResource, ErrorCode, str | None]] = []
    for resource in allowed:
        try:
            if resource_identity(resource) in context.duplicates:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The resource is named more than once.")
            await alter(resource)
        except ApiError as error:
            outcomes.append((resource, error.code, error.message))
        else:
            outcomes.append((resource, ErrorCode.NONE, None))
    for resource in denied:
        code = denial(resource)
        outcomes.append((resource, code, code.message))
    return [
        response_type(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, code, message in outcomes
    ]


Change = Callable[[Mapping[str, str]], Mapping[str, str]]


async def change_overrides(
    services: Services,
    context: RequestContext,
    resource: Resource,
    change: Change,
    *,
    validate_only: bool,
) -> None:
    """Replaces the overrides of a resource by `change(overrides)`, or raises `ApiError`. `change`
    is called again if another request has changed the same resource in the meantime
    (`odradek.cluster.configs`)."""
    resource_type, name = resource.resource_type, resource.resource_name
    if resource_type == ConfigResourceType.TOPIC:
        await services.configs.change_topic(name, change, validate_only=validate_only)
    elif resource_type == ConfigResourceType.BROKER:
        requested_broker_id(services, name)
        permitted = partial(_change_if_permitted, context, change)
        await services.configs.change_broker(name, permitted, validate_only=validate_only)
    elif resource_type == ConfigResourceType.GROUP:
        await services.configs.change_group(name, change, validate_only=validate_only)
    elif resource_type == ConfigResourceType.CLIENT_METRICS:
        await services.configs.change_client_metrics(name, change, validate_only=validate_only)
    else:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"This broker does not support settings of resource type {resource_type}.",
        )


def _change_if_permitted(
    context: RequestContext, change: Change, before: Mapping[str, str]
) -> Mapping[str, str]:
    """Raises `ApiError` if the client changes who may log in and has no permission for users. An
    operator could else give a listener a password, or an authority of its own, and become any user:
    who runs a cluster does not read its records."""
    after = change(before)
    is_about_log_ins = any(
        before.get(name) != after.get(name) and _says_who_clients_are(name)
        for name in before.keys() | after.keys()
    )
    if is_about_log_ins and not context.authorize(
        Operation.ALTER_CONFIGS, acls.ResourceType.CLUSTER, acls.CLUSTER_NAME, Area.USERS
    ):
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "These settings say who may log in: the role user-admin is needed beside operator.",
        )
    return after


def _says_who_clients_are(name: str) -> bool:
    found = split_prefixed(name)
    own_name = name if found is None else found[2].name
    return own_name.startswith(_WHO_CLIENTS_ARE)


class GivenSetting(Protocol):
    """A setting in a request that changes settings."""

    name: str
    value: str | None


def require_write_on_dead_letters(
    context: RequestContext, given: Iterable[GivenSetting], present: Mapping[str, str]
) -> None:
    """Raises `ApiError` if the client names a dead-letter topic that it may not write to. Brokers
    write dead letters as themselves, so it could write to any topic through its own. What is
    `present` may be sent again."""
    for setting in given:
        name = setting.value
        if setting.name != _DEAD_LETTER_TOPIC or not name or present.get(setting.name) == name:
            continue
        if not context.authorize(Operation.WRITE, acls.ResourceType.TOPIC, name):
            raise ApiError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"Wrong records are diverted to topic '{name}', on which WRITE is needed.",
            )


def split_authorized(
    context: RequestContext, operation: Operation, resources: list[AnyResource]
) -> tuple[list[AnyResource], list[AnyResource]]:
    """Returns the resources on which the operation is allowed, and those on which it is denied."""
    allowed: list[AnyResource] = []
    denied: list[AnyResource] = []
    for resource in resources:
        kind = _ACL_RESOURCE_TYPES.get(resource.resource_type)
        is_allowed = (
            context.authorize_cluster(operation)
            if kind is None
            else context.authorize(operation, kind, resource.resource_name)
        )
        (allowed if is_allowed else denied).append(resource)
    return allowed, denied


def denial(resource: Resource) -> ErrorCode:
    """Returns the error for a resource whose settings the client may not see or change."""
    return DENIALS[_ACL_RESOURCE_TYPES.get(resource.resource_type, acls.ResourceType.CLUSTER)]
