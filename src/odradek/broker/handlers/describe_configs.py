"""DescribeConfigs 1-4: settings of topics, brokers, loggers and groups, and where each comes from.

Resource types: 2 topic, 4 broker (by its id, or empty for the dynamic defaults of the cluster),
8 broker loggers, 32 consumer groups. A broker describes its own settings and loggers alone.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from odradek.broker.config_resources import ResourceType, broker_resource, denial, split_authorized
from odradek.broker.handlers import Handler
from odradek.broker.logger_levels import describe_loggers
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.config import Description, describe_broker, describe_cluster_default, describe_topic
from odradek.config.consumer_group_settings import describe_group
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import (
    API,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    results = []
    allowed, denied = split_authorized(context, Operation.DESCRIBE_CONFIGS, request.resources)
    for asked in allowed:
        result = DescribeConfigsResult(
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            error_message=None,
        )
        results.append(result)
        try:
            result.configs = _configs(services, asked, request)
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.code, refusal.message
    return DescribeConfigsResponse(results=results + [_denied(asked) for asked in denied])


def _denied(asked: DescribeConfigsResource) -> DescribeConfigsResult:
    error = denial(asked)
    return DescribeConfigsResult(
        error_code=error,
        error_message=error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _configs(
    services: Services, asked: DescribeConfigsResource, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    def describe() -> list[DescribeConfigsResourceResult]:
        return [_result(description, request) for description in _described(services, asked)]

    # A cache of names that a client makes up would grow without bound.
    if asked.resource_type != ResourceType.TOPIC or asked.configuration_keys is not None:
        return describe()
    wish = ("described", request.include_synonyms, request.include_documentation)
    overrides = services.configs.topic_overrides(asked.resource_name)
    return services.config_descriptions.described(
        services.settings.broker, overrides, wish, describe
    )


def _described(services: Services, asked: DescribeConfigsResource) -> Iterable[Description]:
    settings = services.settings.broker
    names = asked.configuration_keys
    if asked.resource_type == ResourceType.TOPIC:
        return describe_topic(
            settings, services.configs.topic_overrides(asked.resource_name), names
        )
    if asked.resource_type == ResourceType.BROKER:
        if broker_resource(services, asked.resource_name) is None:
            return describe_cluster_default(settings, names)
        return describe_broker(settings, names)
    if asked.resource_type == ResourceType.BROKER_LOGGER:
        return describe_loggers(services, asked.resource_name, names)
    if asked.resource_type == ResourceType.GROUP:
        return describe_group(
            settings, services.configs.group_overrides(asked.resource_name), names
        )
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"Resource type {asked.resource_type} has no settings here."
    )


def _result(
    described: Description, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = described.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=described.kind,
        documentation=described.documentation if request.include_documentation else None,
    )


def _identity(asked: DescribeConfigsResource) -> Hashable:
    """A resource that is named several times is answered once. Kafka answers it each time, so that
    a request of 25 KB asks for 1.7 GB; its own clients name each resource once."""
    keys = asked.configuration_keys
    return asked.resource_type, asked.resource_name, None if keys is None else tuple(keys)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "DESCRIBE_CONFIGS on each topic and group, or on the cluster for brokers"
    ),
    splitting=[Splitting("resources", "results", max_elements=5, identity=_identity)],
)
