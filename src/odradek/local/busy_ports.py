"""What to type if another program listens at the port of `odradek up`, or a broker does already."""

import asyncio
import socket
from typing import Final

from odradek.client.connection import Connection
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError

_TIMEOUT_MS: Final = 1_000
_MAX_PORT: Final = 65_535
_LOOKED_AT: Final = 100


def port_in_use(host: str, port: int, brokers: int = 1, flags: str = "") -> str:
    """Returns the line for a port that is taken: what answers there, and which port is free, with
    those that follow it if there are several brokers. `flags` are others that the user has
    given, as in " --secure": a command without it would start an open broker."""
    free = _free_port_after(host, port, brokers)
    flags += f" --brokers {brokers}" if brokers > 1 else ""
    other = f"`odradek up{flags} --port {free}`" if free is not None else "--port"
    if asyncio.run(_is_broker(host, port)):
        return (
            f"a broker runs at {host}:{port} already: use it, stop it where it was started, or"
            f" start another one with {other} and another --data"
        )
    return (
        f"port {port} is in use by another program; start the broker elsewhere with {other}, or"
        " stop that program"
    )


def _free_port_after(host: str, port: int, brokers: int) -> int | None:
    free = 0
    for candidate in range(port + 1, min(port + _LOOKED_AT, _MAX_PORT)):
        free = free + 1 if _is_free(host, candidate) else 0
        if free == brokers:
            return candidate - brokers + 1
    return None


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError:
            return False
        return True


async def _is_broker(host: str, port: int) -> bool:
    try:
        connection = await Connection.open(
            host, port, connect_timeout_ms=_TIMEOUT_MS, request_timeout_ms=_TIMEOUT_MS
        )
    except (ClientError, KafkaError, TimeoutError):
        return False
    connection.close()
    await connection.wait_closed()
    return True
