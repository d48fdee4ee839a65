"""AlterConfigs 0-2: replaces all settings of a resource by those given.

What is not named goes back to its default: IncrementalAlterConfigs is the kinder way.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.broker.config_resources import change_overrides
from odradek.broker.handlers import Handler
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
    responses = []
    for asked in request.resources:
        code, message = await change_overrides(
            services, asked, partial(_given, asked), validate_only=request.validate_only
        )
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )
    return AlterConfigsResponse(responses=responses)


def _given(asked: AlterConfigsResource, before: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value for {config.name}.")
        if config.name in given:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name} is named twice.")
        given[config.name] = config.value
    return given


HANDLER: Final = Handler(API, handle, splitting=[Splitting("resources", "responses")])
