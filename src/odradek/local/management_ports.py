"""Where brokers of `odradek up` serve metrics and health: 127.0.0.1, a hundred above the port of
each.

Kafka's start scripts take the port of JMX from the variable JMX_PORT. It is the management port
here, of `odradek broker` too: the same figures are read from it, as MBeans and for Prometheus.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.tools.failures import CommandFailed

SETTING: Final = "management.listener"
JMX_PORT: Final = "JMX_PORT"
_HOST: Final = "127.0.0.1"
_ABOVE: Final = 100
_MAX_PORT: Final = 65_535


def management_listeners(
    ports: Sequence[int], environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Returns the listener of each broker, by the ports of the brokers (0: any). A port that is in
    use is replaced by any free one, because a broker should start in spite of that; but not one
    that the user asked for."""
    first = jmx_port(environment)
    if first is not None:
        return [_listener(first + number) for number in range(len(ports))]
    held: list[socket.socket] = []
    try:
        for port in ports:
            wanted = port + _ABOVE if port and port + _ABOVE <= _MAX_PORT else 0
            held.append(_bound(wanted) or _bound(0) or _nothing())
        return [_listener(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def jmx_port(environment: Mapping[str, str] = os.environ) -> int | None:
    """Returns the port that JMX_PORT names; raises `CommandFailed` if it names none."""
    text = environment.get(JMX_PORT, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _MAX_PORT:
        raise CommandFailed(f"JMX_PORT={text} is not a port; write a number, as in JMX_PORT=9999")
    return int(text)


def with_jmx_port(
    properties: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Returns the settings of `odradek broker` with the management port that JMX_PORT asks for, if
    the file names none."""
    port = jmx_port(environment)
    if port is None or SETTING in properties:
        return dict(properties)
    return {**properties, SETTING: _listener(port)}


def _listener(port: int) -> str:
    return f"http://{_HOST}:{port}"


def _bound(port: int) -> socket.socket | None:
    one = socket.socket()
    # As asyncio does, so that a port with connections in TIME_WAIT is treated as free.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind((_HOST, port))
        one.listen(1)
    except OSError:
        one.close()
        return None
    return one


def _nothing() -> socket.socket:
    raise CommandFailed(
        f"no port of {_HOST} is free for metrics; --override {SETTING}= starts without them"
    )
