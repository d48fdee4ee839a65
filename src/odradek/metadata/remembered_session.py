"""A session with ZooKeeper that is remembered on disk, so that the next life can end it.

ZooKeeper keeps the nodes of a killed broker for the session timeout. A broker that is started
again knows better than to wait: it holds the lock of its directory, so whoever wrote the session
down there is dead. It takes the session up with its password and closes it, and everything that
the dead one held goes at once.

Invariant: what is written here is the session of the last process that held the directory.
"""

import json
import logging
from contextlib import suppress
from typing import NamedTuple

from odradek.world.disk import Disk

logger = logging.getLogger("odradek.metadata")

FILE_NAME = "zookeeper.session"


class SessionKey(NamedTuple):
    session_id: int
    password: bytes


class RememberedSession:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def note(self, key: SessionKey) -> None:
        """Blocks. A directory that cannot be written costs the next life its patience, no more."""
        text = json.dumps({"session": key.session_id, "password": key.password.hex()})
        try:
            self._disk.replace(self._path, text.encode())
        except OSError as error:
            logger.warning("cannot remember the session in %s: %s", self._path, error.strerror)

    def read(self) -> SessionKey | None:
        try:
            fields = json.loads(self._disk.read(self._path))
            return SessionKey(int(fields["session"]), bytes.fromhex(fields["password"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self) -> None:
        """The session was closed by who had it."""
        # It may not be there; and if it stays, ending a session that is over does nothing.
        with suppress(OSError):
            self._disk.remove(self._path)
