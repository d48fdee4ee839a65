"""Options of a socket that an event loop owns, and why it made no connection.

asyncio returns the socket of a transport or server for inspection only, and uvloop an object
without `setsockopt`. Both have a file descriptor, to which the options belong.
"""

import os
import re
import socket
from typing import Any


def set_buffers(owned: Any, *, send_bytes: int = -1, receive_bytes: int = -1) -> None:
    """Sets SO_SNDBUF and SO_RCVBUF of a loop's socket; -1 leaves them to the operating system.

    Does nothing where there is no socket: `owned` is None in a simulated network.
    """
    if owned is None or not hasattr(owned, "fileno") or (send_bytes < 0 and receive_bytes < 0):
        return
    view = socket.socket(owned.family, owned.type, owned.proto, fileno=owned.fileno())
    try:
        if send_bytes >= 0:
            view.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if receive_bytes >= 0:
            view.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    finally:
        view.detach()  # The event loop closes the descriptor.


def why_not_connected(error: OSError) -> str:
    """Returns in plain words why no connection was made: event loops word it differently."""
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if error.errno is not None:
        return os.strerror(error.errno).lower()
    # For a host with several addresses the error only quotes the errors of each address.
    numbers = dict.fromkeys(map(int, re.findall(r"Errno (\d+)]", str(error))))
    return ", ".join(os.strerror(number).lower() for number in numbers) or str(error)
