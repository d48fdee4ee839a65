"""IncrementalAlterConfigs (v0-v1): sets, deletes, appends to and subtracts from settings.

The levels of a broker's loggers can be set and deleted. They are lost when that broker stops.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.broker.config_resources import (
    ConfigResourceType,
    alter_resources,
    change_overrides,
    require_write_on_dead_letters,
    resource_identity,
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
from odradek.config.client_metrics_settings import CLIENT_METRICS_DECLARED
from odradek.config.consumer_group_settings import GROUP_DECLARED
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
    validate_only = request.validate_only

    async def alter(resource: AlterConfigsResource) -> None:
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            alter_loggers(
                services, resource.resource_name, resource.configs, validate_only=validate_only
            )
        else:
            if resource.resource_type == ConfigResourceType.TOPIC:
                present = services.configs.topic_overrides(resource.resource_name)
                require_write_on_dead_letters(context, resource.configs, present)
            await change_overrides(
                services,
                context,
                resource,
                partial(_alter_overrides, resource),
                validate_only=validate_only,
            )

    responses = await alter_resources(
        context, request.resources, alter, AlterConfigsResourceResponse
    )
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter_overrides(resource: AlterConfigsResource, current: Mapping[str, str]) -> dict[str, str]:
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A setting is named twice.")
    if resource.resource_type == ConfigResourceType.TOPIC:
        declared: Mapping[str, Setting[object]] = TopicSettings.declared
    elif resource.resource_type == ConfigResourceType.GROUP:
        declared = GROUP_DECLARED
    elif resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        declared = CLIENT_METRICS_DECLARED
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
        "ALTER_CONFIGS on each topic and group, or on the cluster for brokers and client metrics;"
        " WRITE on a dead-letter topic that is named"
    ),
    splitting=[Splitting("resources", "responses", identity=resource_identity)],
)
