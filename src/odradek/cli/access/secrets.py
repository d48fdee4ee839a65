"""`odradek secrets`: keep passwords out of properties files."""

import argparse

from odradek.cli.connection_options import add_json_argument
from odradek.tools.failures import MissingFlag, UsageError

_EXAMPLES = """\
examples:
  odradek secrets create-key secrets.key           # a new key, in a file that only you can read
  odradek secrets encrypt --key-file secrets.key   # asks for a value, prints ${encrypted:...}
  odradek secrets decrypt --key-file secrets.key '${encrypted:...}'
  odradek secrets show server.properties           # which secrets a file refers to, without values

Every properties file that Odradek reads may contain ${file:PATH:KEY}, ${env:NAME}, ${dir:PATH:FILE}
and ${encrypted:...}. The key of encrypted values is in the file that odradek.secrets.key.file in
the same file names, or $ODRADEK_SECRETS_KEY_FILE, or it is $ODRADEK_SECRETS_KEY itself.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek secrets create-key|encrypt|decrypt|show [FILE or VALUE] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "action", choices=("create-key", "encrypt", "decrypt", "show"), help="what to do"
    )
    parser.add_argument(
        "argument",
        metavar="FILE|VALUE",
        nargs="?",
        help="with create-key: the new file; with show: a properties file; with decrypt: an"
        " encrypted value (default: standard input)",
    )
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="the file with the key (default: $ODRADEK_SECRETS_KEY_FILE)",
    )
    add_json_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    action, argument = arguments.action, arguments.argument
    if action in ("create-key", "show") and not argument:
        example = "secrets.key" if action == "create-key" else "server.properties"
        raise MissingFlag(f"name the file, as in: odradek secrets {action} {example}")
    if action == "encrypt" and argument:
        raise UsageError(
            "a value on the command line is seen by everybody on this machine: leave it out, and"
            " type it when you are asked, or pipe it in"
        )


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    from odradek.cli.access import secret_actions

    action = {
        "create-key": secret_actions.create_key,
        "encrypt": secret_actions.encrypt_value,
        "decrypt": secret_actions.decrypt_value,
        "show": secret_actions.show,
    }[arguments.action]
    return action(arguments)
