"""Roles on a broker: granted, found, revoked, obeyed at once, and explained."""

import logging
from collections.abc import Awaitable, Callable

from odradek.cluster.roles import RoleStore
from odradek.metadata import MetadataCache
from odradek.metadata.store_setup import prepare_store
from odradek.protocol.acls import Operation, PatternType, ResourcePattern, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_roles import (
    AlterRolesRequest,
    AlterRolesResponse,
    RoleAlteration,
)
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.messages.describe_roles import DescribeRolesRequest, DescribeRolesResponse
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.explain_access import ExplainAccessRequest, ExplainAccessResponse
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.roles import Role, RoleBinding
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost, Client, on_broker
from tests.unit.broker.test_acls import STANDARD, SUPER
from tests.unit.broker.test_permissions import Lines, produced

Connect = Callable[[], Awaitable[Client]]

OPEN = {"authorizer_class_name": STANDARD, "allow_everyone_if_no_acl_found": "true"}
ME = "User:ANONYMOUS"


def alteration(
    role: Role,
    name: str,
    *,
    grant: bool = True,
    principal: str = ME,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
) -> RoleAlteration:
    return RoleAlteration(
        is_granted=grant,
        principal=principal,
        role=role,
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
    )


async def altered(client: Client, *alterations: RoleAlteration) -> list[tuple[int, str | None]]:
    response = await client.ask(
        AlterRolesRequest(alterations=list(alterations)), AlterRolesResponse
    )
    return [(result.error_code, result.error_message) for result in response.results]


async def described(client: Client, principal: str | None = None) -> list[tuple[str, Role, str]]:
    response = await client.ask(DescribeRolesRequest(principal=principal), DescribeRolesResponse)
    assert response.error_code == 0, response.error_message
    return [(role.principal, Role(role.role), role.resource_name) for role in response.roles]


@on_broker(**OPEN)
async def test_a_role_is_obeyed_at_once_and_no_longer(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    # A topic that somebody owns is closed to others.
    assert await altered(client, alteration(Role.OWNER, "t", principal="User:max")) == [(0, None)]
    assert await produced(client, "t") == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert await altered(client, alteration(Role.WRITER, "t")) == [(0, None)]
    assert await produced(client, "t") == {"t": 0}
    assert await described(client) == [(ME, Role.WRITER, "t"), ("User:max", Role.OWNER, "t")]
    assert await described(client, "User:max") == [("User:max", Role.OWNER, "t")]
    assert await altered(client, alteration(Role.WRITER, "t", grant=False)) == [(0, None)]
    assert await produced(client, "t") == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@on_broker(**SUPER)
async def test_each_alteration_has_its_own_answer(connect: Connect) -> None:
    client = await connect()
    answers = await altered(
        client,
        alteration(Role.READER, "a"),
        alteration(Role.READER, "a"),
        alteration(Role.SECURITY_ADMIN, "a"),
        alteration(Role.READER, "b", grant=False, principal="User:max"),
        alteration(Role.READER, "b", principal="max"),
        alteration(Role.UNKNOWN, "b"),
    )
    codes = [code for code, _ in answers]
    assert codes == [0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.RESOURCE_NOT_FOUND, 42, 42]
    assert "bound to the cluster" in (answers[2][1] or "")
    assert "does not have the role reader" in (answers[3][1] or "")
    assert await described(client) == [(ME, Role.READER, "a")]
    both = [alteration(Role.OWNER, "c"), alteration(Role.OWNER, "c", grant=False)]
    assert {code for code, _ in await altered(client, *both)} == {ErrorCode.INVALID_REQUEST}


@on_broker()
async def test_a_broker_without_an_authorizer_keeps_no_roles(connect: Connect) -> None:
    client = await connect()
    ((code, _),) = await altered(client, alteration(Role.READER, "a"))
    assert code == ErrorCode.SECURITY_DISABLED
    response = await client.ask(DescribeRolesRequest(), DescribeRolesResponse)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    explained = await client.ask(
        ExplainAccessRequest(principal=ME, operation=4, resource_type=2, resource_name="t"),
        ExplainAccessResponse,
    )
    assert (explained.is_allowed, explained.cause) == (True, "no-authorizer")


def with_role(role: Role, test: Callable[[Client], Awaitable[None]]) -> None:
    with_roles([role], test)


def with_roles(roles: list[Role], test: Callable[[Client], Awaitable[None]]) -> None:
    """Runs a test on a broker on which everybody has these roles of the cluster and nothing else.
    They were granted before the start, and are read from the store."""

    async def main(simulation: Simulation) -> None:
        properties = {"authorizer.class.name": STANDARD, "super.users": "User:admin"}
        host = BrokerHost(simulation, properties)
        store = host.metadata.connect()
        await prepare_store(store, "cluster")
        cache = MetadataCache(store)
        await cache.load()
        resource = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
        granted = [RoleBinding(ME, role, resource) for role in roles]
        await RoleStore(store, cache).change(ME, granted, [])
        async with host.running() as connect:
            await test(await connect())

    run(main, seed=1)


async def areas(client: Client) -> dict[str, int]:
    """Returns the error codes of a request of each area."""
    acls = await client.ask(
        DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1,
                            permission_type=1), DescribeAclsResponse
    )  # fmt: skip
    users = await client.ask(
        DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse
    )
    leaders = await client.ask(ElectLeadersRequest(topic_partitions=[]), ElectLeadersResponse)
    return {
        "acls": acls.error_code,
        "users": users.error_code,
        "leaders": leaders.error_code,
    }


DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_an_operator_runs_the_cluster_and_changes_no_acls() -> None:
    async def test(client: Client) -> None:
        assert await areas(client) == {"acls": DENIED, "users": DENIED, "leaders": 0}
        await client.create_topic("t")
        assert await produced(client, "t") == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    with_role(Role.OPERATOR, test)


LISTENER = "listener.name.plaintext."
# A user of its own, and an authority of its own.
LOG_INS = {
    f"{LISTENER}plain.sasl.jaas.config": "PlainLoginModule required user_admin=mine;",
    f"{LISTENER}ssl.truststore.certificates": "an authority",
    f"{LISTENER}sasl.enabled.mechanisms": "PLAIN",
    f"{LISTENER}gssapi.sasl.kerberos.principal.to.local.rules": "RULE:[1:admin]",
}


async def changed(client: Client, name: str, value: str | None, operation: int = 0) -> int:
    """Returns the error of a change of one setting of the broker."""
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    response = await client.ask(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )
    return response.responses[0].error_code


def test_an_operator_does_not_say_who_may_log_in() -> None:
    """It could become any user, and read records."""
    log, told = logging.getLogger("odradek.authorizer"), Lines()

    async def test(client: Client) -> None:
        assert await changed(client, "log.cleaner.threads", "2") == 0
        for name, value in LOG_INS.items():
            assert await changed(client, name, value) == DENIED, name
        assert await changed(client, f"{LISTENER}ssl.keystore.type", "PEM") == 0

    log.addHandler(told)
    try:
        with_roles([Role.OPERATOR], test)
    finally:
        log.removeHandler(told)
    assert "it is about users and their tokens; for running the cluster: the role" in told.lines[0]


def test_operator_and_user_admin_together_do() -> None:
    async def test(client: Client) -> None:
        for name, value in LOG_INS.items():
            assert await changed(client, name, value) == 0, name
        for name in LOG_INS:
            assert await changed(client, name, None, operation=1) == 0, name

    with_roles([Role.OPERATOR, Role.USER_ADMIN], test)
    with_roles([Role.USER_ADMIN], nothing_is_changed)


async def nothing_is_changed(client: Client) -> None:
    for name, value in LOG_INS.items():
        assert await changed(client, name, value) == DENIED, name


def test_a_security_admin_sees_acls_and_moves_nothing() -> None:
    async def test(client: Client) -> None:
        assert await areas(client) == {"acls": 0, "users": DENIED, "leaders": DENIED}
        # Whoever says who may do what can give itself more.
        assert await altered(client, alteration(Role.OWNER, "t")) == [(0, None)]

    with_role(Role.SECURITY_ADMIN, test)


def test_a_user_admin_sees_users_alone() -> None:
    async def test(client: Client) -> None:
        assert await areas(client) == {"acls": DENIED, "users": 0, "leaders": DENIED}

    with_role(Role.USER_ADMIN, test)


@on_broker(**SUPER)
async def test_the_broker_explains_what_it_would_decide(connect: Connect) -> None:
    client = await connect()
    shop = alteration(Role.WRITER, "shop-", principal="Group:shop", pattern=PatternType.PREFIXED)
    await altered(client, shop)

    async def explained(**fields: object) -> ExplainAccessResponse:
        request = ExplainAccessRequest(
            principal="User:ada", operation=Operation.WRITE, resource_type=ResourceType.TOPIC,
            resource_name="shop-1",
        )  # fmt: skip
        for name, value in fields.items():
            setattr(request, name, value)
        return await client.ask(request, ExplainAccessResponse)

    member = await explained(groups=["Group:shop"])
    assert member.is_allowed
    assert member.reason == "the role writer of Group:shop on Topic:PREFIXED:shop-"
    assert [(rule.role, rule.counts) for rule in member.rules] == [("writer", True)]
    stranger = await explained()
    assert (stranger.is_allowed, stranger.cause) == (False, "no-rule-allows")
    assert [rule.role for rule in stranger.missing] == [None, "writer", "owner"]
    assert (await explained(principal=ME)).cause == "super-user"
    for fields in (
        {"principal": "ada"},
        {"operation": 2},
        {"resource_type": 1},
        {"resource_name": ""},
        {"groups": ["shop"]},
    ):
        refused = await explained(**fields)
        assert refused.error_code == ErrorCode.INVALID_REQUEST, fields
        assert refused.error_message
