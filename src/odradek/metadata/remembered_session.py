"""Stores the broker's session with ZooKeeper on disk, so that the next run can end it.

ZooKeeper keeps the ephemeral nodes of a killed broker for the session timeout. A broker that is
started again need not wait for that: it holds the lock of its directory, so the process that stored
the session there is dead. It resumes the session with its password and closes it, and the ephemeral
nodes are deleted at once.

Invariant: the file holds the session of the last process that held the lock of the directory.
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

    def save(self, key: SessionKey) -> None:
        """Stores the session; blocks. If that fails, the next run waits for the session timeout."""
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
        """Removes the file, because this broker closed the session."""
        # The file may be missing. If it stays, ending a session that is over does nothing.
        with suppress(OSError):
            self._disk.remove(self._path)
