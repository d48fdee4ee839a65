"""`odradek acls`: list, add and remove ACLs, as kafka-acls does; and explain what they decide."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import OlderSpelling
from odradek.config.spelling import did_you_mean
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.hints import hint

_EXAMPLES = """\
examples:
  odradek acls --add --allow-principal User:alice --operation Read --topic orders
  odradek acls --add --allow-principal User:shop --producer --topic orders
  odradek acls --add --allow-principal User:bob --consumer --topic orders --group billing
  odradek acls --add --deny-principal User:eve --operation All --topic pay- \\
      --resource-pattern-type prefixed
  odradek acls --list --topic orders --resource-pattern-type match
  odradek acls --remove --topic orders --force
  odradek acls --explain User:ada --operation Write --topic orders

--explain says whether it is allowed, which rule or role decides and why, and what would have to be
added. Its exit code is 0 if it is allowed, and 1 if not.

Rules that deny win over rules that allow. They are obeyed by brokers with an
authorizer.class.name; others refuse to keep them.
"""

OPERATIONS = (
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "ClusterAction",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
    "CreateTokens",
    "DescribeTokens",
    "TwoPhaseCommit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "odradek acls --list|--add|--remove|--explain WHO [resources] [who] [what] [flags]"
    )
    parser.epilog = _EXAMPLES
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", action="store_true", help="show rules, all or of resources")
    action.add_argument("--add", action="store_true", help="add rules")
    action.add_argument("--remove", action="store_true", help="remove rules")
    action.add_argument(
        "--explain",
        metavar="WHO",
        help="say whether a principal may do an --operation on a resource, and why",
    )
    _add_resources(parser.add_argument_group("resources"))
    _add_rules(parser.add_argument_group("who and what"))
    explain = parser.add_argument_group("with --explain")
    explain.add_argument("--host", metavar="HOST", help="from which address (default: any)")
    explain.add_argument(
        "--member-of",
        metavar="GROUP",
        action="append",
        help="a group that the principal is in, as in Group:shop; may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="remove without asking")
    add_json_argument(parser)
    add_watch_argument(parser, changing=("add", "remove"))
    add_connection_arguments(parser)
    parser.add_argument(
        "--bootstrap-controller",
        dest="bootstrap_server",
        action=OlderSpelling,
        instead="--bootstrap-server",
    )
    # Kafka's tool wrote to ZooKeeper by itself; ours asks a broker.
    parser.add_argument(
        "--authorizer-properties",
        dest="zookeeper",
        metavar="KEY=VALUE",
        nargs="+",
        action=OlderSpelling,
        instead="--bootstrap-server HOST:PORT",
    )
    parser.add_argument(
        "--authorizer",
        dest="older_authorizer",
        action=OlderSpelling,
        instead="authorizer.class.name in the settings of the brokers",
    )


def _add_resources(group: "argparse._ArgumentGroup") -> None:
    for flag, description in (
        ("--topic", "a topic"),
        ("--group", "a group"),
        ("--transactional-id", "a transactional id"),
        ("--delegation-token", "a delegation token"),
        ("--user-principal", "a user, for its tokens"),
    ):
        group.add_argument(
            flag,
            metavar="NAME",
            action="append",
            default=[],
            help=f"{description}, * for all; may be repeated",
        )
    group.add_argument("--cluster", action="store_true", help="the cluster itself")
    group.add_argument(
        "--resource-pattern-type",
        choices=("literal", "prefixed", "any", "match"),
        type=str.lower,
        default="literal",
        help="how names are meant: as they stand, or as beginnings; to list or remove also 'any'"
        " of the two, or 'match' for all rules that apply to the name (default: literal)",
    )


def _add_rules(group: "argparse._ArgumentGroup") -> None:
    for flag, description in (
        ("--allow-principal", "who may, as in User:alice; User:* is everybody"),
        ("--deny-principal", "denied principals, even if another rule allows them"),
        ("--allow-host", "from where, an address (default: *)"),
        ("--deny-host", "from where not, an address (default: *)"),
        ("--principal", "with --list: only rules about this one"),
    ):
        group.add_argument(
            flag, metavar="WHO" if "host" not in flag else "HOST", action="append", help=description
        )
    group.add_argument(
        "--operation",
        metavar="WHAT",
        action="append",
        help=f"what: {', '.join(OPERATIONS)} (default: All)",
    )
    group.add_argument(
        "--producer", action="store_true", help="Write, Describe, Create on the topics"
    )
    group.add_argument(
        "--consumer", action="store_true", help="Read, Describe on the topics, Read on the groups"
    )
    group.add_argument(
        "--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster"
    )


def check(arguments: argparse.Namespace) -> None:
    values = vars(arguments)
    names_rules = ("allow_principal", "deny_principal", "allow_host", "deny_host")
    is_role = arguments.producer or arguments.consumer
    if arguments.explain is not None:
        _check_explain(arguments, is_rule=is_role or any(values[name] for name in names_rules))
    elif arguments.host or arguments.member_of:
        raise UsageError("--host and --member-of go with --explain")
    if arguments.list and (is_role or any(values[name] for name in names_rules)):
        raise UsageError("--list takes resources and --principal, and no rules")
    if arguments.principal and not arguments.list:
        raise UsageError("--principal goes with --list; use --allow-principal or --deny-principal")
    if is_role and (arguments.operation or arguments.deny_principal or arguments.deny_host):
        raise UsageError("--producer and --consumer say which operations; they only allow")
    if arguments.idempotent and not arguments.producer:
        raise UsageError("--idempotent goes with --producer")
    if arguments.producer and not arguments.topic:
        raise MissingFlag("--producer needs a --topic")
    if arguments.consumer and not (arguments.topic and arguments.group):
        raise MissingFlag("--consumer needs a --topic and a --group")
    if arguments.add and not (arguments.allow_principal or arguments.deny_principal):
        raise MissingFlag("--add needs --allow-principal or --deny-principal")
    if arguments.add and arguments.resource_pattern_type not in ("literal", "prefixed"):
        raise UsageError("rules are added with --resource-pattern-type literal or prefixed")
    if not arguments.list and not _names_resource(arguments):
        raise UsageError("name a resource: --topic, --group, --cluster, --transactional-id, ...")
    _check_values(arguments)


def _check_explain(arguments: argparse.Namespace, *, is_rule: bool) -> None:
    if is_rule:
        raise UsageError("--explain takes the principal itself, an --operation and a resource")
    if not arguments.operation:
        raise MissingFlag("--explain needs an --operation, as in --operation Write")
    if "all" in (name.strip().lower() for name in arguments.operation):
        raise UsageError("--explain is about single operations: name one instead of All")
    if arguments.resource_pattern_type != "literal":
        raise UsageError("--explain is about resources by name; leave --resource-pattern-type out")


def _names_resource(arguments: argparse.Namespace) -> bool:
    return bool(
        arguments.topic
        or arguments.group
        or arguments.cluster
        or arguments.transactional_id
        or arguments.delegation_token
        or arguments.user_principal
    )


def _check_values(arguments: argparse.Namespace) -> None:
    if arguments.operation is not None:
        arguments.operation = [name for text in arguments.operation for name in text.split(",")]
    known = {operation.lower(): operation for operation in OPERATIONS}
    for name in arguments.operation or ():
        if name.replace("_", "").lower() not in known:
            near = did_you_mean(name, list(OPERATIONS))
            raise UsageError(f"there is no operation {name}{near}")
    for who in (
        *(arguments.allow_principal or ()),
        *(arguments.deny_principal or ()),
        *(arguments.principal or ()),
        *(arguments.member_of or ()),
        *((arguments.explain,) if arguments.explain is not None else ()),
    ):
        kind, colon, name = who.partition(":")
        if not (kind and colon and name):
            raise UsageError(
                f"'{who}' is not a valid principal: expected type:name, as in User:alice"
            )
        if ",User:" in who:
            raise UsageError(f"'{who}' is one principal; repeat the flag for each of several")
        if kind != "User" and kind.lower() == "user":
            raise UsageError(f"'{who}' would apply to nobody: write User:{name}, with a capital U")
    if arguments.add:
        _hint_at_names(arguments)


def _hint_at_names(arguments: argparse.Namespace) -> None:
    """Hints at rules that are valid and probably do not mean what they seem to."""
    for name in (*arguments.topic, *arguments.group, *arguments.transactional_id):
        if name.endswith("*") and name != "*" and arguments.resource_pattern_type == "literal":
            hint(
                f"only * alone stands for all names; for those that begin with {name[:-1]} give"
                f" {name[:-1]} and --resource-pattern-type prefixed"
            )
    for host in (*(arguments.allow_host or ()), *(arguments.deny_host or ())):
        if host != "*" and not _is_address(host):
            hint(f"brokers compare addresses of clients, like 10.0.0.7, with {host}, which is none")


def _is_address(host: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    import asyncio

    if arguments.explain is not None:
        from odradek.cli.access.explain_actions import explain

        return asyncio.run(explain(arguments))

    from odradek.cli.access.acl_actions import add, confirmed, remove, show

    # Before the event loop: there Ctrl-C cancels the task, and the wait for an answer goes on.
    if arguments.remove and not arguments.force and not confirmed(arguments):
        hint("nothing was removed")
        return 1
    action = add if arguments.add else remove if arguments.remove else show
    return asyncio.run(action(arguments))
