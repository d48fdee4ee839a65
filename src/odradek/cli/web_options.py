"""Flags of commands that serve HTTP: where they listen, TLS, and who may log in."""

import argparse
from typing import TYPE_CHECKING

from odradek.cli.parser import whole_number
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import read_text

if TYPE_CHECKING:
    from odradek.web.guards import Limits, Policy
    from odradek.web.serving import Listener


def add_web_arguments(parser: argparse.ArgumentParser, port: int, action: str) -> None:
    """`action` is the word of the tool that serves."""
    group = parser.add_argument_group(f"with {action}")
    group.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1",
        help="listen there (default: 127.0.0.1, this machine only)",
    )  # fmt: skip
    group.add_argument(
        "--port", type=whole_number, default=port, help=f"listen there (default: {port})"
    )
    group.add_argument(
        "--allowed-host", metavar="NAME", action="append", default=[],
        help="a name by which clients call the service, beside this machine's; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--users", metavar="FILE",
        help="who may log in by password, as python -m odradek.web.login NAME prints it",
    )  # fmt: skip
    group.add_argument("--tokens", metavar="FILE", help="who may log in by a bearer token")
    group.add_argument("--tls-certificate", metavar="FILE", help="serve https, with this PEM file")
    group.add_argument("--tls-key", metavar="FILE", help="the key, if it is in another file")
    group.add_argument(
        "--tls-client-ca", metavar="FILE", help="clients need a certificate of this authority"
    )


def require_web(extra: str = "web") -> None:
    """Ends the command if the extra `web` is not installed, and names `extra`, which has it."""
    from odradek.web import missing

    advice = missing(extra)
    if advice is not None:
        raise CommandFailed(advice)


def listener_of(arguments: argparse.Namespace) -> "Listener":
    from odradek.web.serving import Listener, Tls

    tls = None
    if arguments.tls_certificate is not None:
        tls = Tls(arguments.tls_certificate, arguments.tls_key, arguments.tls_client_ca)
    elif arguments.tls_key is not None or arguments.tls_client_ca is not None:
        raise UsageError("--tls-key and --tls-client-ca need --tls-certificate FILE")
    return Listener(arguments.host, arguments.port, tls)


def policy_of(
    arguments: argparse.Namespace, listener: "Listener", limits: "Limits | None" = None
) -> "Policy":
    from odradek.web.guards import Limits, Policy
    from odradek.web.login import BadLoginFile, Login, read_tokens, read_users

    try:
        login = Login(
            users=read_users(read_text(arguments.users), arguments.users)
            if arguments.users
            else {},
            tokens=read_tokens(read_text(arguments.tokens), arguments.tokens)
            if arguments.tokens
            else {},
            certificates=arguments.tls_client_ca is not None,
        )
    except BadLoginFile as error:
        raise CommandFailed(str(error)) from None
    hosts = {name.lower() for name in arguments.allowed_host}
    if listener.host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        hosts.add(listener.host.lower())
    return Policy(listener.is_loopback, frozenset(hosts), login, limits or Limits())
