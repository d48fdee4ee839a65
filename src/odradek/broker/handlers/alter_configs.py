"""AlterConfigs (v0-v2): replaces all settings of a resource by the given ones.

A setting that the request does not name goes back to its default. IncrementalAlterConfigs changes
single settings.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.broker.config_resources import change_overrides, denial, split_authorized
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
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
    allowed, denied = split_authorized(context, Operation.ALTER_CONFIGS, request.resources)
    for asked in allowed:
        code, message = await change_overrides(
            services, asked, partial(_given, asked), validate_only=request.validate_only
        )
        responses.append(_result(asked, code, message))
    for asked in denied:
        error = denial(asked)
        responses.append(_result(asked, error, error.message))
    return AlterConfigsResponse(responses=responses)


def _result(
    asked: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _given(asked: AlterConfigsResource, before: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value for {config.name}.")
        if config.name in given:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name} is named twice.")
        given[config.name] = config.value
    return given


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "ALTER_CONFIGS on each topic and group, or on the cluster for brokers"
    ),
    splitting=[Splitting("resources", "responses")],
)
