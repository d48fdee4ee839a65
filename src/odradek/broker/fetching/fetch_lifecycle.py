"""The life of one Fetch request, from its arrival to its answer, as one state machine.

A fetch reads the partitions that may have something new (`due_partitions`). If it finds too little
it waits until one of them changes, reads those that changed, and so on until `min_bytes` are there
or `max_wait_ms` is over.

States

    READING        A pass over the due partitions is under way. A pass over few partitions is one
                   step of the event loop. A pass over many yields to other tasks, so that events
                   may arrive in the middle of it.
    READING_STALE  The same, and a partition that this pass has read already has changed since.
    WAITING        The last pass found too little. Each partition is registered with a watermark,
                   or is read again in the next pass anyhow.
    READING_LAST   The pass under way is answered, whatever it finds.
    ANSWERING      The response is being made: of many partitions, in several steps.
    ANSWERED       The connection has the response.
    ABANDONED      The client does not wait for records any more. If the connection is still open,
                   the client gets an error.

Events

    PARTITION_CHANGED  A watermark with which a partition of this fetch is registered has moved
                       or failed: records were appended (what followers wait for), the high
                       watermark or the last stable offset rose (what consumers wait for), or this
                       broker is no longer the leader. Or a replication throttle opened again.
    DEADLINE           `max_wait_ms` is over.
    INTERRUPTED        The fetch is to be answered without further waiting: it may not wait at all
                       (`max_wait_ms` is 0), memory for requests is short, or a follower has sent
                       its next fetch on the same connection.
    FOUND_ENOUGH       A pass has ended with `min_bytes`, or with something that must be told at
                       once: an error, a diverging epoch, a preferred replica.
    FOUND_TOO_LITTLE   A pass has ended with less.
    RESPONDED          The response is complete.
    CLOSED             The connection is closed, or serving the fetch failed.
    SUPERSEDED         A new request of the session has arrived on another connection, or the
                       session was closed.

A pair of state and event that is not in the table is a defect of the broker.

Why no change is lost: a partition is registered with its watermark in the same step of the event
loop that read it. A change in an earlier step was read; a change in a later one makes the partition
due and is the event PARTITION_CHANGED, which ends the wait even if it comes before the wait begins
(READING_STALE).
"""

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from odradek.invariants import InvariantViolation, is_thorough
from odradek.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.broker.fetching.due_partitions import DuePartitions
    from odradek.broker.fetching.fetch_sessions import FetchSession


class FetchState(IntEnum):
    READING = 0
    READING_STALE = 1
    WAITING = 2
    READING_LAST = 3
    ANSWERING = 4
    ANSWERED = 5
    ABANDONED = 6


class FetchEvent(IntEnum):
    PARTITION_CHANGED = 0
    DEADLINE = 1
    INTERRUPTED = 2
    FOUND_ENOUGH = 3
    FOUND_TOO_LITTLE = 4
    RESPONDED = 5
    CLOSED = 6
    SUPERSEDED = 7


# Names of this module, because Python 3.11 takes ten times as long to look a member up in its enum.
_READING: Final = FetchState.READING
_STALE: Final = FetchState.READING_STALE
_WAITING: Final = FetchState.WAITING
_LAST: Final = FetchState.READING_LAST
_ANSWER: Final = FetchState.ANSWERING
_DONE: Final = FetchState.ANSWERED
_GONE: Final = FetchState.ABANDONED
_NEVER: Final = None
_CHANGED: Final = FetchEvent.PARTITION_CHANGED
_DEADLINE: Final = FetchEvent.DEADLINE
_INTERRUPTED: Final = FetchEvent.INTERRUPTED
_FOUND_ENOUGH: Final = FetchEvent.FOUND_ENOUGH
_FOUND_TOO_LITTLE: Final = FetchEvent.FOUND_TOO_LITTLE
_RESPONDED: Final = FetchEvent.RESPONDED

# fmt: off
_TABLE: Final[dict[FetchState, tuple[FetchState | None, ...]]] = {
    #          PARTITION           INTER-    FOUND_    FOUND_TOO RESPON-             SUPER-
    #          _CHANGED  DEADLINE  RUPTED    ENOUGH    _LITTLE   DED       CLOSED    SEDED
    _READING: (_STALE,   _LAST,    _LAST,    _ANSWER,  _WAITING, _NEVER,   _GONE,    _GONE),
    _STALE:   (_STALE,   _LAST,    _LAST,    _ANSWER,  _READING, _NEVER,   _GONE,    _GONE),
    _WAITING: (_READING, _LAST,    _LAST,    _NEVER,   _NEVER,   _NEVER,   _GONE,    _GONE),
    _LAST:    (_LAST,    _LAST,    _LAST,    _ANSWER,  _ANSWER,  _NEVER,   _GONE,    _GONE),
    _ANSWER:  (_ANSWER,  _ANSWER,  _ANSWER,  _NEVER,   _NEVER,   _DONE,    _GONE,    _GONE),
    _DONE:    (_DONE,    _DONE,    _DONE,    _NEVER,   _NEVER,   _NEVER,   _DONE,    _DONE),
    _GONE:    (_GONE,    _GONE,    _GONE,    _GONE,    _GONE,    _GONE,    _GONE,    _GONE),
}
# fmt: on
# The next state by state and event: an integer indexes a tuple faster than a dict finds a key.
TRANSITIONS: Final = tuple(_TABLE[state] for state in FetchState)


class Fetch:
    """One Fetch request: its place in the state machine, and the session it belongs to.

    `FetchSessions.begin` makes it, `handlers.fetch` serves it. The connection interrupts its wait
    (`broker.network.request_serving.InterruptibleWait`).
    """

    __slots__ = (
        "_deadline_timer",
        "_ends_for_next_request",
        "_wakeup",
        "due",
        "error",
        "is_incremental",
        "session",
        "state",
    )

    def __init__(
        self,
        due: "DuePartitions",
        session: "FetchSession | None" = None,
        *,
        is_incremental: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.state = _READING
        self.due = due
        self.session = session
        # Whether the request names only what changed, and the response only what is new.
        self.is_incremental = is_incremental
        self.error = error
        self._ends_for_next_request = False
        self._deadline_timer: asyncio.TimerHandle | None = None
        # Completed when the state is no longer WAITING.
        self._wakeup: asyncio.Future[None] | None = None

    @property
    def is_abandoned(self) -> bool:
        return self.state is _GONE

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else 0

    # Events

    def _on(self, event: FetchEvent) -> FetchState:
        state = TRANSITIONS[self.state][event]
        if state is _NEVER:
            raise InvariantViolation(
                f"fetch of session {self.session_id}",
                f"{event.name} does not happen in the state {self.state.name}",
            )
        self.state = state
        if self._wakeup is not None and state is not _WAITING:
            if not self._wakeup.done():
                self._wakeup.set_result(None)
            self._wakeup = None
        return state

    def partition_changed(self) -> None:
        self._on(_CHANGED)

    def interrupt(self) -> None:
        """Ends the wait: the fetch reads a last time and is answered with what it finds."""
        self._on(_INTERRUPTED)

    def next_request_arrived(self) -> None:
        """Ends the wait of a follower's fetch. Called by the connection when another request waits
        behind this one. The follower's next fetch has other partitions or offsets, so it must not
        wait for this one."""
        if self._ends_for_next_request:
            self._on(_INTERRUPTED)

    def pass_ended(self, *, is_enough: bool) -> bool:
        """Notes the end of a pass. Returns whether the fetch is to be answered now."""
        return self._on(_FOUND_ENOUGH if is_enough else _FOUND_TOO_LITTLE) is _ANSWER

    def responded(self) -> None:
        state = self._on(_RESPONDED)
        if self._deadline_timer is not None:
            self._stop_waiting()
        if self.session is not None and state is _DONE and is_thorough():
            self.session.check()

    def supersede(self) -> None:
        self._on(FetchEvent.SUPERSEDED)

    def close(self) -> None:
        """Ends the fetch. Called when the connection is closed, or serving the fetch failed."""
        before = self.state
        if self._on(FetchEvent.CLOSED) is _GONE:
            if self._deadline_timer is not None:
                self._stop_waiting()
            if before not in (_WAITING, _GONE) and self.session is not None:
                self.session.reset()

    # Waiting

    def start_waiting(self, deadline_s: float, *, ends_for_next_request: bool) -> None:
        """Lets a partition that becomes due, the deadline, and the connection's next request end
        the wait from now on. Called once, in the step of the event loop that read the partitions
        first, or before they are read."""
        self._ends_for_next_request = ends_for_next_request
        self.due.set_listener(self)
        self._deadline_timer = asyncio.get_running_loop().call_at(deadline_s, self._on, _DEADLINE)

    async def wait(self, resume_s: float | None) -> None:
        """Returns when the fetch is to read. `resume_s` is the time at which partitions that a
        throttle held back may be read, if there are any."""
        loop = asyncio.get_running_loop()
        if self.state is not _WAITING:
            await asyncio.sleep(0)
            return
        self._wakeup = wakeup = loop.create_future()
        timer = None if resume_s is None else loop.call_at(resume_s, self.partition_changed)
        try:
            await wakeup
        finally:
            if timer is not None:
                timer.cancel()

    def _stop_waiting(self) -> None:
        assert self._deadline_timer is not None
        self._deadline_timer.cancel()
        self._deadline_timer = None
        self.due.clear_listener(self)
