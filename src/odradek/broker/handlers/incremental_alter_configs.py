"""IncrementalAlterConfigs (v0-v1): sets, deletes, appends to and subtracts from settings.

The levels of a broker's loggers can be set and deleted, and hold until that broker stops.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.broker.config_resources import (
    ConfigResourceType,
    change_overrides,
    denial,
    split_authorized,
)
from odradek.broker.handlers import Handler
from odradek.broker.logger_levels import alter_loggers
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.config import (
    BROKER_DECLARED,
    ConfigOperation,
    InvalidSetting,
    Setting,
    TopicSettings,
    alter,
)
from odradek.config.consumer_group_settings import GROUP_DECLARED
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.incremental_alter_configs import (
    API,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    responses = []
    allowed, denied = split_authorized(context, Operation.ALTER_CONFIGS, request.resources)
    for resource in allowed:
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            code, message = _alter_loggers(services, resource, validate_only=request.validate_only)
        else:
            code, message = await change_overrides(
                services,
                resource,
                partial(_alter_overrides, resource),
                validate_only=request.validate_only,
            )
        responses.append(_result(resource, code, message))
    for resource in denied:
        error = denial(resource)
        responses.append(_result(resource, error, error.message))
    return IncrementalAlterConfigsResponse(responses=responses)


def _result(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _alter_loggers(
    services: Services, resource: AlterConfigsResource, *, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        alter_loggers(
            services, resource.resource_name, resource.configs, validate_only=validate_only
        )
    except ApiError as refusal:
        return refusal.code, refusal.message
    return ErrorCode.NONE, None


def _alter_overrides(resource: AlterConfigsResource, current: Mapping[str, str]) -> dict[str, str]:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A setting is named twice.")
    if resource.resource_type == ConfigResourceType.TOPIC:
        declared: Mapping[str, Setting[object]] = TopicSettings.declared
    elif resource.resource_type == ConfigResourceType.GROUP:
        declared = GROUP_DECLARED
    else:
        declared = BROKER_DECLARED
    try:
        operations = [
            (config.name, ConfigOperation(config.config_operation), config.value)
            for config in resource.configs
        ]
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation: {error}.") from error
    try:
        return alter(current, operations, declared)
    except InvalidSetting as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "ALTER_CONFIGS on each topic and group, or on the cluster for brokers"
    ),
    splitting=[Splitting("resources", "responses")],
)
