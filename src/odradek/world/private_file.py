"""A file for a secret that a library reads from a path, and that must not reach a disk.

On Linux it exists in memory alone (`memfd_create`): it has no name in any directory, and is gone
when its descriptor is closed. Where there are no such files, it has mode 0600 in a directory of
mode 0700, and both are removed as soon as they were read.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """Yields the path of a file that only this process can read, for the time of a `with`."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("odradek-secret", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - rarely needed

    with TemporaryDirectory(prefix="odradek-") as directory:
        path = os.path.join(directory, "secret")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield path
