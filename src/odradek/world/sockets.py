"""Options of a socket that an event loop owns.

asyncio returns the socket of a transport or server for inspection only, and uvloop an object
without `setsockopt`. Both have a file descriptor, to which the options belong.
"""

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
