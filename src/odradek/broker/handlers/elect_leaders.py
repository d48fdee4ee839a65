"""ElectLeaders (v0-v2): elects the preferred replica, or (type 1) any replica that is alive.

The broker that receives the request elects the leaders itself, with the same compare-and-set in the
metadata store as the controller. The response to a request for all partitions has only those that
needed an election.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.cluster.elections import partitions_of
from odradek.cluster.requested_elections import Results, elect_any, elect_preferred
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.elect_leaders import (
    API,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from odradek.protocol.types import TopicPartition

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


async def handle(
    services: Services, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = services.images.image
    asks_for_all = request.topic_partitions is None
    if request.topic_partitions is None:
        partitions = [topic_partition for topic_partition, _ in partitions_of(image, image.topics)]
    else:
        requested = (
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        )
        partitions = list(dict.fromkeys(requested))
    try:
        if request.election_type == _PREFERRED:
            results = await elect_preferred(services.images.cache, partitions)
        else:
            results = await elect_any(services.images.cache, partitions, services.longest_log)
    except ApiError as error:
        return ElectLeadersResponse(error_code=error.code)
    return ElectLeadersResponse(replica_election_results=_results(results, asks_for_all))


def _results(results: Results, asks_for_all: bool) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for topic_partition, error in results.items():
        if error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED and asks_for_all:
            continue
        topic = topics.setdefault(
            topic_partition.topic, ReplicaElectionResult(topic=topic_partition.topic)
        )
        topic.partition_result.append(
            PartitionResult(
                partition_id=topic_partition.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return list(topics.values())


def _error_response(request: ElectLeadersRequest, error: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=index, error_code=error, error_message=error.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.ALTER, _error_response),
    splitting=[
        Splitting("topic_partitions", "replica_election_results", "partitions", "partition_result")
    ],
)
