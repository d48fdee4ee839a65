"""DescribeConfigs (v1-v4): settings of topics, brokers, loggers, groups and subscriptions to
client metrics, and the source of each setting.

Resource types: 2 topic, 4 broker (by its id, or empty for the dynamic defaults of the cluster),
8 broker loggers, 16 client metrics, 32 consumer groups. A broker describes only its own settings
and loggers.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from odradek.broker.config_resources import (
    ConfigResourceType,
    denial,
    requested_broker_id,
    split_authorized,
)
from odradek.broker.handlers import Handler
from odradek.broker.logger_levels import describe_loggers
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.config import Description, describe_broker, describe_cluster_default, describe_topic
from odradek.config.client_metrics_settings import describe_client_metrics
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
    for resource in allowed:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        results.append(result)
        try:
            result.configs = _configs(services, resource, request)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
    return DescribeConfigsResponse(
        results=results + [_denied_result(resource) for resource in denied]
    )


def _denied_result(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    error = denial(resource)
    return DescribeConfigsResult(
        error_code=error,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _configs(
    services: Services, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    def describe() -> list[DescribeConfigsResourceResult]:
        return [_result(description, request) for description in _descriptions(services, resource)]

    # Requests that name settings are not cached: clients can name any combination of them, and
    # would push the descriptions that many clients share out of the cache.
    if (
        resource.resource_type != ConfigResourceType.TOPIC
        or resource.configuration_keys is not None
    ):
        return describe()
    options = ("described", request.include_synonyms, request.include_documentation)
    overrides = services.configs.topic_overrides(resource.resource_name)
    return services.config_descriptions.get_or_describe(
        services.settings.broker, overrides, options, describe
    )


def _descriptions(services: Services, resource: DescribeConfigsResource) -> Iterable[Description]:
    settings = services.settings.broker
    names = resource.configuration_keys
    if resource.resource_type == ConfigResourceType.TOPIC:
        return describe_topic(
            settings, services.configs.topic_overrides(resource.resource_name), names
        )
    if resource.resource_type == ConfigResourceType.BROKER:
        if requested_broker_id(services, resource.resource_name) is None:
            return describe_cluster_default(settings, names)
        return describe_broker(settings, names)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        return describe_loggers(services, resource.resource_name, names)
    if resource.resource_type == ConfigResourceType.GROUP:
        return describe_group(
            settings, services.configs.group_overrides(resource.resource_name), names
        )
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        overrides = services.configs.client_metrics_overrides(resource.resource_name)
        return describe_client_metrics(overrides, names)
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"This broker does not support settings of resource type {resource.resource_type}.",
    )


def _result(
    description: Description, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = description.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=description.name,
        value=description.value,
        read_only=description.read_only,
        config_source=description.source,
        is_sensitive=description.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=description.kind,
        documentation=description.documentation if request.include_documentation else None,
    )


def _identity(resource: DescribeConfigsResource) -> Hashable:
    """A resource that is named several times is answered once. Kafka answers it each time, so that
    a request of 25 KB asks for 1.7 GB; its own clients name each resource once."""
    keys = resource.configuration_keys
    return resource.resource_type, resource.resource_name, None if keys is None else tuple(keys)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "DESCRIBE_CONFIGS on each topic and group, or on the cluster for brokers and client metrics"
    ),
    splitting=[Splitting("resources", "results", max_elements=5, identity=_identity)],
)
