"""`odradek keys`: the keys of encrypted topics."""

import argparse

from odradek.cli.connection_options import add_json_argument
from odradek.tools.failures import MissingFlag, UsageError

_ACTIONS = ("create", "rotate", "show", "rewrap", "shred")

_EXAMPLES = """\
examples:
  odradek keys create orders --key-file /mnt/keys/topics.json
  odradek keys show --config server.properties       # the provider that the broker uses
  odradek keys rotate orders --config server.properties
  odradek keys rewrap --config server.properties     # the broker is stopped
  odradek keys shred orders --config server.properties

A topic is encrypted by its setting odradek.encryption.key=NAME. rotate adds a version, which new
segments use within a minute. rewrap lets the newest version protect old segments too, without
rewriting them. shred deletes a key with all versions: nothing that was encrypted under it can ever
be read again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek keys create|rotate|show|rewrap|shred [NAME] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=_ACTIONS, help="what to do")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name of the key")
    parser.add_argument("--key-file", metavar="FILE", help="the file with the keys")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the properties file of a broker, which names its key provider",
    )
    parser.add_argument("--force", action="store_true", help="with shred: do not ask")
    add_json_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    action = arguments.action
    if not arguments.name and action not in ("show", "rewrap"):
        raise MissingFlag(f"name the key, as in: odradek keys {action} orders --key-file FILE")
    if bool(arguments.key_file) == bool(arguments.config):
        raise UsageError(
            "say where the keys are: --key-file FILE, or --config with the properties of a broker"
        )
    if action == "rewrap" and not arguments.config:
        raise UsageError("rewrap needs --config with the properties of a broker, for log.dirs")


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    from odradek.cli.access import key_actions

    action = {
        "create": key_actions.create,
        "rotate": key_actions.rotate,
        "show": key_actions.show,
        "rewrap": key_actions.rewrap,
        "shred": key_actions.shred,
    }[arguments.action]
    return key_actions.carried_out(action, arguments)
