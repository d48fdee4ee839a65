"""Messages between the processes of a lane: JSON objects, one in each line, over Unix sockets.

The sockets are in a directory that only the user may enter. Properties with secrets go this way,
so they are in no command line, environment or file.
"""

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

from odradek.world.unix_sockets import socket_address

OWNER_SOCKET: Final = "owner"
"""The name of the socket at which the owner of the tasks listens (`hosting`)."""
MAX_LINE_BYTES: Final = 64 << 20
Message = dict[str, Any]


def encoded(message: Mapping[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """Reads the next message; None if the other side has closed the connection."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    return json.loads(line) if line.endswith(b"\n") else None


def connected(path: str, timeout_s: float | None) -> socket.socket:
    """Returns a connection to a socket, for processes without an event loop. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with socket_address(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def request(path: str, message: Mapping[str, object], timeout_s: float) -> Message:
    """Sends a request and returns the response, for processes without an event loop. Raises
    `OSError`."""
    with connected(path, timeout_s) as connection, connection.makefile("rb") as answers:
        connection.sendall(encoded(message))
        line = answers.readline(MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the owner of the tasks has ended")
    answer: Message = json.loads(line)
    return answer
