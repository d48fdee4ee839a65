"""Unix sockets whose paths may be longer than the about 100 bytes that the system allows.

A long path is reached through an open descriptor of its directory, which Linux shows under /proc.
On other systems the error says what to do.
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# sizeof(sun_path) without the final zero: 108 on Linux, 104 on BSD and macOS.
_MAX_BYTES: Final = 103


@contextmanager
def socket_address(path: str) -> Iterator[str]:
    """Yields a short name for the socket at `path`, which is valid within the context.

    Raises `OSError` if there is none."""
    if len(os.fsencode(path)) <= _MAX_BYTES:
        yield path
        return
    directory, name = os.path.split(os.path.abspath(path))
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{descriptor}"
        if not os.path.isdir(short) or len(os.fsencode(f"{short}/{name}")) > _MAX_BYTES:
            raise OSError(
                f"the path of the socket {path} has more than {_MAX_BYTES} bytes; "
                "choose a directory with a shorter name"
            )
        yield f"{short}/{name}"
    finally:
        os.close(descriptor)


def listening_socket(path: str) -> socket.socket:
    """Returns a listening socket at `path` that only this user may connect to. It replaces a socket
    that a dead process left there: the caller has to know that no other process listens."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        remove_socket(path)
        with socket_address(path) as address:
            listener.bind(address)
        os.chmod(path, 0o600)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def remove_socket(path: str) -> None:
    """Removes the path of a socket. Does nothing if another kind of file is there, or none."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass
