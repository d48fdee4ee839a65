"""Runs one machine on one replicated log.

    begin(command) -> decide -> append -> apply -> wait until committed -> reply

Commands are decided one after the other on the event loop, without awaiting in between. The state
in memory never holds anything that the log does not:

- A failed append or lost leadership ends the runner. Its state is discarded, every caller fails,
  and a new runner replays the log.
- If the log has written nothing (`NotWritten`), only the caller fails, and nothing has happened.
- If an invariant is violated (`odradek.invariants`), the runner ends too. `failure` tells its owner
  why, so that the owner does not load the same state again.

A reply is held by `statemachine.pending_replies` until the records that it depends on are
committed, so no client is ever told of uncommitted state:

- A reply with records waits until these records are committed, and with them all before them.
- A reply without records waits for the newest record about one of the outcome's subjects. So a
  group does not wait for the records of another group in the same log.
- A reply of an outcome that names no subjects may depend on anything: it waits for every record
  written so far.

When a reply leaves, the runner asks the log whether this broker may answer at all
(`ReplicatedLog.refusal`): the process may have been stopped for minutes since the decision.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from odradek.invariants import InvariantViolation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import FIRST_OFFSET, NO_OFFSET, Offset
from odradek.statemachine.log_lines import LogLines
from odradek.statemachine.machine import (
    Caller,
    Command,
    DecisionContext,
    Effect,
    Event,
    Image,
    LogRecord,
    Machine,
    Marker,
    Outcome,
    ProducerIdentity,
    R,
    Reply,
    Written,
)
from odradek.statemachine.pending_replies import CommitTimeout, PendingReplies
from odradek.world import Clock
from odradek.world.timeslice import Timeslice

T = TypeVar("T")

# How long the runner waits before it tries a deadline again that it could not carry out.
_RETRY_MS: Final = 200


class ReplicatedLog(Protocol):
    """A partition that this broker leads, as a runner uses it.

    Every call raises once the leadership of the epoch that the log was opened in is lost.
    """

    @property
    def committed_offset(self) -> Offset:
        """The high watermark."""
        ...

    @property
    def end_offset(self) -> Offset:
        """The log end offset."""
        ...

    def replay(self, end_offset: Offset) -> AsyncIterator[Sequence[Written | Marker]]:
        """Yields everything from the log start offset up to `end_offset`, in order. It may leave
        out a record if a later one has the same key and neither is part of a transaction."""
        ...

    def append(
        self, records: Sequence[LogRecord], producer: ProducerIdentity | None, timestamp_ms: int
    ) -> Offset:
        """Writes the records as one batch and returns the offset of the first."""
        ...

    async def wait_until_committed(self, offset: Offset) -> None:
        """Returns when everything below `offset` is committed."""
        ...

    def refusal(self) -> Exception | None:
        """Returns why no client may be answered from this log now, or None if clients may be. The
        broker may have lost its leadership without knowing; it may also turn out to keep it."""
        ...


class RunnerEnded(Exception):
    """The machine is not run here (any more): the client has to look for its coordinator."""


class NotWritten(Exception):
    """The log did not take the records and is unchanged. The caller is given `reason`."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Waiting(Caller[R]):
    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[R]) -> None:
        self.future = future


class Runner(Generic[Event, Effect, Image]):
    """Runs a machine on a log, from `load` until `end`. `CoordinatorPartitions` creates it.

    Invariant: the machine has applied every entry of the log below `_applied` and none at or
    above it, so `_applied` never exceeds the log end offset."""

    def __init__(
        self,
        machine: Machine[Event, Effect, Image],
        log: ReplicatedLog,
        clock: Clock,
        *,
        image: Callable[[], Image],
        perform: Callable[[Effect], None],
        limit: CommitTimeout | None = None,
    ) -> None:
        """`image` returns the cluster as it is at the moment of a decision. `perform` performs the
        effects of outcomes. `limit` is how long replies wait at most for their records to be
        committed; without it they wait as long as it takes."""
        self._machine = machine
        self._log = log
        self._clock = clock
        self._image = image
        self._perform = perform
        self._applied = FIRST_OFFSET
        self._loaded = False
        # Markers that others wrote while the log was being replayed, with their end offsets.
        self._markers_while_loading: list[tuple[Marker, Offset]] = []
        self._callers: dict[_Waiting[Any], None] = {}
        # The end offset of the newest record about each subject, in the order of the offsets.
        # Those that are committed are dropped.
        self._uncommitted: dict[Hashable, Offset] = {}
        # The end offset of the newest record of an outcome that named no subjects.
        self._unattributed = FIRST_OFFSET
        self._pending = PendingReplies(log.wait_until_committed, self._reply, self.end, limit)
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._log_lines = LogLines(clock.monotonic_s)
        self.failure: Exception | None = None
        self.ended = asyncio.Event()

    @property
    def machine(self) -> Machine[Event, Effect, Image]:
        return self._machine

    @property
    def is_loaded(self) -> bool:
        return self._loaded and self.failure is None

    @property
    def was_loaded(self) -> bool:
        """Whether the log was replayed, also if the runner has ended since."""
        return self._loaded

    @property
    def may_answer(self) -> bool:
        """Whether the log allows clients to be answered now (`ReplicatedLog.refusal`)."""
        return self._log.refusal() is None

    async def load(self) -> None:
        """Replays the log and waits until its end is committed. Commands are taken from then on."""
        end_offset = self._log.end_offset
        timeslice = Timeslice.of_running_loop()
        apply = self._machine.apply
        async for entries in self._log.replay(end_offset):
            for entry in entries:
                if timeslice.is_over():
                    await timeslice.next_turn()
                apply(entry)
        self._applied = end_offset
        await self._log.wait_until_committed(end_offset)
        if self.failure is not None:
            raise self.failure
        self._loaded = True
        markers, self._markers_while_loading = self._markers_while_loading, []
        for marker, marker_end_offset in markers:
            self.note(marker, marker_end_offset)
        try:
            self._carry_out(self._machine.after_load(self._now()))
        except NotWritten as refused:
            self.end(refused.reason)

    async def ask(self, command: Command[R]) -> R:
        """Decides about the command and returns the reply when what it depends on is committed."""
        return await self.begin(command)

    def begin(self, command: Command[R]) -> asyncio.Future[R]:
        """Decides about the command at once. The future that it returns completes with the reply.
        It is often complete already: a lone replica commits as it appends, so the caller need not
        wait for a turn of the event loop."""
        self._require_running()
        caller: _Waiting[R] = _Waiting(asyncio.get_running_loop().create_future())
        self._callers[caller] = None
        try:
            self._decide(command, caller)
        except NotWritten as refused:
            raise refused.reason from None
        finally:
            del self._callers[caller]
        if not caller.future.done():
            self._callers[caller] = None
            caller.future.add_done_callback(partial(self._forget, caller))
        return caller.future

    def begin_together(
        self,
        commands: Sequence[T],
        together: Callable[[Sequence[tuple[T, Caller[R]]]], Command[None]],
    ) -> list[asyncio.Future[R]]:
        """Decides about several commands as one, which `together` makes of them and their callers.
        The machine answers each caller and does not raise because of one of the commands."""
        self._require_running()
        loop = asyncio.get_running_loop()
        callers: list[_Waiting[R]] = [_Waiting(loop.create_future()) for _ in commands]
        self._callers.update(dict.fromkeys(callers))
        try:
            self._decide(together(list(zip(commands, callers, strict=True))), None)
        except NotWritten as refused:
            raise refused.reason from None
        finally:
            for caller in callers:
                del self._callers[caller]
        for caller in callers:
            if not caller.future.done():
                self._callers[caller] = None
                caller.future.add_done_callback(partial(self._forget, caller))
        return [caller.future for caller in callers]

    def _forget(self, caller: _Waiting[Any], future: asyncio.Future[Any]) -> None:
        self._callers.pop(caller, None)
        if not future.cancelled():
            # The connection may have ended before its handler awaited the reply. Without this
            # line asyncio would log the error as one that was never retrieved.
            future.exception()

    def tell(self, command: Command[Any]) -> None:
        """Decides about a command whose reply no client waits for."""
        self._require_running()
        with suppress(NotWritten):
            self._decide(command, None)

    def is_committed(self, subject: Hashable) -> bool:
        """Returns whether every record about a subject is committed."""
        return self._newest((subject,)) <= self._log.committed_offset

    def note(self, marker: Marker, end_offset: Offset) -> None:
        """Applies a transaction marker that was written to this log, up to `end_offset`, by the
        code that ends transactions. Replies about what the marker changed wait until it is
        committed, as they do for the runner's own records."""
        if not self._loaded:
            # The marker stands behind what is being replayed.
            self._markers_while_loading.append((marker, end_offset))
            return
        subjects = self._machine.subjects_of(marker)
        try:
            self._machine.apply(marker)
        except InvariantViolation as violation:
            self.end(violation)
            return
        self._applied = max(self._applied, end_offset)
        self._note_written(subjects, end_offset)

    def end(self, reason: Exception) -> None:
        """Discards the state and fails every caller. The owner finds the reason in `failure`."""
        if self.failure is not None:
            return
        self.failure = reason
        self.ended.set()
        self._pending.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._fail_callers(_shown_to_clients(reason))

    def fail_waiters(self) -> None:
        """Fails every caller because this broker may not answer (`ReplicatedLog.refusal`). The
        state is kept: the broker may find that it still leads."""
        refusal = self._log.refusal()
        if refusal is not None and self.failure is None:
            self._pending.clear()
            self._fail_callers(refusal)

    def _fail_callers(self, reason: Exception) -> None:
        for caller in list(self._callers):
            if not caller.future.done():
                caller.future.set_exception(reason)

    def _require_running(self) -> None:
        if self.failure is not None:
            raise _shown_to_clients(self.failure)
        if not self._loaded:
            raise RunnerEnded("the machine is still being loaded")

    def _now(self) -> DecisionContext[Image]:
        return DecisionContext(self._clock.now_ms(), self._image(), self.is_committed)

    # Carrying out an outcome

    def _decide(self, command: Command[R], caller: Caller[R] | None) -> None:
        try:
            outcome = self._machine.decide(command, caller, self._now())
        except InvariantViolation as violation:
            self.end(violation)
            return
        self._carry_out(outcome)

    def _carry_out(self, outcome: Outcome[Event, Effect]) -> None:
        """Raises `NotWritten` if nothing happened. Ends the runner if the append fails or an
        invariant is violated: that fails every caller, the one of this outcome among them."""
        records = outcome.records
        offset = NO_OFFSET
        if records:
            try:
                offset = self._log.append(records, outcome.producer, self._clock.now_ms())
            except NotWritten:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, leadership is over
                self.end(error)
                return
        try:
            self._apply(outcome, offset)
        except InvariantViolation as violation:
            self.end(violation)
            return
        for key, after_ms in outcome.deadlines:
            self._set_deadline(key, after_ms)
        if outcome.log_lines:
            self._log_lines.write(outcome.log_lines)
        for effect in outcome.effects:
            self._perform(effect)
        if outcome.replies:
            depends_on = self._applied if records else self._newest(outcome.subjects)
            if self._log.committed_offset >= depends_on:
                self._reply(outcome.replies)
            else:
                self._pending.add(depends_on, outcome.replies)

    def _apply(self, outcome: Outcome[Event, Effect], offset: Offset) -> None:
        """Applies the records, the first of which stands at `offset`, and the events."""
        apply = self._machine.apply
        if outcome.records:
            producer = outcome.producer
            for record in outcome.records:
                apply(Written(record, offset, producer))
                offset += 1
            self._applied = offset
            self.check()
            self._note_written(outcome.subjects, offset)
        for event in outcome.events:
            apply(event)

    def check(self) -> None:
        """Raises `InvariantViolation` if the machine has applied more than the log holds."""
        if self._applied > self._log.end_offset:
            raise InvariantViolation(
                f"the runner of {type(self._machine).__name__}",
                f"it has applied up to offset {self._applied}, but the log ends at"
                f" {self._log.end_offset}",
            )

    def _note_written(self, subjects: Sequence[Hashable] | None, end_offset: Offset) -> None:
        """Remembers the records up to `end_offset` about these subjects until they are
        committed."""
        committed_offset = self._log.committed_offset
        uncommitted = self._uncommitted
        if committed_offset >= end_offset:
            uncommitted.clear()
            return
        while uncommitted:
            oldest = next(iter(uncommitted))
            if uncommitted[oldest] > committed_offset:
                break
            del uncommitted[oldest]
        if subjects is None:
            self._unattributed = end_offset
            return
        for subject in subjects:
            uncommitted.pop(subject, None)  # The newest subject stands last.
            uncommitted[subject] = end_offset

    def _newest(self, subjects: Sequence[Hashable] | None) -> Offset:
        """Returns the end offset of the newest uncommitted record about one of the subjects, or an
        offset that is committed."""
        if subjects is None:
            return self._applied
        newest = self._unattributed
        for subject in subjects:
            newest = max(newest, self._uncommitted.get(subject, FIRST_OFFSET))
        return newest

    def _reply(self, replies: Sequence[Reply[Any]], error: Exception | None = None) -> None:
        """Answers the callers, or fails them all with `error`."""
        error = error or self._log.refusal()
        for caller, response in replies:
            if isinstance(caller, _Waiting) and not caller.future.done():
                if error is None:
                    caller.future.set_result(response)
                else:
                    caller.future.set_exception(error)

    # Deadlines

    def _set_deadline(self, key: Hashable, after_ms: int | None) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if after_ms is not None:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(max(after_ms, 0) / 1000, self._expire, key)

    def _expire(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        if self.failure is not None:
            return
        if self._log.refusal() is not None:
            # A member cannot be expected to send a heartbeat while heartbeats are not answered.
            self._set_deadline(key, _RETRY_MS)
            return
        try:
            self._carry_out(self._machine.expire(key, self._now()))
        except NotWritten:
            self._set_deadline(key, _RETRY_MS)
        except InvariantViolation as violation:
            self.end(violation)


def _shown_to_clients(reason: Exception) -> Exception:
    if isinstance(reason, InvariantViolation):
        return ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "The coordinator is out of service after an internal error; see the broker's log.",
        )
    return reason
