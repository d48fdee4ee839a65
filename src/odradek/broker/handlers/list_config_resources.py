"""ListConfigResources (v0-v1): the resources that can have settings of their own.

Version 0 lists only subscriptions to client metrics. Version 1 lists the resources of the types
that the request names, or of all types.
"""

from typing import Final

from odradek.broker.config_resources import ConfigResourceType
from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_config_resources import (
    API,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    types = set(request.resource_types) or set(ConfigResourceType)
    if context.version == 0:
        types = {ConfigResourceType.CLIENT_METRICS}
    if not types <= set(ConfigResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = services.images.image
    resources = []
    if ConfigResourceType.TOPIC in types:
        resources += [(ConfigResourceType.TOPIC, name) for name in sorted(image.topics)]
    for kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        if kind in types:
            resources += [(kind, str(broker)) for broker in image.brokers]
    if ConfigResourceType.GROUP in types:
        resources += [(ConfigResourceType.GROUP, name) for name in sorted(image.group_configs)]
    if ConfigResourceType.CLIENT_METRICS in types:
        names = sorted(image.client_metrics_configs)
        resources += [(ConfigResourceType.CLIENT_METRICS, name) for name in names]
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind, name in resources
        ]
    )


def _error_response(
    request: ListConfigResourcesRequest, error: ErrorCode
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE_CONFIGS, _error_response)
)
