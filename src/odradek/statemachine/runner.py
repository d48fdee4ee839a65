"""Runs one machine on one replicated log.

    ask(command) -> decide -> append -> apply -> wait until committed -> reply

Commands are decided one after the other, on the loop, without awaiting in between. A failed
append or lost leadership ends the runner: state is thrown away, every caller is told, and a
new runner replays the log. So memory never holds what the log does not. A log that says it has
written nothing (`NotWritten`) ends nobody: the one who asked is told, and nothing has happened.

How long a reply waits (`statemachine.pending_replies` holds it):

- with records of its own, until these are committed, and with them everything before them;
- without, until the newest record about one of the outcome's subjects is committed. The machine
  names the subjects that a reply was computed from. So nobody is ever told what is uncommitted,
  and a group does not wait for the records of another group in the same log;
- an outcome that names no subjects may rest on anything, and waits for everything written so far.

Every reply asks the log, at the moment when it leaves, whether this broker may answer at all
(`ReplicatedLog.refusal`): it may have been stopped for minutes since the command was decided.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from odradek.statemachine.machine import (
    Caller,
    LogRecord,
    Machine,
    Marker,
    Now,
    Outcome,
    ProducerIdentity,
    Reply,
    Written,
)
from odradek.statemachine.pending_replies import CommitLimit, PendingReplies
from odradek.world import Clock
from odradek.world.timeslice import Timeslice

Command = TypeVar("Command")
Event = TypeVar("Event")
T = TypeVar("T")

# When a deadline passed and the log took nothing.
_LOOK_AGAIN_MS: Final = 200


class ReplicatedLog(Protocol):
    """What a runner needs of a partition that this broker leads.

    Every call raises once leadership of the epoch it was made for is lost.
    """

    @property
    def committed_offset(self) -> int:
        """The high watermark."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    def replay(self, end_offset: int) -> AsyncIterator[Sequence[Written | Marker]]:
        """Everything from the log's start up to `end_offset`, in order. A record may be left out
        if a later one has the same key and neither is in a transaction."""
        ...

    def append(
        self, records: Sequence[LogRecord], producer: ProducerIdentity | None, timestamp_ms: int
    ) -> int:
        """Writes the records as one batch and returns the offset of the first."""
        ...

    async def committed(self, offset: int) -> None:
        """Returns when everything below `offset` is committed."""
        ...

    def refusal(self) -> Exception | None:
        """Why nobody may be answered from this log now; None if everybody may. The broker may
        have lost its leadership without having heard of it; it may also keep it after all."""
        ...


class RunnerEnded(Exception):
    """The machine is no longer run here; the caller has to look for it elsewhere."""


class NotWritten(Exception):
    """The log could not take the records now and is as it was. `reason` is for the caller."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Waiting(Caller):
    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[object]) -> None:
        self.future = future


class Runner(Generic[Command, Event]):
    """Invariant: the machine has applied everything up to `_applied` and nothing beyond."""

    def __init__(
        self,
        machine: Machine[Command, Event],
        log: ReplicatedLog,
        clock: Clock,
        limit: CommitLimit | None = None,
    ) -> None:
        """`limit` is how long replies wait for their records to be committed, if not for ever."""
        self._machine = machine
        self._log = log
        self._clock = clock
        self._applied = 0
        self._ended: Exception | None = None
        self._loaded = False
        self._noted: list[tuple[Marker, int]] = []
        self._callers: dict[_Waiting, None] = {}
        # The end offset of the newest record about each subject, in the order of the offsets;
        # those that are committed are dropped.
        self._uncommitted: dict[Hashable, int] = {}
        # The same for records that name no subjects.
        self._unattributed = 0
        self._pending = PendingReplies(log.committed, self._reply, self.end, limit)
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self.ended = asyncio.Event()

    @property
    def machine(self) -> Machine[Command, Event]:
        return self._machine

    @property
    def is_loaded(self) -> bool:
        return self._loaded and self._ended is None

    @property
    def may_answer(self) -> bool:
        """Whether the log lets anybody be answered now (`ReplicatedLog.refusal`)."""
        return self._log.refusal() is None

    async def load(self) -> None:
        """Replays the log and waits until its end is committed; then commands may come."""
        end_offset = self._log.end_offset
        timeslice = Timeslice.of_running_loop()
        apply = self._machine.apply
        async for entries in self._log.replay(end_offset):
            for entry in entries:
                if timeslice.is_over():
                    await timeslice.next_turn()
                apply(entry)
        self._applied = end_offset
        await self._log.committed(end_offset)
        if self._ended is not None:
            raise self._ended
        self._loaded = True
        noted, self._noted = self._noted, []
        for marker, marker_end_offset in noted:
            self.note(marker, marker_end_offset)
        try:
            self._carry_out(self._machine.loaded(self._now()))
        except NotWritten as refused:
            self.end(refused.reason)

    async def ask(self, command: Command) -> object:
        """The reply to a command, once what it rests on is committed."""
        return await self.begin(command)

    def begin(self, command: Command) -> asyncio.Future[object]:
        """Decides now; what comes holds the reply, and often does at once: a lone replica
        commits as it appends, and then nobody has to wait for a turn of the loop."""
        self._require_running()
        waiting = _Waiting(asyncio.get_running_loop().create_future())
        self._callers[waiting] = None
        try:
            self._carry_out(self._machine.decide(command, waiting, self._now()))
        except NotWritten as refused:
            raise refused.reason from None
        finally:
            del self._callers[waiting]
        if not waiting.future.done():
            self._callers[waiting] = None
            waiting.future.add_done_callback(partial(self._forget, waiting))
        return waiting.future

    def begin_together(
        self, commands: Sequence[T], together: Callable[[Sequence[tuple[T, Caller]]], Command]
    ) -> list[asyncio.Future[object]]:
        """Decides several commands as one, which `together` makes of them and their callers. The
        machine answers each caller; it does not raise for the sake of one of them."""
        self._require_running()
        loop = asyncio.get_running_loop()
        callers = [_Waiting(loop.create_future()) for _ in commands]
        self._callers.update(dict.fromkeys(callers))
        try:
            command = together(list(zip(commands, callers, strict=True)))
            self._carry_out(self._machine.decide(command, None, self._now()))
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

    def _forget(self, caller: _Waiting, future: asyncio.Future[object]) -> None:
        self._callers.pop(caller, None)
        if not future.cancelled():
            # The connection may have ended before its handler awaited the reply. Without this
            # line asyncio would log the error as one that was never retrieved.
            future.exception()

    def tell(self, command: Command) -> None:
        """A command nobody waits for."""
        self._require_running()
        with suppress(NotWritten):
            self._carry_out(self._machine.decide(command, None, self._now()))

    def is_committed(self, subject: Hashable) -> bool:
        """Whether every record about a subject is committed. Until then nobody has been told of the
        newest, so no request that comes now can follow from it."""
        return self._newest((subject,)) <= self._log.committed_offset

    def note(self, entry: Marker, end_offset: int) -> None:
        """Something that others wrote to this log, up to `end_offset`: a transaction's end.

        Whoever reads what it changed waits until it is committed, as for our own records.
        """
        if self._loaded:
            subjects = self._machine.subjects_of(entry)
            self._machine.apply(entry)
            self._applied = max(self._applied, end_offset)
            self._note_written(subjects, end_offset)
        else:
            self._noted.append((entry, end_offset))  # It stands behind what is being replayed.

    def end(self, reason: Exception) -> None:
        """Throws the state away and tells everyone who waits."""
        if self._ended is not None:
            return
        self._ended = reason
        self.ended.set()
        self._pending.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._fail_callers(reason)

    def send_away(self) -> None:
        """Refuses everyone who waits, because this broker may not answer (`refusal`). The state
        stays: the broker may find that it still leads."""
        refusal = self._log.refusal()
        if refusal is not None and self._ended is None:
            self._pending.clear()
            self._fail_callers(refusal)

    def _fail_callers(self, reason: Exception) -> None:
        for waiting in list(self._callers):
            if not waiting.future.done():
                waiting.future.set_exception(reason)

    def _require_running(self) -> None:
        if self._ended is not None:
            raise self._ended
        if not self._loaded:
            raise RunnerEnded("the machine is still being loaded")

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), int(self._clock.monotonic_s() * 1000))

    # Carrying out an outcome

    def _carry_out(self, outcome: Outcome[Event]) -> None:
        apply = self._machine.apply
        records = outcome.records
        if records:
            try:
                offset = self._log.append(records, outcome.producer, self._clock.now_ms())
            except NotWritten:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, leadership is over
                self.end(error)  # Who waits, the caller among them, is told.
                return
            for record in records:
                apply(Written(record, offset, outcome.producer))
                offset += 1
            self._applied = offset
            self._note_written(outcome.subjects, offset)
        for event in outcome.events:
            apply(event)
        for key, after_ms in outcome.deadlines:
            self._set_deadline(key, after_ms)
        if outcome.replies:
            rests_on = self._applied if records else self._newest(outcome.subjects)
            if self._log.committed_offset >= rests_on:
                self._reply(outcome.replies)
            else:
                self._pending.add(rests_on, outcome.replies)

    def _note_written(self, subjects: Sequence[Hashable] | None, end_offset: int) -> None:
        """Remembers records up to `end_offset` about these subjects until they are committed."""
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
            uncommitted.pop(subject, None)  # So that the newest stand last.
            uncommitted[subject] = end_offset

    def _newest(self, subjects: Sequence[Hashable] | None) -> int:
        """The end offset of the newest record about one of the subjects."""
        if subjects is None:
            return self._applied
        newest = self._unattributed
        for subject in subjects:
            newest = max(newest, self._uncommitted.get(subject, 0))
        return newest

    def _reply(self, replies: Sequence[Reply], error: Exception | None = None) -> None:
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
        if self._ended is not None:
            return
        if self._log.refusal() is not None:
            # Nobody's time runs out while nobody is answered.
            self._set_deadline(key, _LOOK_AGAIN_MS)
            return
        try:
            self._carry_out(self._machine.expire(key, self._now()))
        except NotWritten:
            self._set_deadline(key, _LOOK_AGAIN_MS)
