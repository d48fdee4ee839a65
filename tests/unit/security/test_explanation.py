"""What `odradek acls --explain` says: what decides, why other rules do not count, what is missing.

That its advice is true is shown by `tests.scenarios.acl_matrix` for random rules.
"""

from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.roles import Role, RoleBinding
from odradek.security.explanation import MAX_RULES, Explanation, Question, explain
from odradek.security.principals import Principal
from odradek.security.rule_book import Cause, RuleBook

ADA = Principal("User", "ada")
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
ORD = ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def entry(
    operation: Operation,
    permission: Permission = ALLOW,
    principal: str = "User:ada",
    host: str = "*",
) -> AccessEntry:
    return AccessEntry(principal, host, operation, permission)


def asked(
    book: RuleBook,
    operation: Operation = Operation.WRITE,
    principal: Principal = ADA,
    host: str = "10.0.0.1",
    resource: ResourcePattern = ORDERS,
) -> Explanation:
    return explain(book, Question(principal, host, operation, resource.type, resource.name))


def test_a_rule_that_denies_wins_and_must_be_removed() -> None:
    denies = entry(Operation.ALL, DENY, "User:*")
    book = RuleBook({ORDERS: (entry(Operation.WRITE),), ORD: (denies,)})
    explained = asked(book)
    assert explained.cause is Cause.DENIED_BY_ACL
    assert explained.reason == "Deny All to User:* from * on Topic:PREFIXED:ord"
    assert explained.in_the_way == (Acl(ORD, denies),)
    # What allows it is there already.
    assert not explained.missing
    assert not explained.missing_roles
    assert [rule.counts for rule in explained.rules] == [True, True]
    assert "names that begin with ord" in explained.rules[1].remark


def test_rules_that_do_not_count_are_shown_with_the_reason() -> None:
    book = RuleBook(
        {
            ORDERS: (
                entry(Operation.READ),
                entry(Operation.WRITE, host="10.9.9.9"),
                entry(Operation.WRITE, principal="User:max"),
                entry(Operation.READ, DENY),
            ),
            ResourcePattern(ResourceType.TOPIC, "other"): (entry(Operation.WRITE),),
        }
    )
    explained = asked(book)
    assert explained.cause is Cause.NO_RULE_ALLOWS
    remarks = [rule.remark for rule in explained.rules]
    assert remarks == [
        "it is about Read",
        "it is about the host 10.9.9.9",
        "it is about another principal",
        "it is about Read",
    ]
    assert explained.missing == (Acl(ORDERS, entry(Operation.WRITE)),)
    assert explained.missing_roles == (
        RoleBinding("User:ada", Role.WRITER, ORDERS),
        RoleBinding("User:ada", Role.OWNER, ORDERS),
    )


def test_describe_is_implied_by_read_and_not_denied_with_it() -> None:
    book = RuleBook({ORDERS: (entry(Operation.READ), entry(Operation.WRITE, DENY))})
    explained = asked(book, Operation.DESCRIBE)
    assert explained.is_allowed
    assert explained.cause is Cause.ALLOWED_BY_ACL
    assert "whoever may Read may Describe" in explained.rules[0].remark
    assert explained.rules[1].remark == "to deny Write does not deny Describe"


def test_super_users_and_resources_without_rules() -> None:
    book = RuleBook(super_users=frozenset({"User:ada"}))
    assert asked(book).cause is Cause.SUPER_USER
    closed = asked(RuleBook())
    assert (closed.cause, closed.is_allowed) == (Cause.CLOSED_WITHOUT_RULES, False)
    opened = asked(RuleBook(is_open_without_rules=True))
    assert opened.is_allowed
    assert "allow.everyone.if.no.acl.found=true" in opened.reason


def test_a_role_decides_by_its_binding() -> None:
    group = RoleBinding("Group:shop", Role.OWNER, ORD)
    book = RuleBook(bindings={"Group:shop": (group,)})
    explained = asked(book, principal=ADA.in_groups(["shop"]))
    assert explained.cause is Cause.ALLOWED_BY_ROLE
    assert explained.reason == "the role owner of Group:shop on Topic:PREFIXED:ord, by All"
    assert explained.rules[0].role == "owner"
    assert "its group" in explained.rules[0].remark
    assert not asked(book).is_allowed


def test_a_role_of_the_cluster_reaches_topics() -> None:
    book = RuleBook(
        bindings={"User:ada": (RoleBinding("User:ada", Role.OPERATOR, CLUSTER),)},
    )
    explained = asked(book, Operation.DELETE)
    assert explained.reason == "the role operator of User:ada on Cluster:LITERAL:kafka-cluster"


def test_a_role_for_another_area_is_named() -> None:
    admin = RoleBinding("User:ada", Role.SECURITY_ADMIN, CLUSTER)
    book = RuleBook(bindings={"User:ada": (admin,)})
    explained = asked(book, Operation.ALTER, resource=CLUSTER)
    assert not explained.is_allowed
    (rule,) = explained.rules
    assert (rule.role, rule.counts) == ("security-admin", False)
    assert rule.remark == "it permits this for ACLs and roles alone"
    assert explained.missing_roles == (RoleBinding("User:ada", Role.OPERATOR, CLUSTER),)


def test_a_user_admin_changes_settings_about_users_alone() -> None:
    book = RuleBook(bindings={"User:ada": (RoleBinding("User:ada", Role.USER_ADMIN, CLUSTER),)})
    (rule,) = asked(book, Operation.ALTER_CONFIGS, resource=CLUSTER).rules
    assert rule.remark == "it permits this for users and their tokens alone"


def test_users_and_tokens_can_be_asked_about() -> None:
    for kind, operation in (
        (ResourceType.USER, Operation.CREATE_TOKENS),
        (ResourceType.DELEGATION_TOKEN, Operation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
        (ResourceType.GROUP, Operation.READ),
    ):
        explained = asked(RuleBook(), operation, resource=ResourcePattern(kind, "x"))
        assert not explained.is_allowed
        assert explained.missing_roles, kind


def test_a_resource_with_thousands_of_rules_is_explained_by_those_that_count() -> None:
    others = tuple(entry(Operation.READ, principal=f"User:{number}") for number in range(3000))
    book = RuleBook({ORDERS: (*others, entry(Operation.WRITE))})
    explained = asked(book)
    assert len(explained.rules) == MAX_RULES
    assert explained.rules[0].counts
