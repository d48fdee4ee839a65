"""What a user can check if no broker can be reached: the address, by the name that was typed."""

import argparse
from typing import Final

from odradek.tools.client_properties import DEFAULT_BOOTSTRAP, bootstrap_servers

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORT: Final = DEFAULT_BOOTSTRAP.rpartition(":")[2]
_ZOOKEEPERS_PORT: Final = "2181"


def what_to_check(failure: BaseException, arguments: argparse.Namespace | None) -> str:
    """Returns the end of the sentence about a failed connection. `arguments` are those of a tool;
    they may lack the flags of a connection, if the tool does not have them."""
    if not hasattr(arguments, "bootstrap_server") or arguments is None:
        return _if_none_is_named()
    servers = bootstrap_servers(arguments)
    if servers.named_by is None:
        return _if_none_is_named() + _if_it_wants_tls(failure, arguments)
    addresses = [address.strip() for address in servers.addresses.split(",")]
    hosts = {host_of(address) for address in addresses}
    ports = [address.rpartition(":")[2] for address in addresses]
    if _ZOOKEEPERS_PORT in ports:
        return (
            f"{_ZOOKEEPERS_PORT} is the port of ZooKeeper; brokers usually listen at"
            f" {_DEFAULT_PORT}: correct {servers.named_by}"
        )
    if _is_no_broker(failure) or not hosts <= LOOPBACK or len(addresses) > 1:
        return (
            f"check that brokers run, and that {servers.named_by} has their addresses"
            f"{_if_it_wants_tls(failure, arguments)}"
        )
    port = "" if ports[0] == _DEFAULT_PORT else f" --port {ports[0]}"
    return f"start one there with `odradek up{port}`, or correct {servers.named_by}"


def host_of(address: str) -> str:
    return address.strip().rpartition(":")[0].strip("[]")


def _if_none_is_named() -> str:
    return "start one with `odradek up`, or name another with --bootstrap-server HOST:PORT"


def _if_it_wants_tls(failure: BaseException, arguments: argparse.Namespace) -> str:
    """Returns what to do at a secured cluster, whose brokers close a connection without TLS at
    once; nothing if the user has given a file with settings."""
    if getattr(arguments, "command_config", None) or not _has_closed(failure):
        return ""
    return "; a secured cluster needs --command-config FILE, such as its client.properties"


def _is_no_broker(failure: BaseException) -> bool:
    """Returns whether another program listens at the address."""
    from odradek.client.errors import NoFirstAnswer, NotABroker

    return _has_closed(failure) or any(
        isinstance(reason, NotABroker | NoFirstAnswer) for reason in _reasons(failure)
    )


def _has_closed(failure: BaseException) -> bool:
    """Returns whether somebody accepted a connection and closed it without a word."""
    from odradek.client.errors import ConnectionClosed

    return any(isinstance(reason.__cause__, ConnectionClosed) for reason in _reasons(failure))


def _reasons(failure: BaseException) -> tuple[BaseException, ...]:
    """Returns a failure and what it was made of."""
    cause = failure.__cause__
    return (
        failure,
        *getattr(failure, "reasons", ()),
        *(() if cause is None else (cause, *getattr(cause, "reasons", ()))),
    )
