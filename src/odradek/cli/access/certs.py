"""`odradek certs`: certificates for brokers and clients, from an authority of one's own."""

import argparse

from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import positive_number
from odradek.tools.failures import UsageError

DEFAULT_DAYS = 365

_EXAMPLES = """\
examples:
  odradek certs create                              # an authority, and one for this machine
  odradek certs create --name broker-1 --host kafka1.example.org --host 10.0.0.7
  odradek certs create --name ada                   # a client that logs in with its certificate
  odradek certs show                                # names, and for how long they are valid
  odradek certs renew                               # all of them; brokers read them while they run
  odradek certs renew --name broker-1 --days 90

`create` makes DIR/ca.crt, which clients trust, and DIR/NAME.pem, which holds a key and its
certificate. In the properties of a broker, or of a client with a certificate of its own:

  ssl.keystore.type=PEM
  ssl.keystore.location=certs/broker-1.pem
  ssl.truststore.type=PEM
  ssl.truststore.location=certs/ca.crt

Keep DIR/ca.key to yourself: whoever has it can pass for any broker and any client.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek certs create|renew|show [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=("create", "renew", "show"), help="what to do")
    parser.add_argument(
        "--dir", metavar="DIR", default="./certs", help="where the files are (default: ./certs)"
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        action="append",
        default=[],
        help="a broker or a client; may be repeated (default: broker with create, all with the"
        " others)",
    )
    parser.add_argument(
        "--host",
        metavar="HOST",
        action="append",
        default=[],
        help="with create: a name or an address that clients connect to; may be repeated (default:"
        " localhost and its addresses)",
    )
    parser.add_argument(
        "--days",
        metavar="N",
        type=positive_number,
        default=DEFAULT_DAYS,
        help=f"for how long certificates are valid (default: {DEFAULT_DAYS})",
    )
    parser.add_argument(
        "--pkcs12",
        metavar="PASSWORD_FILE",
        help="with create and renew: write NAME.p12 too, with the password in this file",
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.action != "create" and arguments.host:
        raise UsageError(f"--host is for create; {arguments.action} keeps the hosts as they are")
    if arguments.action == "show" and arguments.pkcs12:
        raise UsageError("--pkcs12 is for create and renew")
    from odradek.cli.access.certs_actions import ACTIONS

    return ACTIONS[arguments.action](arguments)
