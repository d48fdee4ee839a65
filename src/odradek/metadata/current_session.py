"""The current session of a `MetadataStore` on the side of the broker, for all implementations.

Whether a session has expired is not decided here: `metadata.service` decides that for brokers that
share a SQLite store, a ZooKeeper ensemble for its own sessions.
"""

import asyncio

from odradek.metadata.store import SessionExpired


class CurrentSession:
    """The id of the current session. Tasks can wait for the next session."""

    __slots__ = ("_changed", "_is_open", "closed", "session_id")

    def __init__(self) -> None:
        self.session_id = 0
        self.closed = False
        self._is_open = False
        self._changed = asyncio.Event()

    def begin(self, session_id: int) -> None:
        self.session_id = session_id
        self._is_open = True
        self._tell()

    def lose(self) -> None:
        """There is no session until the next one begins; `session_id` is still that of the last."""
        self._is_open = False

    def close(self) -> None:
        self.closed = True
        self._tell()

    def require_open(self) -> None:
        if self.closed:
            raise SessionExpired

    async def after(self, previous: int) -> int:
        while True:
            self.require_open()
            if self._is_open and self.session_id != previous:
                return self.session_id
            await self._changed.wait()

    def _tell(self) -> None:
        wakened, self._changed = self._changed, asyncio.Event()
        wakened.set()
