"""The metadata store in memory: for `odradek up --memory`, for tests and for the simulation.

`StoreFaults` makes it as weak as ZooKeeper may be: notifications are late, replies are lost before
or after the change. Tests cut, expire and crash a `MemorySession`. Random faults come from a seed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from enum import Enum, auto

from odradek.metadata.local import LocalSession
from odradek.metadata.store import (
    EVERYTHING,
    Node,
    Operation,
    OperationFailed,
    OutcomeUnknown,
    StoreUnavailable,
)
from odradek.metadata.tree import Overlay, Tree, View
from odradek.world import Randomness


class LostReply(Enum):
    """Whether a change whose reply is lost was carried out."""

    HAPPENED = auto()
    DID_NOT_HAPPEN = auto()


class StoreFaults:
    """The faults that a real store may have. A seed gives the same faults every time."""

    def __init__(
        self,
        randomness: Randomness | None = None,
        *,
        max_notification_delay_s: float = 0.0,
        max_operation_delay_s: float = 0.0,
        max_read_lag_s: float = 0.0,
        lost_replies: float = 0.0,
    ) -> None:
        """With a lag of reads, each broker sees the changes of other brokers late, as from a
        follower in an ensemble. It sees its own changes, and all before them, at once."""
        self._randomness = randomness or Randomness(0)
        self.max_notification_delay_s = max_notification_delay_s
        self.max_operation_delay_s = max_operation_delay_s
        self.max_read_lag_s = max_read_lag_s
        self.lost_replies = lost_replies
        self._ordered: deque[LostReply] = deque()

    def lose_next_reply(self, outcome: LostReply) -> None:
        self._ordered.append(outcome)

    def next_lost_reply(self) -> LostReply | None:
        if self._ordered:
            return self._ordered.popleft()
        if self.lost_replies and self._randomness.fraction() < self.lost_replies:
            return self.cut_reply()
        return None

    def cut_reply(self) -> LostReply:
        """Returns what becomes of a change during which the connection is cut."""
        return list(LostReply)[self._randomness.integer_below(2)]

    def notification_delay_s(self) -> float:
        return self._delay_s(self.max_notification_delay_s)

    def read_lag_s(self) -> float:
        return self._delay_s(self.max_read_lag_s)

    def operation_delay_s(self) -> float:
        return self._delay_s(self.max_operation_delay_s)

    def _delay_s(self, max_delay_s: float) -> float:
        return self._randomness.fraction() * max_delay_s if max_delay_s else 0.0


class MemoryMetadata:
    """The store itself; `connect` gives each broker its own session."""

    def __init__(
        self, faults: StoreFaults | None = None, *, session_timeout_ms: int = 6_000
    ) -> None:
        self.tree = Tree()
        self.faults = faults or StoreFaults()
        self.session_timeout_s = session_timeout_ms / 1000

    def connect(self) -> "MemorySession":
        return MemorySession(self)

    async def commit(self, session_id: int, operations: Sequence[Operation]) -> list[int]:
        transaction = self.tree.transaction + 1
        overlay = Overlay(self.tree)
        versions = overlay.plan(session_id, operations, transaction)
        self.tree.transaction = transaction
        self.tree.apply(overlay.changes)
        return versions

    def end_session(self, session_id: int) -> None:
        self.tree.end_session(session_id)

    async def close(self) -> None:
        """There is nothing to close."""


class MemorySession(LocalSession):
    """A `MetadataStore` whose connection can be cut, and whose session can be expired.

    A cut session lives on in the store until it was silent for the session timeout; only when
    the connection is mended does the broker learn what became of it."""

    def __init__(self, metadata: MemoryMetadata) -> None:
        super().__init__(metadata)
        self._faults = metadata.faults
        self._timeout_s = metadata.session_timeout_s
        # Notifications run in this broker's context, even if the broker that made the change is
        # gone by then.
        self._context = copy_context()
        self._late: dict[str, None] = {}
        # What this broker sees if its reads lag, and the changes that it will see next.
        self._view = View(self._tree) if self._faults.max_read_lag_s else None
        self._unseen: list[dict[str, Node | None]] = []
        self._delivery: asyncio.TimerHandle | None = None
        self._cut_at: float | None = None
        # When the connection was cut for the first time since the broker has read everything.
        self._missed_since: float | None = None
        self._resumptions = 0
        self._expiry: asyncio.TimerHandle | None = None
        self._cuts = 0

    # For brokers

    @property
    def session_timeout_s(self) -> float:
        return self._timeout_s

    def may_be_outdated(self) -> bool:
        if self._missed_since is None or self._session.closed:
            return self._session.closed
        # A real client gets an answer from its store every third of the timeout.
        silent_s = asyncio.get_running_loop().time() - self._missed_since
        return silent_s >= self._timeout_s * 2 / 3

    @property
    def resumptions(self) -> int:
        return self._resumptions

    def note_all_read(self, resumption: int) -> None:
        if resumption == self._resumptions:
            self._missed_since = self._cut_at

    async def read(self, path: str) -> Node | None:
        self._require_connection()
        return (self._view or self._tree).get(path)

    async def children(self, path: str) -> list[str]:
        self._require_connection()
        return (self._view or self._tree).children(path)

    async def read_tree(self, prefix: str) -> dict[str, Node]:
        self._require_connection()
        return (self._view or self._tree).read_tree(prefix)

    async def multi(self, *operations: Operation) -> list[int]:
        self._require_connection()
        session_id, cuts = self.session_id, self._cuts
        delay_s = self._faults.operation_delay_s()
        if delay_s:
            await asyncio.sleep(delay_s)
        lost = self._faults.next_lost_reply()
        if cuts != self._cuts and lost is None:
            lost = self._faults.cut_reply()
        if lost is LostReply.DID_NOT_HAPPEN or not self._tree.is_alive(session_id):
            self._lose_reply()
        try:
            versions = await self._backend.commit(session_id, operations)
        except OperationFailed:
            # An error is ordered after the changes before it: the broker has seen them too.
            self._catch_up()
            raise
        if lost is LostReply.HAPPENED:
            self._lose_reply()
        self._catch_up()
        return versions

    async def close(self) -> None:
        self._stop_timers()
        await super().close()

    # For tests and the simulation

    def expire(self) -> None:
        """Expires the session, as the store does after the session timeout."""
        if self._cut_at is None:
            self.renew()
        else:
            self._tree.end_session(self.session_id)

    def cut(self) -> None:
        """Cuts the connection."""
        if self._cut_at is not None or self._session.closed:
            return
        loop = asyncio.get_running_loop()
        self._stop_timers()
        self._cuts += 1
        self._cut_at = loop.time()
        if self._missed_since is None:
            self._missed_since = self._cut_at
        self._expiry = loop.call_later(self._timeout_s, self.expire)

    def reconnect(self) -> None:
        """Restores the connection, with the old session if it is alive, else with a new one."""
        if self._cut_at is None or self._session.closed:
            return
        self._cut_at = None
        self._stop_timers()
        self._catch_up()
        if self._tree.is_alive(self.session_id):
            self._resumptions += 1
            self._watches.add_changes([EVERYTHING])
        else:
            self.renew()

    def renew(self) -> None:
        self._missed_since = None
        super().renew()

    def crash(self, *, is_noticed: bool = True) -> None:
        """The broker dies. An embedded store notices at once; with `is_noticed` false the session
        expires after its timeout, as in ZooKeeper."""
        self._stop_timers()
        if is_noticed:
            self._tree.end_session(self.session_id)
        else:
            asyncio.get_running_loop().call_later(
                self._timeout_s, self._tree.end_session, self.session_id
            )
        self.leave()

    def _notice(self, paths: Iterable[str]) -> None:
        if self._view is not None:
            self._unseen.append({path: self._tree.get(path) for path in paths})
            if self._cut_at is None and self._delivery is None:
                lag_s = self._faults.read_lag_s()
                self._delivery = self._later(lag_s, self._catch_up)
            return
        if self._cut_at is not None:
            return
        delay_s = self._faults.notification_delay_s()
        if not delay_s and self._delivery is None:
            self._watches.add_changes(paths)
            return
        self._late.update(dict.fromkeys(paths))
        if self._delivery is None:
            self._delivery = self._later(delay_s, self._deliver)

    def _later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, call, context=self._context)

    def _deliver(self) -> None:
        self._delivery = None
        late, self._late = self._late, {}
        if self._cut_at is None:
            self._watches.add_changes(late)

    def _catch_up(self) -> None:
        """Lets the broker see every change so far."""
        if self._view is None or self._cut_at is not None:
            return
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None
        unseen, self._unseen = self._unseen, []
        for changes in unseen:
            self._view.apply(changes)
            self._watches.add_changes(changes)

    def _lose_reply(self) -> None:
        # A broker that reconnects may have missed notifications, and sees all changes so far.
        self._catch_up()
        if self._cut_at is None:
            self._watches.add_changes([EVERYTHING])
        raise OutcomeUnknown

    def _require_connection(self) -> None:
        self._session.require_open()
        if self._cut_at is not None:
            raise StoreUnavailable("the connection to the metadata store is lost")

    def _stop_timers(self) -> None:
        for timer in (self._delivery, self._expiry):
            if timer is not None:
                timer.cancel()
        self._delivery = self._expiry = None
