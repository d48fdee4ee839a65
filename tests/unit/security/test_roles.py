"""Roles and groups: what they permit, what they cannot, and how they get along with ACLs."""

from collections.abc import Mapping

import pytest

from odradek.config import BrokerSettings
from odradek.protocol.acls import (
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.roles import Role, RoleBinding
from odradek.security.acl_index import NO_RULES
from odradek.security.authorizer import AclAuthorizer
from odradek.security.principals import Principal
from odradek.security.roles import ROLES, Area, complaint_about, names, permissions_of

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
ON_CLUSTER = ResourcePattern(CLUSTER, "kafka-cluster")
ADA = Principal("User", "ada")
SHOP = ADA.in_groups(["shop"])


def authorizer(
    *bindings: RoleBinding,
    acls: Mapping[ResourcePattern, tuple[AccessEntry, ...]] = NO_RULES,
    super_users: str = "",
    is_open: bool = False,
) -> AclAuthorizer:
    properties = {
        "super.users": super_users,
        "allow.everyone.if.no.acl.found": str(is_open).lower(),
    }
    made = AclAuthorizer(BrokerSettings.from_properties(properties))
    made.follow(acls)
    by_principal: dict[str, tuple[RoleBinding, ...]] = {}
    for binding in bindings:
        by_principal[binding.principal] = (*by_principal.get(binding.principal, ()), binding)
    made.follow_roles(by_principal)
    return made


def on_topic(name: str, pattern: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(TOPIC, name, pattern)


def test_a_reader_reads_what_the_role_is_bound_on() -> None:
    made = authorizer(RoleBinding("User:ada", Role.READER, on_topic("shop-", PatternType.PREFIXED)))
    assert made.allows(ADA, "h", Operation.READ, TOPIC, "shop-1")
    assert made.allows(ADA, "h", Operation.DESCRIBE, TOPIC, "shop-1")
    assert not made.allows(ADA, "h", Operation.WRITE, TOPIC, "shop-1")
    assert not made.allows(ADA, "h", Operation.READ, TOPIC, "orders")
    assert not made.allows(ADA, "h", Operation.READ, GROUP, "shop-1")
    assert not made.allows(Principal("User", "max"), "h", Operation.READ, TOPIC, "shop-1")


def test_a_group_has_the_roles_and_the_acls_of_its_members() -> None:
    acls = {on_topic("t"): (AccessEntry("Group:shop", "*", Operation.READ, Permission.ALLOW),)}
    made = authorizer(RoleBinding("Group:shop", Role.WRITER, on_topic("t")), acls=acls)
    for operation in (Operation.READ, Operation.WRITE):
        assert made.allows(SHOP, "h", operation, TOPIC, "t")
        assert not made.allows(ADA, "h", operation, TOPIC, "t")
    assert made.allows_any(SHOP, "h", Operation.WRITE, TOPIC)
    assert not made.allows_any(ADA, "h", Operation.WRITE, TOPIC)


def test_an_acl_that_denies_a_group_denies_its_members() -> None:
    denied = AccessEntry("Group:shop", "*", Operation.WRITE, Permission.DENY)
    made = authorizer(
        RoleBinding("User:ada", Role.OWNER, on_topic("*")), acls={on_topic("t"): (denied,)}
    )
    assert made.allows(ADA, "h", Operation.WRITE, TOPIC, "t")
    assert not made.allows(SHOP, "h", Operation.WRITE, TOPIC, "t")
    assert made.allows(SHOP, "h", Operation.WRITE, TOPIC, "u")


def test_a_group_can_be_a_super_user() -> None:
    made = authorizer(super_users="Group:shop")
    assert made.allows(SHOP, "h", Operation.WRITE, TOPIC, "t")
    assert not made.allows(ADA, "h", Operation.WRITE, TOPIC, "t")
    assert "Group:shop" in made.reason(SHOP, "h", Operation.WRITE, TOPIC, "t")


def test_a_user_that_is_named_like_a_group_is_no_group() -> None:
    made = authorizer(RoleBinding("Group:shop", Role.OWNER, on_topic("t")))
    assert not made.allows(Principal("User", "Group:shop"), "h", Operation.READ, TOPIC, "t")
    assert not made.allows(Principal("User", "shop"), "h", Operation.READ, TOPIC, "t")


def test_admins_of_the_cluster_have_their_areas() -> None:
    made = authorizer(
        RoleBinding("User:op", Role.OPERATOR, ON_CLUSTER),
        RoleBinding("User:sec", Role.SECURITY_ADMIN, ON_CLUSTER),
        RoleBinding("User:usr", Role.USER_ADMIN, ON_CLUSTER),
    )
    areas = {"op": Area.OPERATION, "sec": Area.ACCESS, "usr": Area.USERS}
    for name, own in areas.items():
        principal = Principal("User", name)
        for area in Area:
            allowed = made.allows_on_cluster(principal, "h", Operation.ALTER, area)
            assert allowed is (area is own), (name, area)
        is_operator = own is Area.OPERATION
        plain = made.allows(principal, "h", Operation.ALTER, CLUSTER, "kafka-cluster")
        assert plain is is_operator
        assert not made.allows(principal, "h", Operation.CLUSTER_ACTION, CLUSTER, "kafka-cluster")
        assert not made.allows(principal, "h", Operation.READ, TOPIC, "t")
    assert made.allows(Principal("User", "op"), "h", Operation.DELETE, TOPIC, "t")


def test_an_acl_on_the_cluster_is_about_every_area() -> None:
    entry = AccessEntry("User:ada", "*", Operation.ALTER, Permission.ALLOW)
    denied = entry._replace(permission=Permission.DENY)
    allowing = authorizer(acls={ON_CLUSTER: (entry,)})
    denying = authorizer(
        RoleBinding("User:ada", Role.SECURITY_ADMIN, ON_CLUSTER), acls={ON_CLUSTER: (denied,)}
    )
    for area in Area:
        assert allowing.allows_on_cluster(ADA, "h", Operation.ALTER, area)
        assert not denying.allows_on_cluster(ADA, "h", Operation.ALTER, area)


def test_what_a_role_names_is_closed_to_others_and_what_the_cluster_role_reaches_is_not() -> None:
    named = authorizer(RoleBinding("User:max", Role.OWNER, on_topic("t")), is_open=True)
    assert not named.allows(ADA, "h", Operation.READ, TOPIC, "t")
    assert named.allows(ADA, "h", Operation.READ, TOPIC, "u")
    operated = authorizer(RoleBinding("User:max", Role.OPERATOR, ON_CLUSTER), is_open=True)
    assert operated.allows(ADA, "h", Operation.READ, TOPIC, "t")
    assert operated.allows(ADA, "h", Operation.CLUSTER_ACTION, CLUSTER, "kafka-cluster")


@pytest.mark.parametrize(
    ("role", "resource", "complaint"),
    [
        (Role.READER, ON_CLUSTER, "not to the cluster"),
        (Role.WRITER, ResourcePattern(GROUP, "g"), "a topic or a transactional id"),
        (Role.SECURITY_ADMIN, on_topic("t"), "bound to the cluster"),
        (Role.OPERATOR, ResourcePattern(CLUSTER, "other"), "kafka-cluster"),
        (Role.OWNER, on_topic(""), "name of the resource"),
        (Role.OWNER, on_topic("t", PatternType.MATCH), "LITERAL or PREFIXED"),
        (Role.UNKNOWN, on_topic("t"), "take one of reader, writer"),
        (Role.OWNER, ResourcePattern(ResourceType.USER, "u"), "bound to a topic"),
    ],
)
def test_a_binding_that_means_nothing_is_refused(
    role: Role, resource: ResourcePattern, complaint: str
) -> None:
    found = complaint_about(RoleBinding("User:ada", role, resource))
    assert found is not None
    assert complaint in found
    # If another version has written it, it permits nothing.
    made = authorizer(RoleBinding("User:ada", role, resource))
    assert not made.allows(ADA, "h", Operation.READ, TOPIC, "t")


def test_every_role_is_declared_and_described() -> None:
    assert set(ROLES) == set(Role) - {Role.UNKNOWN}
    assert names() == [
        "reader",
        "writer",
        "owner",
        "operator",
        "security-admin",
        "user-admin",
    ]
    for role in ROLES:
        assert permissions_of(role)
        assert Role.from_display_name(role.display_name) is role
    assert Role.from_display_name("Security_Admin") is Role.SECURITY_ADMIN
    assert Role.from_display_name("king") is Role.UNKNOWN


def test_principals_with_other_groups_are_not_confused() -> None:
    assert SHOP != ADA
    assert SHOP.is_same_user(ADA)
    assert str(SHOP) == "User:ada"
    assert ADA.in_groups(["b", "a", "b", ""]).groups == ("Group:a", "Group:b")
    assert not SHOP.is_same_user(Principal("User", "max"))
