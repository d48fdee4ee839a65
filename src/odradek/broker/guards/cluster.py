"""Permission for what concerns the cluster as a whole: DESCRIBE to see it, ALTER to change it."""

from collections import defaultdict
from typing import Final

from odradek.broker.guards.items import on_cluster
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_WHY: Final = _DENIED.message


def _no_acls(request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=_DENIED, error_message=_WHY)


def _no_acl_created(request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=_DENIED, error_message=_WHY) for _ in request.creations
        ]
    )


def _no_acl_deleted(request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=_DENIED, error_message=_WHY) for _ in request.filters
        ]
    )


def _no_log_dirs(request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=_DENIED)


def _no_log_dir_altered(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[int]] = defaultdict(list)
    for directory in request.dirs:
        for topic in directory.topics:
            topics[topic.name] += topic.partitions
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=_DENIED)
                    for index in partitions
                ],
            )
            for name, partitions in topics.items()
        ]
    )


def _nobody_elected(request: ElectLeadersRequest) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=_DENIED,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=_DENIED, error_message=_WHY)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _nothing_moved(
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=_DENIED,
        error_message=_WHY,
    )


def _no_moves_shown(
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=_DENIED, error_message=_WHY)


def _no_users(
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=_DENIED, error_message=_WHY)


def _no_user_altered(
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse:
    deleted = dict.fromkeys(one.name for one in request.deletions)
    users = deleted | dict.fromkeys(one.name for one in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=_DENIED, error_message=_WHY)
            for user in users
        ]
    )


describe_acls = on_cluster(Operation.DESCRIBE, _no_acls)
create_acls = on_cluster(Operation.ALTER, _no_acl_created)
delete_acls = on_cluster(Operation.ALTER, _no_acl_deleted)
describe_log_dirs = on_cluster(Operation.DESCRIBE, _no_log_dirs)
alter_replica_log_dirs = on_cluster(Operation.ALTER, _no_log_dir_altered)
elect_leaders = on_cluster(Operation.ALTER, _nobody_elected)
alter_partition_reassignments = on_cluster(Operation.ALTER, _nothing_moved)
list_partition_reassignments = on_cluster(Operation.DESCRIBE, _no_moves_shown)
describe_user_scram_credentials = on_cluster(Operation.DESCRIBE, _no_users)
alter_user_scram_credentials = on_cluster(Operation.ALTER, _no_user_altered)
