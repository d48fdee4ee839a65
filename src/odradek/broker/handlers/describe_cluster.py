"""DescribeCluster (v0-v2): the brokers and the controller, without topics.

Not done: endpoint type 2 asks for a quorum of controllers, which Odradek does not have.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.network.endpoints import brokers_on_listener
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_cluster import (
    API,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1


def handle(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="Brokers answer for brokers: ask for endpoint type 1.",
        )
    image = services.images.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.id, host=listener.host, port=listener.port, rack=broker.rack
            )
            for broker, listener in brokers_on_listener(image, context.connection.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.authorized_cluster_operations()
    return response


HANDLER: Final = Handler(
    API,
    handle,
    permission=OpenToAll(
        "clients find brokers with it; DESCRIBE on the cluster to see the allowed operations"
    ),
)
