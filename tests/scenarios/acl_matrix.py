"""Random ACLs, roles and requests: the authorizer against an oracle written from Kafka's rules.

    python -m tests.scenarios.acl_matrix --cases 100000

Each case adds and removes some rules through the same code that serves CreateAcls, DeleteAcls and
AlterRoles, with a real metadata store; then a principal asks for an operation, from a host, perhaps
as a member of groups. The authorizer follows the image of the store, as a broker's does, and must
answer as the oracle, and so must what `odradek acls --explain` says. So removing one rule can
neither disable another one nor leave one behind.

The oracle shares nothing with the product but the names of types: it keeps its own set of rules,
and its tables of implied operations and of roles are written out here.
"""

import argparse
import asyncio
import random
import sys
import time
from typing import Final, NamedTuple

from odradek.cluster.acls import AclStore
from odradek.cluster.roles import RoleStore
from odradek.config import BrokerSettings
from odradek.metadata import MetadataCache
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.store_setup import prepare_store
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
from odradek.protocol.roles import Role, RoleBinding
from odradek.security.authorizer import AclAuthorizer
from odradek.security.principals import Principal
from odradek.security.roles import Area

# The world of a case is small, so that rules and requests meet.
NAMES: Final = ("a", "ab", "abc", "b", "ba", "*", "a*")
USERS: Final = ("User:ada", "User:max", "User:*", "Group:shop", "Group:ops", "User:root")
HOSTS: Final = ("10.0.0.1", "10.0.0.2", "*")
NAMED: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
KINDS: Final = (*NAMED, ResourceType.CLUSTER, ResourceType.DELEGATION_TOKEN, ResourceType.USER)
OPERATIONS: Final = tuple(operation for operation in Operation if operation > Operation.ANY)
ASKED: Final = tuple(operation for operation in OPERATIONS if operation is not Operation.ALL)
CLUSTER: Final = "kafka-cluster"
# A fresh cluster after so many cases: rules pile up otherwise.
CASES_PER_CLUSTER: Final = 400
MAX_RULES: Final = 14

# Kafka's documentation: "Read, Write, Delete and Alter imply Describe; AlterConfigs implies
# DescribeConfigs", for rules that allow.
IMPLIES: Final = {
    "READ": {"DESCRIBE"},
    "WRITE": {"DESCRIBE"},
    "DELETE": {"DESCRIBE"},
    "ALTER": {"DESCRIBE"},
    "ALTER_CONFIGS": {"DESCRIBE_CONFIGS"},
}
_MANAGED: Final = {
    "TOPIC": "CREATE DELETE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS",
    "GROUP": "DELETE DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS",
    "TRANSACTIONAL_ID": "DESCRIBE",
}
_SEEN: Final = dict.fromkeys(("TOPIC", "GROUP", "TRANSACTIONAL_ID"), "DESCRIBE")
# What a role permits on the resource that it is bound on.
ON_NAMED: Final[dict[str, dict[str, str]]] = {
    "READER": {
        "TOPIC": "READ DESCRIBE DESCRIBE_CONFIGS",
        "GROUP": "READ DESCRIBE DESCRIBE_CONFIGS",
    },
    "WRITER": {"TOPIC": "WRITE DESCRIBE DESCRIBE_CONFIGS", "TRANSACTIONAL_ID": "WRITE DESCRIBE"},
    "OWNER": {"TOPIC": "ALL", "GROUP": "ALL", "TRANSACTIONAL_ID": "ALL"},
    "OPERATOR": _MANAGED,
}
# What a role that is bound on the cluster permits there, in which area, and elsewhere.
ON_CLUSTER: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "OPERATOR": (
        "OPERATION",
        "CREATE DELETE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS",
        _MANAGED,
    ),
    "SECURITY_ADMIN": ("ACCESS", "ALTER DESCRIBE", _SEEN),
    "USER_ADMIN": (
        "USERS",
        "ALTER DESCRIBE ALTER_CONFIGS",
        {"USER": "CREATE_TOKENS DESCRIBE_TOKENS", "DELEGATION_TOKEN": "DESCRIBE"},
    ),
}


class Asked(NamedTuple):
    principal: Principal
    host: str
    operation: Operation
    kind: ResourceType
    name: str
    area: Area


class Oracle:
    """Decides by walking over all rules, in the words of Kafka's documentation."""

    def __init__(self, super_users: frozenset[str], *, is_open: bool) -> None:
        self.acls: set[Acl] = set()
        self.roles: set[RoleBinding] = set()
        self._super_users = super_users
        self._is_open = is_open

    def allows(self, asked: Asked) -> bool:
        who = {str(asked.principal), *asked.principal.groups}
        if who & self._super_users:
            return True
        operation = asked.operation.name
        about = [acl for acl in self.acls if self._matches(acl.resource, asked)]
        mine = [
            acl.entry
            for acl in about
            if acl.entry.principal in who | {"User:*"} and acl.entry.host in (asked.host, "*")
        ]
        for entry in mine:
            if entry.permission.name == "DENY" and entry.operation.name in (operation, "ALL"):
                return False
        if any(e.permission.name == "ALLOW" and _grants(e.operation.name, operation) for e in mine):
            return True
        is_named = False
        for principal, role, resource in self.roles:
            permitted = ""
            if resource.type is ResourceType.CLUSTER:
                area, on_cluster, elsewhere = ON_CLUSTER[role.name]
                if asked.kind is ResourceType.CLUSTER:
                    permitted = on_cluster if asked.area.name == area else ""
                else:
                    permitted = elsewhere.get(asked.kind.name, "")
            elif self._matches(resource, asked):
                is_named = True
                permitted = ON_NAMED[role.name][asked.kind.name]
            if principal in who | {"User:*"} and any(
                _grants(allowed, operation) for allowed in permitted.split()
            ):
                return True
        return self._is_open and not about and not is_named

    @staticmethod
    def _matches(resource: ResourcePattern, asked: Asked) -> bool:
        if resource.type is not asked.kind:
            return False
        if resource.pattern is PatternType.PREFIXED:
            return asked.name.startswith(resource.name)
        return resource.name in (asked.name, "*")


def _grants(allowed: str, operation: str) -> bool:
    return allowed in (operation, "ALL") or operation in IMPLIES.get(allowed, ())


class Cluster:
    """The product's side: a store, its image, and the authorizer that follows it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        is_open = rng.random() < 0.3
        supers = frozenset(rng.sample(("User:root", "Group:ops"), rng.randint(0, 2)))
        settings = {
            "super.users": ";".join(sorted(supers)),
            "allow.everyone.if.no.acl.found": str(is_open).lower(),
        }
        self.oracle = Oracle(supers, is_open=is_open)
        self.authorizer = AclAuthorizer(BrokerSettings.from_properties(settings))

    async def open(self) -> None:
        store = MemoryMetadata().connect()
        await prepare_store(store, "cluster")
        self._cache = MetadataCache(store)
        await self._cache.load()
        self._acls = AclStore(store, self._cache)
        self._roles = RoleStore(store, self._cache)

    async def change(self) -> None:
        for _ in range(self._rng.randint(1, 3)):
            await self._rng.choice((self._add, self._add, self._remove, self._change_role))()
        image = self._cache.image
        self.authorizer.follow(image.acls)
        self.authorizer.follow_roles(image.roles)

    async def _add(self) -> None:
        if len(self.oracle.acls) >= MAX_RULES:
            await self._remove()
            return
        acl = self._random_acl()
        await self._acls.add(acl.resource, [acl.entry])
        self.oracle.acls.add(acl)

    async def _remove(self) -> None:
        """Removes one rule, or all that a random filter selects."""
        if not self.oracle.acls:
            return
        acl = self._rng.choice(sorted(self.oracle.acls))
        entry = acl.entry
        chosen = self._rng.random
        acl_filter = AclFilter(
            acl.resource.type,
            acl.resource.name,
            acl.resource.pattern,
            None if chosen() < 0.2 else entry.principal,
            None if chosen() < 0.2 else entry.host,
            Operation.ANY if chosen() < 0.2 else entry.operation,
            Permission.ANY if chosen() < 0.2 else entry.permission,
        )
        removed = await self._acls.remove(acl.resource, acl_filter)
        expected = {
            other
            for other in self.oracle.acls
            if other.resource == acl.resource
            and acl_filter.principal in (None, other.entry.principal)
            and acl_filter.host in (None, other.entry.host)
            and acl_filter.operation in (Operation.ANY, other.entry.operation)
            and acl_filter.permission in (Permission.ANY, other.entry.permission)
        }
        assert {Acl(acl.resource, one) for one in removed} == expected
        self.oracle.acls -= expected

    async def _change_role(self) -> None:
        if self.oracle.roles and (self._rng.random() < 0.5 or len(self.oracle.roles) > 5):
            binding = self._rng.choice(sorted(self.oracle.roles))
            assert await self._roles.change(binding.principal, [], [binding]) == (binding,)
            self.oracle.roles.discard(binding)
            return
        role = self._rng.choice([role for role in Role if role is not Role.UNKNOWN])
        kinds = [kind for kind in NAMED if kind.name in ON_NAMED.get(role.name, {})]
        is_on_cluster = role.name in ON_CLUSTER and (not kinds or self._rng.random() < 0.5)
        resource = (
            ResourcePattern(ResourceType.CLUSTER, CLUSTER)
            if is_on_cluster
            else ResourcePattern(self._rng.choice(kinds), self._rng.choice(NAMES), self._pattern())
        )
        binding = RoleBinding(self._rng.choice(USERS), role, resource)
        await self._roles.change(binding.principal, [binding], [])
        self.oracle.roles.add(binding)

    def _pattern(self) -> PatternType:
        return self._rng.choice((PatternType.LITERAL, PatternType.PREFIXED))

    def _random_acl(self) -> Acl:
        rng = self._rng
        kind = rng.choice(KINDS)
        name = CLUSTER if kind is ResourceType.CLUSTER else rng.choice(NAMES)
        pattern = PatternType.LITERAL if kind is ResourceType.CLUSTER else self._pattern()
        permission = Permission.DENY if rng.random() < 0.3 else Permission.ALLOW
        operation = Operation.ALL if rng.random() < 0.2 else rng.choice(OPERATIONS)
        entry = AccessEntry(rng.choice(USERS), rng.choice(HOSTS), operation, permission)
        return Acl(ResourcePattern(kind, name, pattern), entry)

    def random_request(self) -> Asked:
        rng = self._rng
        kind = rng.choice(KINDS)
        groups = rng.sample(("shop", "ops", "empty"), rng.randint(0, 2))
        principal = Principal("User", rng.choice(("ada", "max", "eve", "root"))).in_groups(groups)
        name = CLUSTER if kind is ResourceType.CLUSTER else rng.choice(NAMES)
        area = rng.choice(tuple(Area)) if kind is ResourceType.CLUSTER else Area.OPERATION
        return Asked(principal, rng.choice(HOSTS[:2]), rng.choice(ASKED), kind, name, area)

    def compare(self, asked: Asked) -> bool:
        """Raises if the authorizer differs from the oracle. Returns what both decided."""
        principal, host, operation, kind, name, area = asked
        expected = self.oracle.allows(asked)
        question = (principal, host, operation, kind, name)
        if area is not Area.OPERATION:
            decided = self.authorizer.allows_on_cluster(principal, host, operation, area)
        else:
            decided = self.authorizer.allows(*question)
            explained = self.authorizer.explain(*question)
            assert explained.is_allowed is expected, f"{asked}: explained as {explained}"
            assert explained.reason
            if expected:
                assert self.authorizer.allows_any(principal, host, operation, kind), asked
            else:
                self._check_advice(asked)
        if decided is not expected:
            raise AssertionError(
                f"{asked} is {'allowed' if decided else 'denied'}, and the oracle says the"
                f" opposite.\nACLs: {sorted(self.oracle.acls)}\nroles: {sorted(self.oracle.roles)}"
            )
        return expected

    def _check_advice(self, asked: Asked) -> None:
        """What the explanation says would allow the operation must do so, by the oracle."""
        explained = self.authorizer.explain(*asked[:5])
        before = set(self.oracle.acls), set(self.oracle.roles)
        self.oracle.acls -= set(explained.in_the_way)
        advice: list[Acl | RoleBinding | None] = [*explained.missing]
        advice += explained.missing_roles
        if not advice:
            advice.append(None)
        for added in advice:
            self.oracle.acls, self.oracle.roles = before[0] - set(explained.in_the_way), before[1]
            if isinstance(added, Acl):
                self.oracle.acls = self.oracle.acls | {added}
            elif isinstance(added, RoleBinding):
                self.oracle.roles = before[1] | {added}
            assert self.oracle.allows(asked), f"{asked}: {added} would not allow it"
        self.oracle.acls, self.oracle.roles = before


async def run_cases(cases: int, seed: int) -> tuple[int, int]:
    """Returns how many requests were allowed and how many denied."""
    rng = random.Random(seed)
    counts = [0, 0]
    cluster: Cluster | None = None
    for number in range(cases):
        if cluster is None or number % CASES_PER_CLUSTER == 0:
            cluster = Cluster(rng)
            await cluster.open()
        await cluster.change()
        counts[cluster.compare(cluster.random_request())] += 1
    return counts[True], counts[False]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begun_s = time.monotonic()
    allowed, denied = asyncio.run(run_cases(arguments.cases, arguments.seed))
    print(
        f"{arguments.cases} cases from seed {arguments.seed}: {allowed} allowed, {denied} denied,"
        f" none decided otherwise than by the oracle; {time.monotonic() - begun_s:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
