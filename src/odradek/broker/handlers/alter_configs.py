"""AlterConfigs (v0-v2): replaces all settings of a resource by the given ones.

A setting that the request does not name goes back to its default. IncrementalAlterConfigs changes
single settings.
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
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    API,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    async def alter(resource: AlterConfigsResource) -> None:
        if resource.resource_type == ConfigResourceType.TOPIC:
            present = services.configs.topic_overrides(resource.resource_name)
            require_write_on_dead_letters(context, resource.configs, present)
        await change_overrides(
            services,
            context,
            resource,
            partial(_read_overrides, resource),
            validate_only=request.validate_only,
        )

    responses = await alter_resources(
        context, request.resources, alter, AlterConfigsResourceResponse
    )
    return AlterConfigsResponse(responses=responses)


def _read_overrides(resource: AlterConfigsResource, before: Mapping[str, str]) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for config in resource.configs:
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value for {config.name}.")
        if config.name in overrides:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name} is named twice.")
        overrides[config.name] = config.value
    return overrides


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "ALTER_CONFIGS on each topic and group, or on the cluster for brokers and client metrics;"
        " WRITE on a dead-letter topic that is named"
    ),
    splitting=[Splitting("resources", "responses", identity=resource_identity)],
)
