"""Access rules: the index against a model that searches all of them, and Kafka's rules by name."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.security.acl_index import AclIndex, Ruling

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY

NAMES = st.text("ab", min_size=1, max_size=4)
OPERATIONS = st.sampled_from([one for one in Operation if one > Operation.ANY])
ACLS = st.builds(
    Acl,
    st.builds(
        ResourcePattern,
        st.sampled_from([TOPIC, ResourceType.GROUP]),
        NAMES | st.just("*"),
        st.sampled_from([LITERAL, PREFIXED]),
    ),
    st.builds(
        AccessEntry,
        st.sampled_from(["User:x", "User:y", "User:*"]),
        st.sampled_from(["1", "2", "*"]),
        OPERATIONS,
        st.sampled_from([ALLOW, DENY]),
    ),
)


def index_of(acls: list[Acl]) -> AclIndex:
    rules: dict[ResourcePattern, tuple[AccessEntry, ...]] = {}
    for resource, entry in acls:
        rules[resource] = (*rules.get(resource, ()), entry)
    return AclIndex(rules)


def naive(acls: list[Acl], principal: str, host: str, operation: Operation, name: str) -> Ruling:
    """As Kafka describes it, with no regard for speed."""
    implied = {
        Operation.READ: {Operation.DESCRIBE},
        Operation.WRITE: {Operation.DESCRIBE},
        Operation.DELETE: {Operation.DESCRIBE},
        Operation.ALTER: {Operation.DESCRIBE},
        Operation.ALTER_CONFIGS: {Operation.DESCRIBE_CONFIGS},
    }
    about = [
        acl.entry
        for acl in acls
        if acl.resource.type is TOPIC
        and (
            (acl.resource.pattern is LITERAL and acl.resource.name in (name, "*"))
            or (acl.resource.pattern is PREFIXED and name.startswith(acl.resource.name))
        )
    ]
    if not about:
        return Ruling.UNREGULATED
    concerned = [
        entry
        for entry in about
        if entry.principal in (principal, "User:*") and entry.host in (host, "*")
    ]
    for entry in concerned:
        if entry.permission is DENY and entry.operation in (operation, Operation.ALL):
            return Ruling.DENIED
    for entry in concerned:
        if entry.permission is ALLOW and (
            entry.operation in (operation, Operation.ALL)
            or operation in implied.get(entry.operation, ())
        ):
            return Ruling.ALLOWED
    return Ruling.DENIED


@given(st.lists(ACLS, max_size=12), st.sampled_from(["1", "2"]), OPERATIONS, NAMES)
def test_the_index_decides_as_a_search_of_all_rules_would(
    acls: list[Acl], host: str, operation: Operation, name: str
) -> None:
    decision = index_of(acls).decide(("User:x", "User:*"), host, operation, TOPIC, name)
    assert decision.ruling is naive(acls, "User:x", host, operation, name)
    if decision.entry is not None:
        assert Acl(decision.resource, decision.entry) in acls  # type: ignore[arg-type]


@given(st.lists(ACLS, max_size=8), OPERATIONS)
def test_what_is_allowed_somewhere_is_allowed_on_some_name(
    acls: list[Acl], operation: Operation
) -> None:
    # Every name of up to four letters, and one more letter than any rule has ever heard of.
    names = {acl.resource.name for acl in acls} | {acl.resource.name + "c" for acl in acls} | {"c"}
    index = index_of(acls)
    somewhere = any(
        index.decide(("User:x", "User:*"), "1", operation, TOPIC, name).ruling is Ruling.ALLOWED
        for name in names - {"*"}
    )
    if somewhere:
        assert index.allows_any(("User:x", "User:*"), "1", operation, TOPIC)


def allow(name: str, operation: Operation, pattern: PatternType = LITERAL) -> Acl:
    return Acl(ResourcePattern(TOPIC, name, pattern), AccessEntry("User:x", "*", operation, ALLOW))


def deny(name: str, operation: Operation, pattern: PatternType = LITERAL) -> Acl:
    return Acl(ResourcePattern(TOPIC, name, pattern), AccessEntry("User:x", "*", operation, DENY))


def may(operation: Operation, name: str, *acls: Acl) -> bool:
    ruling = index_of(list(acls)).decide(("User:x", "User:*"), "h", operation, TOPIC, name).ruling
    return ruling is Ruling.ALLOWED


def test_denial_wins_wherever_it_stands() -> None:
    read = Operation.READ
    assert may(read, "pay-1", allow("*", read))
    assert not may(read, "pay-1", allow("pay-1", read), deny("*", read))
    assert not may(read, "pay-1", allow("pay-1", read), deny("pay-", read, PREFIXED))
    assert may(read, "shop", allow("*", read), deny("pay-", read, PREFIXED))


def test_to_deny_reading_is_not_to_deny_seeing() -> None:
    assert may(Operation.DESCRIBE, "t", allow("t", Operation.READ))
    acls = (allow("t", Operation.WRITE), deny("t", Operation.READ))
    assert may(Operation.DESCRIBE, "t", *acls)
    assert not may(Operation.DESCRIBE, "t", *acls, deny("t", Operation.DESCRIBE))
    assert may(Operation.DESCRIBE_CONFIGS, "t", allow("t", Operation.ALTER_CONFIGS))
    assert not may(Operation.ALTER_CONFIGS, "t", allow("t", Operation.DESCRIBE_CONFIGS))


def test_a_prefix_that_is_a_star_is_a_star() -> None:
    assert not may(Operation.READ, "t", allow("*", Operation.READ, PREFIXED))
    assert may(Operation.READ, "*t", allow("*", Operation.READ, PREFIXED))


def test_something_is_writable_unless_all_of_it_is_denied() -> None:
    write = Operation.WRITE

    def somewhere(*acls: Acl) -> bool:
        return index_of(list(acls)).allows_any(("User:x", "User:*"), "h", write, TOPIC)

    assert somewhere(allow("t", write))
    assert not somewhere(allow("t", write), deny("t", write))
    assert not somewhere(allow("test", write), deny("te", write, PREFIXED))
    assert not somewhere(allow("test", write, PREFIXED), deny("te", write, PREFIXED))
    assert somewhere(allow("te", write, PREFIXED), deny("test", write, PREFIXED))
    assert somewhere(allow("*", write), deny("te", write, PREFIXED))
    assert not somewhere(allow("*", write), deny("*", write))
    assert not somewhere()


def test_filters_find_by_type_name_and_pattern() -> None:
    rules = [
        ResourcePattern(TOPIC, "orders"),
        ResourcePattern(TOPIC, "ord", PREFIXED),
        ResourcePattern(TOPIC, "*"),
        ResourcePattern(ResourceType.GROUP, "orders"),
    ]

    def found(wanted: AclFilter) -> list[ResourcePattern]:
        return list(filter(wanted.matches_resource, rules))

    assert found(AclFilter()) == rules
    assert found(AclFilter(TOPIC, "orders", PatternType.MATCH)) == rules[:3]
    assert found(AclFilter(TOPIC, "orders", PatternType.ANY)) == rules[:1]
    assert found(AclFilter(TOPIC, "ord", PREFIXED)) == rules[1:2]
    assert found(AclFilter(TOPIC, "*", LITERAL)) == rules[2:3]
    assert found(AclFilter(TOPIC, None, PREFIXED)) == rules[1:2]
    assert found(AclFilter(ResourceType.ANY, "orders", LITERAL)) == [rules[0], rules[3]]
