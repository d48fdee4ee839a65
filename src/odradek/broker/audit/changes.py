"""Which APIs change the cluster, and what a request changed: one event for each resource.

The audit log wraps the handlers of these APIs while it is on (`Dispatcher.listen_in`), so that the
handlers know nothing of it. What a client was denied is no change: the denial is an event of its
own. A test fails for an API that asks for Alter, AlterConfigs, Create or Delete and is neither in
`CHANGES` nor in `NO_CHANGES`.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.broker.audit.log import AuditLog
from odradek.broker.dispatch import Handle, Reply
from odradek.broker.permissions import DENIALS
from odradek.broker.services import Pipelined, RequestContext, Services
from odradek.protocol.acls import Operation, PatternType, Permission, ResourceType
from odradek.protocol.apis import AnyApi
from odradek.protocol.errors import ErrorCode
from odradek.protocol.roles import Role
from odradek.protocol.schema import Request, Response, Struct
from odradek.wording import counted
from odradek.world.timeslice import Timeslice

_DENIED: Final = frozenset(map(int, DENIALS.values()))
_KNOWN: Final = frozenset(map(int, ErrorCode))
_CONFIG_TYPES: Final = {
    2: "Topic",
    4: "Broker",
    8: "BrokerLogger",
    16: "ClientMetrics",
    32: "Group",
}
_CONFIG_OPERATIONS: Final = ("set", "delete", "append to", "subtract from")
_TOKEN_TYPE: Final = ResourceType.DELEGATION_TOKEN.display_name
# A request that was interrupted is described by so many names that occur in it.
_MAX_NAMES: Final = 20


class Change(NamedTuple):
    resource_type: str
    resource: str
    error_code: int
    detail: str = ""


Results = Callable[[Any, Any], Iterable[Change]]


def _created_topics(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics:
        detail = f"created with {counted(topic.num_partitions, 'partition')}"
        yield Change("Topic", topic.name, topic.error_code, detail)


def _deleted_topics(_: Any, response: Any) -> Iterator[Change]:
    for topic in response.responses:
        name = topic.name if topic.name is not None else f"id {topic.topic_id.hex()}"
        yield Change("Topic", name, topic.error_code, "deleted")


def _added_partitions(request: Any, response: Any) -> Iterator[Change]:
    counts = {topic.name: topic.count for topic in request.topics}
    for topic in response.results:
        detail = f"partitions increased to {counts.get(topic.name)}"
        yield Change("Topic", topic.name, topic.error_code, detail)


def _altered_configs(request: Any, response: Any) -> Iterator[Change]:
    """Names the settings, but not their values: they may be passwords."""
    details = {
        (resource.resource_type, resource.resource_name): ", ".join(
            f"{_config_operation(config)} {config.name}" for config in resource.configs
        )
        for resource in request.resources
    }
    for resource in response.responses:
        key = (resource.resource_type, resource.resource_name)
        kind = _CONFIG_TYPES.get(resource.resource_type, str(resource.resource_type))
        name = resource.resource_name or "all brokers"
        yield Change(kind, name, resource.error_code, details.get(key, ""))


def _config_operation(config: Any) -> str:
    number = getattr(config, "config_operation", 0)
    return _CONFIG_OPERATIONS[number] if 0 <= number < len(_CONFIG_OPERATIONS) else "change"


def _created_acls(request: Any, response: Any) -> Iterator[Change]:
    for acl, result in zip(request.creations, response.results, strict=True):
        yield _acl_change("added", acl, acl.resource_pattern_type, result.error_code)


def _deleted_acls(_: Any, response: Any) -> Iterator[Change]:
    for result in response.filter_results:
        if result.error_code:
            yield Change("Acl", "", result.error_code, "ACLs removed by a filter")
        for acl in result.matching_acls:
            yield _acl_change("removed", acl, acl.pattern_type, acl.error_code)


def _acl_change(verb: str, acl: Any, pattern: int, error_code: int) -> Change:
    permission = Permission(acl.permission_type).display_name
    operation = Operation(acl.operation).display_name
    detail = f"ACL {verb}: {permission} {operation} to {acl.principal} from {acl.host}"
    return Change(
        ResourceType(acl.resource_type).display_name,
        _pattern(acl.resource_name, pattern),
        error_code,
        detail,
    )


def _pattern(name: str, pattern: int) -> str:
    return f"{name}*" if PatternType(pattern) is PatternType.PREFIXED else name


def _altered_roles(request: Any, response: Any) -> Iterator[Change]:
    for role, result in zip(request.alterations, response.results, strict=True):
        verb = "granted to" if role.is_granted else "revoked from"
        yield Change(
            ResourceType(role.resource_type).display_name,
            _pattern(role.resource_name, role.pattern_type),
            result.error_code,
            f"role {Role(role.role).display_name} {verb} {role.principal}",
        )


def _altered_users(request: Any, response: Any) -> Iterator[Change]:
    deleted = {deletion.name for deletion in request.deletions}
    for result in response.results:
        verb = "deleted" if result.user in deleted else "set"
        yield Change("User", result.user, result.error_code, f"SCRAM credential {verb}")


def _created_token(request: Any, response: Any) -> Iterator[Change]:
    renewers = ", ".join(f"{one.principal_type}:{one.principal_name}" for one in request.renewers)
    detail = f"created for {response.principal_type}:{response.principal_name}"
    if renewers:
        detail += f", renewed by {renewers}"
    yield Change(_TOKEN_TYPE, response.token_id, response.error_code, detail)


def _renewed_token(_: Any, response: Any) -> Iterator[Change]:
    yield Change(_TOKEN_TYPE, "", response.error_code, f"ends at {response.expiry_timestamp_ms}")


def _expired_token(request: Any, response: Any) -> Iterator[Change]:
    ends = f"ends at {response.expiry_timestamp_ms}"
    detail = "ended" if request.expiry_time_period_ms < 0 else ends
    yield Change(_TOKEN_TYPE, "", response.error_code, detail)


def _altered_quotas(request: Any, response: Any) -> Iterator[Change]:
    for entry, result in zip(request.entries, response.entries, strict=True):
        name = ", ".join(
            f"{part.entity_type} {part.entity_name or '<default>'}" for part in entry.entity
        )
        detail = ", ".join(
            f"remove {op.key}" if op.remove else f"set {op.key}={op.value:g}" for op in entry.ops
        )
        yield Change("Quota", name, result.error_code, detail)


def _partitions_of(topics: str, name: str, partitions: str, index: str, detail: str) -> Results:
    """Returns what reads a response with topics and, in each, partitions with an error code."""

    def results(_: Any, response: Any) -> Iterator[Change]:
        if getattr(response, "error_code", 0):
            yield Change("Cluster", "", response.error_code, detail)
        for topic in getattr(response, topics):
            for partition in getattr(topic, partitions):
                resource = f"{getattr(topic, name)}-{getattr(partition, index)}"
                yield Change("Partition", resource, partition.error_code, detail)

    return results


def _deleted_groups(_: Any, response: Any) -> Iterator[Change]:
    for group in response.results:
        yield Change("Group", group.group_id, group.error_code, "deleted")


def _deleted_offsets(request: Any, response: Any) -> Iterator[Change]:
    if response.error_code:
        yield Change("Group", request.group_id, response.error_code, "offsets deleted")
    for topic in response.topics:
        for partition in topic.partitions:
            detail = f"offset of {topic.name}-{partition.partition_index} deleted"
            yield Change("Group", request.group_id, partition.error_code, detail)


CHANGES: Final[Mapping[str, Results]] = {
    "CreateTopics": _created_topics,
    "DeleteTopics": _deleted_topics,
    "CreatePartitions": _added_partitions,
    "AlterConfigs": _altered_configs,
    "IncrementalAlterConfigs": _altered_configs,
    "CreateAcls": _created_acls,
    "DeleteAcls": _deleted_acls,
    "AlterRoles": _altered_roles,
    "AlterUserScramCredentials": _altered_users,
    "AlterClientQuotas": _altered_quotas,
    "CreateDelegationToken": _created_token,
    "RenewDelegationToken": _renewed_token,
    "ExpireDelegationToken": _expired_token,
    "AlterPartitionReassignments": _partitions_of(
        "responses", "name", "partitions", "partition_index", "reassigned"
    ),
    "ElectLeaders": _partitions_of(
        "replica_election_results", "topic", "partition_result", "partition_id", "leader elected"
    ),
    "AlterReplicaLogDirs": _partitions_of(
        "results", "topic_name", "partitions", "partition_index", "log directory chosen"
    ),
    "DeleteRecords": _partitions_of(
        "topics", "name", "partitions", "partition_index", "records deleted"
    ),
    "DeleteGroups": _deleted_groups,
    "OffsetDelete": _deleted_offsets,
}
"""What each API changed, by the name of the API."""

NO_CHANGES: Final[Mapping[str, str]] = {
    "Metadata": "a client that asks for a topic may create it; that is an allowed Create",
    "WriteTxnMarkers": "brokers end transactions of clients by it",
}
"""APIs that ask for the permission of a change and are no administrative change, and why."""


def audited(log: AuditLog, api: AnyApi, handle: Handle) -> Handle:
    """Returns a handler that calls the given one and reports what was changed."""
    results = CHANGES.get(api.name)
    if results is None:
        return handle

    def handle_and_report(
        services: Services, context: RequestContext, request: Request
    ) -> Reply | Awaitable[Reply] | Pipelined:
        reply = handle(services, context, request)
        if isinstance(reply, Awaitable):
            return _report_later(log, context, request, reply, results)
        if isinstance(reply, Response) and not _changes_nothing(request):
            for change in results(request, reply):
                _report(log, context, change)
        return reply

    return handle_and_report


async def _report_later(
    log: AuditLog,
    context: RequestContext,
    request: Request,
    reply: Awaitable[Reply],
    results: Results,
) -> Reply:
    try:
        response = await reply
    except BaseException:
        # The client has gone, or the handler failed. The change may have been made.
        if not _changes_nothing(request):
            names = ", ".join(dict.fromkeys(_names(request)))
            log.changed(context, "", names, "unknown", "the connection ended before the answer")
        raise
    if not _changes_nothing(request):
        timeslice = Timeslice.of_running_loop()
        for change in results(request, response):
            if timeslice.is_over():
                await timeslice.next_turn()
            _report(log, context, change)
    return response


def _changes_nothing(request: Request) -> bool:
    return bool(getattr(request, "validate_only", False))


def _report(log: AuditLog, context: RequestContext, change: Change) -> None:
    code = change.error_code
    if code in _DENIED:
        return
    result = "success"
    if code:
        result = ErrorCode(code).name if code in _KNOWN else str(code)
    resource = change.resource or context.subject
    log.changed(context, change.resource_type, resource, result, change.detail)


def _names(message: Struct) -> Iterator[str]:
    """Yields the first names in a request."""
    found = 0
    for field in type(message).fields:
        value = getattr(message, field.name)
        if isinstance(value, str) and field.name not in ("value", "path"):
            yield value
        elif isinstance(value, list):
            for element in value[:_MAX_NAMES]:
                inner = _names(element) if isinstance(element, Struct) else ()
                names = [element] if isinstance(element, str) else inner
                for name in names:
                    found += 1
                    if found > _MAX_NAMES:
                        return
                    yield name
