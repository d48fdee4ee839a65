"""Roles and explained access as an operator types them, against a broker that obeys them."""

import json
from collections.abc import Iterator

import pytest

from odradek.testing import Cluster
from tests.scenarios.test_cli import Shell


@pytest.fixture(scope="module")
def odradek() -> Iterator[Shell]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Cluster(settings=settings) as cluster:
        yield Shell(cluster.bootstrap)


def test_the_life_of_a_role(odradek: Shell) -> None:
    odradek.ok("topics", "--create", "--topic", "orders")
    granted = odradek.ok("roles", "grant", "owner", "--principal", "User:max", "--topic", "orders")
    assert granted == "Granted owner to User:max on topic orders.\n"
    # Somebody owns it, so nobody else may use it.
    refused = odradek.refused("console-consumer", "--topic", "orders", "--from-beginning")
    assert "permission" in refused
    odradek.ok("roles", "grant", "reader", "--principal", "User:ANONYMOUS", "--topic", "ord",
               "--prefixed")  # fmt: skip
    assert odradek.ok("topics", "--describe", "--topic", "orders").startswith("Topic: orders")
    listed = odradek.ok("roles", "list", "--principal", "User:max")
    assert listed.splitlines()[1].split() == ["User:max", "owner", "Topic", "orders", "LITERAL"]
    found = json.loads(odradek.ok("roles", "list", "--json"))
    assert {one["role"] for one in found} == {"owner", "reader"}
    revoked = odradek.ok("roles", "revoke", "owner", "--principal", "User:max", "--topic", "orders")
    assert revoked == "Revoked owner from User:max on topic orders.\n"
    again = odradek("roles", "revoke", "owner", "--principal", "User:max", "--topic", "orders")
    assert again.returncode == 1
    assert "it was not granted" in again.stderr


def test_explain_says_what_decides_and_what_is_missing(odradek: Shell) -> None:
    odradek.ok("acls", "--add", "--deny-principal", "User:ada", "--operation", "Write", "--topic",
               "pay-", "--resource-pattern-type", "prefixed")  # fmt: skip
    odradek.ok("roles", "grant", "writer", "--principal", "Group:shop", "--topic", "pay-1")
    denied = odradek("acls", "--explain", "User:ada", "--operation", "Write", "--topic", "pay-1")
    assert denied.returncode == 1
    lines = denied.stdout.splitlines()
    assert lines[0] == "User:ada, Write on topic pay-1: denied"
    assert lines[1] == "because: Deny Write to User:ada from * on Topic:PREFIXED:pay-"
    remove = next(line for line in lines if "odradek acls --remove" in line)
    # The advice works as it is printed.
    odradek.ok(*remove.split()[1:], "--force")
    member = odradek("acls", "--explain", "User:ada", "--member-of", "Group:shop", "--operation",
                     "Write", "--topic", "pay-1")  # fmt: skip
    assert member.returncode == 0
    assert "because: the role writer of Group:shop on Topic:LITERAL:pay-1" in member.stdout
    missing = odradek("acls", "--explain", "User:ada", "--operation", "Write", "--topic", "pay-1")
    add = next(line for line in missing.stdout.splitlines() if "odradek roles grant" in line)
    odradek.ok(*add.split()[1:])
    words = ("acls", "--explain", "User:ada", "--operation", "write,Describe", "--topic", "pay-1")
    explained = json.loads(odradek.ok(*words, "--json"))
    assert [one["allowed"] for one in explained] == [True, True]
    assert {one["cause"] for one in explained} == {"allowed-by-role"}


@pytest.mark.parametrize(
    "resource",
    [
        ("--group", "g", "Read"),
        ("--cluster", "", "ClusterAction"),
        ("--transactional-id", "x", "Write"),
        ("--delegation-token", "d", "Describe"),
        ("--user-principal", "User:max", "CreateTokens"),
    ],
)
def test_every_kind_of_resource_is_explained(odradek: Shell, resource: tuple[str, ...]) -> None:
    flag, name, operation = resource
    explained = odradek.ok("acls", "--explain", "User:ada", "--operation", operation, flag,
                           *filter(None, [name]))  # fmt: skip
    assert "allow.everyone.if.no.acl.found=true" in explained


def test_describe_needs_no_broker() -> None:
    nowhere = Shell("127.0.0.1:1")
    described = nowhere.ok("roles", "describe", "writer")
    assert described.startswith("writer: writes records")
    assert "a topic" in described
    assert len(json.loads(nowhere.ok("roles", "describe", "--json"))) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("grant", "say which role"),
        ("grant king --principal User:a --topic t", "there is no role king"),
        ("grant readr --principal User:a --topic t", "reader"),
        ("grant reader --topic t", "say who"),
        ("grant reader --principal ada --topic t", "is not a valid principal"),
        ("grant reader --principal user:ada --topic t", "write User:ada"),
        ("grant reader --principal User:ada", "say where"),
        ("describe --topic t", "odradek roles list"),
    ],
)
def test_mistakes_are_answered(words: str, said: str) -> None:
    done = Shell("127.0.0.1:1")("roles", *words.split())
    assert done.returncode == 2
    assert said in done.stderr


def test_what_a_broker_refuses_is_said_in_a_line(odradek: Shell) -> None:
    refused = odradek.refused("roles", "grant", "reader", "--principal", "User:ada", "--cluster")
    assert "reader is bound to a topic, a group or a transactional id" in refused
