"""`odradek delegation-tokens`: create, list, renew and end delegation tokens, as
kafka-delegation-tokens."""

import argparse

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import exactly_one_of, flag_of, used_flags, whole_number
from odradek.tools.failures import MissingFlag, UsageError

_ACTIONS = ("create", "renew", "expire", "describe")
_ALLOWED = {
    "create": ("owner_principal", "renewer_principal", "max_life_time_period"),
    "renew": ("hmac", "renew_time_period"),
    "expire": ("hmac", "expiry_time_period"),
    "describe": ("owner_principal",),
}
_EXAMPLES = """\
examples:
  odradek delegation-tokens --create --max-life-time-period -1 --renewer-principal User:spark \\
      --command-config client.properties
  odradek delegation-tokens --describe --owner-principal User:ada --command-config client.properties
  odradek delegation-tokens --renew --renew-time-period -1 --hmac HMAC --command-config ...
  odradek delegation-tokens --expire --expiry-time-period -1 --hmac HMAC --command-config ...

Brokers give tokens only to clients that have logged in by SASL or by a certificate, and not to
those that have logged in by a token.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek delegation-tokens --create|--describe|--renew|--expire [flags]"
    parser.epilog = _EXAMPLES
    actions = parser.add_argument_group("what to do, one of")
    actions.add_argument("--create", action="store_true", help="create a token")
    actions.add_argument("--describe", action="store_true", help="show tokens, with their secrets")
    actions.add_argument("--renew", action="store_true", help="let a token end later")
    actions.add_argument("--expire", action="store_true", help="end a token, now or later")
    parser.add_argument(
        "--owner-principal",
        metavar="WHO",
        action="append",
        default=[],
        help="with --create: whose token, as in User:ada, if not your own; with --describe: only"
        " tokens that these own, have requested or may renew",
    )
    parser.add_argument(
        "--renewer-principal",
        metavar="WHO",
        action="append",
        default=[],
        help="who else may renew and end the token, as in User:spark; may be repeated",
    )
    parser.add_argument("--hmac", metavar="HMAC", help="the secret of the token, as it is shown")
    for flag, description in (
        ("--max-life-time-period", "how long the token can be renewed"),
        ("--renew-time-period", "how long the token shall last from now"),
        ("--expiry-time-period", "how long the token shall still last; -1: it ends at once"),
    ):
        default = "" if "-1" in description else "; -1, the default: as long as the brokers allow"
        parser.add_argument(flag, metavar="MS", type=whole_number, help=f"{description}{default}")
    add_json_argument(parser)
    add_watch_argument(parser, changing=("create", "renew", "expire"))
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    action = exactly_one_of(arguments, _ACTIONS)
    check(arguments, action)
    import asyncio

    from odradek.cli.access import delegation_token_actions as actions

    work = {
        "create": actions.create,
        "renew": actions.renew,
        "expire": actions.expire,
        "describe": actions.describe,
    }[action]
    return asyncio.run(work(arguments))


def check(arguments: argparse.Namespace, action: str) -> None:
    others = {name for names in _ALLOWED.values() for name in names} - set(_ALLOWED[action])
    for name in used_flags(arguments, sorted(others)):
        raise UsageError(f"{flag_of(name)} does not go with --{action}")
    if "hmac" in _ALLOWED[action] and not arguments.hmac:
        raise MissingFlag(f"--{action} needs --hmac HMAC, as --describe shows it")
    if action == "expire" and arguments.expiry_time_period is None:
        raise MissingFlag("--expire needs --expiry-time-period MS; -1 ends the token at once")
    if action == "create" and len(arguments.owner_principal) > 1:
        raise UsageError("a token has one owner: give --owner-principal once")
    for who in (*arguments.owner_principal, *arguments.renewer_principal):
        kind, colon, name = who.partition(":")
        if not (kind and colon and name):
            raise UsageError(f"'{who}' is not a valid principal: write type:name, as in User:ada")
        if kind != "User":
            raise UsageError(f"'{who}': only users have tokens; write User:{name}")
