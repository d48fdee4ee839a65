"""The store in memory: for `odradek up --memory`, for tests and for the simulation.

Strong unless told otherwise. `Weakness` makes it as weak as ZooKeeper may be: notifications
late, replies lost after or before the change, sessions expired.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto

from odradek.metadata.local import LocalSession, LocalWatch
from odradek.metadata.store import EVERYTHING, Operation, OutcomeUnknown, Watch
from odradek.metadata.tree import Overlay, Tree
from odradek.world import Randomness


class LostReply(Enum):
    """What became of a change whose reply is lost."""

    HAPPENED = auto()
    DID_NOT_HAPPEN = auto()


class Weakness:
    """Switches for what a real store may do. From one seed, the same every time."""

    def __init__(
        self,
        randomness: Randomness | None = None,
        *,
        longest_notification_delay_s: float = 0.0,
        longest_operation_delay_s: float = 0.0,
        lost_replies: float = 0.0,
    ) -> None:
        self._randomness = randomness or Randomness(0)
        self.longest_notification_delay_s = longest_notification_delay_s
        self.longest_operation_delay_s = longest_operation_delay_s
        self.lost_replies = lost_replies
        self._ordered: deque[LostReply] = deque()

    def lose_next_reply(self, outcome: LostReply) -> None:
        self._ordered.append(outcome)

    def next_lost_reply(self) -> LostReply | None:
        if self._ordered:
            return self._ordered.popleft()
        if self.lost_replies and self._randomness.fraction() < self.lost_replies:
            return list(LostReply)[self._randomness.below(2)]
        return None

    def notification_delay_s(self) -> float:
        return self._delay_s(self.longest_notification_delay_s)

    def operation_delay_s(self) -> float:
        return self._delay_s(self.longest_operation_delay_s)

    def _delay_s(self, longest_s: float) -> float:
        return self._randomness.fraction() * longest_s if longest_s else 0.0


class MemoryMetadata:
    """The store itself; `connect` gives each broker its own session."""

    def __init__(self, weakness: Weakness | None = None) -> None:
        self.tree = Tree()
        self.weakness = weakness or Weakness()

    def connect(self) -> "MemorySession":
        return MemorySession(self)

    async def commit(self, session_id: int, operations: Sequence[Operation]) -> list[int]:
        transaction = self.tree.transaction + 1
        overlay = Overlay(self.tree)
        versions = overlay.plan(session_id, operations, transaction)
        self.tree.transaction = transaction
        self.tree.apply(overlay.changes)
        return versions

    async def close(self) -> None:
        """Nothing to put away."""


class MemorySession(LocalSession):
    def __init__(self, metadata: MemoryMetadata) -> None:
        super().__init__(metadata)
        self._weakness = metadata.weakness

    async def multi(self, *operations: Operation) -> list[int]:
        delay_s = self._weakness.operation_delay_s()
        if delay_s:
            await asyncio.sleep(delay_s)
        lost = self._weakness.next_lost_reply()
        if lost is LostReply.DID_NOT_HAPPEN:
            self._lose_connection()
        versions = await super().multi(*operations)
        if lost is LostReply.HAPPENED:
            self._lose_connection()
        return versions

    def watch(self) -> Watch:
        self._require_alive()
        watch = LateWatch(self._tree, self._weakness)
        self._watches.append(watch)
        return watch

    def expire(self) -> None:
        """What the store does to a session that was silent for too long."""
        self.end()

    def _lose_connection(self) -> None:
        # Whoever reconnects may have missed notifications.
        for watch in self._watches:
            watch.note([EVERYTHING])
        raise OutcomeUnknown


class LateWatch(LocalWatch):
    """Delivers after a delay, so later and earlier changes arrive together."""

    __slots__ = ("_due", "_late", "_weakness")

    def __init__(self, tree: Tree, weakness: Weakness) -> None:
        super().__init__(tree)
        self._weakness = weakness
        self._late: dict[str, None] = {}
        self._due: asyncio.TimerHandle | None = None

    def note(self, paths: Iterable[str]) -> None:
        delay_s = self._weakness.notification_delay_s()
        if not delay_s and self._due is None:
            super().note(paths)
            return
        self._late.update(dict.fromkeys(paths))
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(delay_s, self._deliver)

    def _deliver(self) -> None:
        self._due = None
        late, self._late = self._late, {}
        super().note(late)

    def close(self) -> None:
        super().close()
        if self._due is not None:
            self._due.cancel()
            self._due = None
