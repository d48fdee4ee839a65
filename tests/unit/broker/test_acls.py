"""Access rules on a broker: made, found, removed, and obeyed."""

from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.handlers import served_apis
from odradek.protocol.acls import Operation, PatternType, Permission, ResourceType
from odradek.protocol.apis import all_apis
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.test_every_api import REQUESTS, error_codes

Connect = Callable[[], Awaitable[Client]]

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER = {"authorizer_class_name": STANDARD, "super_users": "User:ANONYMOUS"}


def rule(
    kind: ResourceType,
    name: str,
    operation: Operation,
    *,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:ANONYMOUS",
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


async def create(client: Client, *rules: AclCreation) -> list[int]:
    response = await client.ask(CreateAclsRequest(creations=list(rules)), CreateAclsResponse)
    return [result.error_code for result in response.results]


async def found(
    client: Client, kind: int = 1, name: str | None = None, pattern: int = 1
) -> list[tuple[str, str, Operation]]:
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    response = await client.ask(request, DescribeAclsResponse)
    assert response.error_code == 0, response.error_message
    return [
        (resource.resource_name, acl.principal, Operation(acl.operation))
        for resource in response.resources
        for acl in resource.acls
    ]


@pytest.mark.parametrize("key", sorted(set(REQUESTS)), ids=lambda key: all_apis()[key].name)
@on_broker(**SUPER)
async def test_a_super_user_is_served_as_without_an_authorizer(connect: Connect, key: int) -> None:
    client = await connect()
    await client.create_topic("t")
    version = served_apis()[key].max_version
    response = await client.ask(REQUESTS[key], all_apis()[key].response, version=version)
    assert not any(error_codes(response)), response


@on_broker()
async def test_without_an_authorizer_rules_are_not_taken(connect: Connect) -> None:
    client = await connect()
    mine = rule(ResourceType.TOPIC, "t", Operation.READ)
    assert await create(client, mine) == [ErrorCode.SECURITY_DISABLED]
    described = await client.ask(DescribeAclsRequest(), DescribeAclsResponse)
    assert described.error_code == ErrorCode.SECURITY_DISABLED
    deleted = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()]), DeleteAclsResponse)
    assert deleted.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize("version", [1, 2, 3])
@on_broker(**SUPER)
async def test_rules_are_made_found_and_removed(connect: Connect, version: int) -> None:
    client = await connect()
    rules = [
        rule(ResourceType.TOPIC, "orders", Operation.READ, principal="User:a"),
        rule(ResourceType.TOPIC, "orders", Operation.READ, principal="User:b"),
        rule(ResourceType.TOPIC, "ord", Operation.ALL, pattern=PatternType.PREFIXED),
        rule(ResourceType.TOPIC, "*", Operation.DESCRIBE),
        rule(ResourceType.GROUP, "a/b .. %2F ü", Operation.READ),
        rule(ResourceType.GROUP, "..", Operation.READ),
        rule(ResourceType.CLUSTER, "kafka-cluster", Operation.ALTER),
    ]
    request = CreateAclsRequest(creations=[*rules, rules[0]])
    created = await client.ask(request, CreateAclsResponse, version=version)
    assert not any(error_codes(created))
    assert len(await found(client)) == len(rules)
    matching = await found(client, ResourceType.TOPIC, "orders", PatternType.MATCH)
    assert {name for name, _, _ in matching} == {"orders", "ord", "*"}
    literal = await found(client, name="..", pattern=PatternType.LITERAL)
    assert literal == [("..", "User:ANONYMOUS", Operation.READ)]
    wanted = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=3,
        permission_type=1,
    )
    deleted = await client.ask(
        DeleteAclsRequest(filters=[wanted, wanted]), DeleteAclsResponse, version=version
    )
    first, second = deleted.filter_results
    assert [acl.principal for acl in first.matching_acls] == ["User:a", "User:b"]
    assert second.matching_acls == []
    assert len(await found(client)) == len(rules) - 2


@on_broker(**SUPER)
async def test_rules_that_say_nothing_are_refused_one_by_one(connect: Connect) -> None:
    client = await connect()
    topic = ResourceType.TOPIC
    bad = [
        rule(ResourceType.ANY, "t", Operation.READ),
        rule(topic, "t", Operation.ANY),
        rule(topic, "t", Operation.UNKNOWN),
        rule(topic, "", Operation.READ),
        rule(topic, "t", Operation.READ, pattern=PatternType.MATCH),
        rule(topic, "t", Operation.READ, permission=Permission.ANY),
        rule(topic, "t", Operation.READ, principal="alice"),
        rule(ResourceType.CLUSTER, "mine", Operation.READ),
    ]
    codes = await create(client, *bad, rule(topic, "t", Operation.READ))
    assert codes == [ErrorCode.INVALID_REQUEST] * len(bad) + [ErrorCode.NONE]
    unknown = await client.ask(
        DescribeAclsRequest(resource_type_filter=99, operation=1), DescribeAclsResponse
    )
    assert unknown.error_code == ErrorCode.INVALID_REQUEST


@on_broker(authorizer_class_name=STANDARD, super_users="User:admin")
async def test_nobody_without_permission_changes_rules(connect: Connect) -> None:
    client = await connect()
    everything = rule(ResourceType.TOPIC, "*", Operation.ALL)
    assert await create(client, everything) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
