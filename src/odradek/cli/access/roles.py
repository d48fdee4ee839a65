"""`odradek roles`: grant, revoke and list roles, and show what each permits."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.config.spelling import did_you_mean
from odradek.tools.failures import MissingFlag, UsageError

ROLES = ("reader", "writer", "owner", "operator", "security-admin", "user-admin")

_EXAMPLES = """\
examples:
  odradek roles grant reader --principal User:ada --topic orders
  odradek roles grant owner --principal Group:shop --topic shop- --group shop- --prefixed
  odradek roles grant operator --principal User:max --cluster
  odradek roles revoke reader --principal User:ada --topic orders
  odradek roles list --principal User:ada
  odradek roles describe                   # what each role permits

Roles permit; ACLs that deny win over them (odradek acls). Roles are obeyed by brokers with an
authorizer.class.name; others refuse to keep them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek roles grant|revoke|list|describe [ROLE] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "action", choices=("grant", "revoke", "list", "describe"), help="what to do"
    )
    parser.add_argument("role", metavar="ROLE", nargs="?", help=f"one of {', '.join(ROLES)}")
    parser.add_argument(
        "--principal",
        metavar="WHO",
        action="append",
        default=[],
        help="who, as in User:ada or Group:shop; may be repeated",
    )
    for flag, description in (
        ("--topic", "on a topic"),
        ("--group", "on a group"),
        ("--transactional-id", "on a transactional id"),
    ):
        parser.add_argument(
            flag,
            metavar="NAME",
            action="append",
            default=[],
            help=f"{description}, * for all; may be repeated",
        )
    parser.add_argument("--cluster", action="store_true", help="on the cluster itself")
    parser.add_argument("--prefixed", action="store_true", help="the names are beginnings of names")
    parser.add_argument(
        "--resource-pattern-type",
        choices=("literal", "prefixed"),
        type=str.lower,
        help="the same in the words of `odradek acls` (default: literal)",
    )
    add_json_argument(parser)
    add_watch_argument(parser, changing=("grant", "revoke"))
    add_connection_arguments(parser)


def check(arguments: argparse.Namespace) -> None:
    names_resource = bool(
        arguments.topic or arguments.group or arguments.transactional_id or arguments.cluster
    )
    if arguments.role is not None:
        arguments.role = arguments.role.lower().replace("_", "-")
        if arguments.role not in ROLES:
            near = did_you_mean(arguments.role, list(ROLES)) or f"; there are {', '.join(ROLES)}"
            raise UsageError(f"there is no role {arguments.role}{near}")
    if arguments.action in ("grant", "revoke"):
        example = f"odradek roles {arguments.action} reader --principal User:ada --topic orders"
        if arguments.role is None:
            raise UsageError(f"say which role, as in {example}")
        if not arguments.principal:
            raise MissingFlag(f"say who, as in {example}")
        if not names_resource:
            raise MissingFlag(f"say where: --topic, --group, --cluster, ... as in {example}")
    elif arguments.action == "describe" and (names_resource or arguments.principal):
        raise UsageError(
            "describe shows what roles permit; `odradek roles list` shows who has them"
        )
    for who in arguments.principal:
        kind, colon, name = who.partition(":")
        if not (kind and colon and name):
            raise UsageError(
                f"'{who}' is not a valid principal: write type:name, as in User:ada or Group:shop"
            )
        if kind not in ("User", "Group") and kind.capitalize() in ("User", "Group"):
            raise UsageError(f"'{who}' would apply to nobody: write {kind.capitalize()}:{name}")
    if arguments.prefixed and arguments.resource_pattern_type == "literal":
        raise UsageError("--prefixed and --resource-pattern-type literal contradict each other")


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    if arguments.action == "describe":
        from odradek.cli.access.role_table import describe

        return describe(arguments.role, as_json=arguments.json)
    import asyncio

    from odradek.cli.access.role_actions import grant, revoke, show

    action = {"grant": grant, "revoke": revoke, "list": show}[arguments.action]
    return asyncio.run(action(arguments))
