"""Access rules as an operator types them, against a broker that obeys them."""

import json
from collections.abc import Iterator

import pytest

from odradek.testing import Cluster
from tests.scenarios.test_cli import Shell

ORDERS = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"


@pytest.fixture(scope="module")
def odradek() -> Iterator[Shell]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Cluster(settings=settings) as cluster:
        yield Shell(cluster.bootstrap)


def listed(odradek: Shell, *words: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(odradek.ok("acls", "--list", "--json", *words))
    return found


def test_the_life_of_a_rule(odradek: Shell) -> None:
    added = odradek.ok(
        "kafka-acls.sh", "--add", "--allow-principal", "User:alice", "--operation", "read",
        "--topic", "orders",
    )  # fmt: skip
    entry = "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    assert added == f"Adding ACLs for resource `{ORDERS}`: \n \t{entry} \n\n"
    shown = odradek.ok("acls", "--list", "--topic", "orders")
    assert shown == f"Current ACLs for resource `{ORDERS}`: \n \t{entry} \n\n"
    # Nobody else may read it now, and we are nobody.
    refused = odradek.refused("console-consumer", "--topic", "orders", "--from-beginning")
    assert "permission" in refused
    asked = odradek("acls", "--remove", "--topic", "orders", stdin="n\n")
    assert asked.returncode == 1
    assert f"delete all ACLs for resource filter `{ORDERS}`? (y/n)" in asked.stdout
    assert listed(odradek, "--topic", "orders")
    assert odradek("acls", "--remove", "--topic", "orders", stdin="y\n").returncode == 0
    assert listed(odradek, "--topic", "orders") == []


def test_roles_are_several_rules(odradek: Shell) -> None:
    odradek.ok(
        "acls", "--add", "--allow-principal", "User:shop", "--producer", "--consumer",
        "--topic", "shop-", "--group", "shop-", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    found = listed(odradek, "--topic", "shop-1", "--resource-pattern-type", "match")
    assert {one["operation"] for one in found} == {"WRITE", "DESCRIBE", "CREATE", "READ"}
    (group,) = listed(odradek, "--group", "shop-1", "--resource-pattern-type", "match")
    assert (group["operation"], group["patternType"]) == ("READ", "PREFIXED")
    assert listed(odradek, "--group", "shop-1") == []
    mine = odradek.ok("acls", "--list", "--principal", "User:shop")
    assert mine.startswith("ACLs for principal `User:shop`\n")
    odradek.ok(
        "acls", "--remove", "--topic", "shop-", "--group", "shop-", "--force",
        "--resource-pattern-type", "prefixed", "--allow-principal", "User:shop", "--consumer",
    )  # fmt: skip
    left = listed(odradek, "--topic", "shop-1", "--resource-pattern-type", "match")
    assert {one["operation"] for one in left} == {"WRITE", "CREATE"}
    odradek.ok("acls", "--remove", "--topic", "shop-", "--resource-pattern-type", "any", "--force")
    assert listed(odradek, "--topic", "shop-1", "--resource-pattern-type", "match") == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--add", "--topic", "t"), "--add needs --allow-principal or --deny-principal"),
        (("--add", "--allow-principal", "User:a"), "name a resource"),
        (("--add", "--allow-principal", "alice", "--topic", "t"), "as in User:alice"),
        (("--list", "--allow-principal", "User:a"), "--list takes resources"),
        (("--add", "--allow-principal", "User:a", "--consumer", "--topic", "t"), "and a --group"),
        (("--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Reed"), "Read?"),
        (("--remove", "--topic", "t", "--principal", "User:a"), "goes with --list"),
        (("--force",), "one of the arguments"),
    ],
)
def test_wrong_flags_are_one_clear_line(
    odradek: Shell, words: tuple[str, ...], complaint: str
) -> None:
    assert complaint in odradek.refused("acls", *words, code=2)


def test_operations_belong_to_resources(odradek: Shell) -> None:
    complaint = odradek.refused(
        "acls", "--add", "--allow-principal", "User:a", "--operation", "Write", "--group", "g"
    )
    assert "Write means nothing on a Group" in complaint


def test_a_broker_without_authorizer_says_what_to_set(odradek_cluster: Cluster) -> None:
    complaint = Shell(odradek_cluster.bootstrap).refused("acls", "--list")
    assert "authorizer.class.name" in complaint
