"""Carries out changes as the primary, one batch after the other.

    idle --elected--> fencing --NOOP read back--> writing --write failed--> fencing
      ^                                              |
      +----------- not elected any more -------------+

Commands that wait are decided together as far as they are about different subjects, written in one
transaction, and answered when this instance has read them back. When a write fails, nobody knows
whether it happened. Then the primary fences again, which settles it, reads what there is, and
decides the commands of the batch once more: who registered a schema that is there by now gets its
id. If another primary has fenced this one meanwhile, the commands fail with `NotPrimary`, and the
caller passes them on to it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.registry.decisions import Batch, Command, Decided, Register, Stale, decide
from odradek.registry.errors import Refused, schema_too_large, store_failed
from odradek.registry.records import max_ids
from odradek.registry.schema_log import Fenced, SchemaLog, WriteFailed
from odradek.registry.state import RegistryState
from odradek.statemachine.machine import LogRecord

_log = logging.getLogger("odradek.registry")

_MAX_BATCH: Final = 100
_MAX_WAITING: Final = 2_000
_RETRY_S: Final = 0.3
_ATTEMPTS: Final = 5
_KEEP_IDS_EVERY: Final = 500
_MAX_RECORD_BYTES: Final = 1_000_000


class NotPrimary(Exception):
    """Another instance is the primary, or none is."""


class Reply(NamedTuple):
    value: Any
    offset: int
    """The state has this reply from the record at this offset on; -1 if nothing was written."""


class _Waiting:
    """A command whose caller waits."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.attempts = 0

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def succeed(self, reply: Reply) -> None:
        if not self.future.done():
            self.future.set_result(reply)


class Primary:
    def __init__(
        self,
        state: RegistryState,
        log: SchemaLog,
        *,
        may_change_modes: bool = True,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_lost` is called when the role was lost although the group has not said so."""
        self._state = state
        self._log = log
        self._may_change_modes = may_change_modes
        self._on_lost = on_lost
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._is_elected = False
        self._generation = 0
        self.is_writing = False
        """Whether commands are carried out: elected, fenced and up to date."""
        self._since_kept = 0
        self.batches = 0
        self.commands = 0

    def elected(self, is_me: bool) -> None:
        """Notes what the group has decided."""
        if is_me and not self._is_elected:
            self._generation += 1
        self._is_elected = is_me
        if not is_me:
            self.is_writing = False
            self._fail_all(NotPrimary())
        self._wake.set()

    async def carry_out(self, command: Command) -> Reply:
        """Returns when a command is committed. Raises `Refused`, `Stale` or `NotPrimary`."""
        if not self._is_elected:
            raise NotPrimary
        if len(self._waiting) >= _MAX_WAITING:
            raise store_failed("too many changes wait; try again")
        waiting = _Waiting(command)
        self._waiting.append(waiting)
        self._wake.set()
        return await waiting.future

    async def run(self) -> None:
        """Carries out commands until it is cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if not self._is_elected:
                    await self._log.end()
                elif not self.is_writing:
                    await self._begin()
                while self._waiting and self.is_writing:
                    await self._carry_out_batch()
        finally:
            was_writing, self.is_writing = self.is_writing, False
            self._fail_all(NotPrimary())
            await (self._log.conclude() if was_writing else self._log.end())

    async def _begin(self) -> None:
        generation = self._generation
        try:
            await self._log.begin()
        except (WriteFailed, ClientError, KafkaError) as error:
            _log.warning("cannot become the primary yet: %s", error)
            await self._log.end()
            await asyncio.sleep(_RETRY_S)
            self._wake.set()
            return
        if self._is_elected and generation == self._generation:
            self.is_writing = True
            _log.info("this instance is the primary")
            self._wake.set()
        else:
            self._wake.set()

    async def _carry_out_batch(self) -> None:
        batch = Batch()
        chosen: list[tuple[_Waiting, Decided]] = []
        records: list[LogRecord] = []
        kept: list[_Waiting] = []
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if len(chosen) >= _MAX_BATCH or not batch.takes(one.command):
                kept.append(one)
                continue
            decided = self._decide(one, batch)
            if decided is None:
                continue
            batch.add(one.command)
            chosen.append((one, decided))
            records += decided.records
        self._waiting = kept + self._waiting
        offset = -1
        if self._since_kept + len(chosen) > _KEEP_IDS_EVERY and records:
            # So that the next primary has little to look through.
            highest = self._state.max_ids()
            for context, schema_id in batch.highest.items():
                highest[context] = max(highest.get(context, 0), schema_id)
            records.insert(0, max_ids(highest))
            self._since_kept = 0
        self._since_kept += len(chosen)
        if records:
            try:
                offset = await self._log.write(records)
            except WriteFailed as error:
                self._write_failed([one for one, _ in chosen], error)
                return
        self.batches += 1
        self.commands += len(chosen)
        for one, decided in chosen:
            one.succeed(Reply(self._as_stored(decided), offset if decided.records else -1))

    def _decide(self, one: _Waiting, batch: Batch) -> Decided | None:
        """Decides a command, or tells its caller why it is refused."""
        try:
            decided = decide(
                self._state, batch, one.command, may_change_modes=self._may_change_modes
            )
        except (Refused, Stale) as error:
            one.fail(error)
            return None
        if any(len(record.value or b"") > _MAX_RECORD_BYTES for record in decided.records):
            one.fail(schema_too_large())
            return None
        return decided

    def _as_stored(self, decided: Decided) -> Any:
        """Returns a version as it was read back, which has its time."""
        reply = decided.reply
        subject, number = getattr(reply, "subject", None), getattr(reply, "version", None)
        if subject is None or number is None:
            return reply
        return self._state.version(subject, number, deleted=True) or reply

    def _write_failed(self, chosen: list[_Waiting], error: WriteFailed) -> None:
        _log.warning("a write to the topic of schemas failed: %s", error)
        self.is_writing = False
        again = []
        for one in chosen:
            one.attempts += 1
            if not isinstance(one.command, Register):
                # Decided again, it could be refused although it was carried out.
                one.fail(store_failed(f"it is not known whether the change was made: {error}"))
            elif one.attempts >= _ATTEMPTS:
                one.fail(store_failed(str(error)))
            else:
                again.append(one)
        if isinstance(error, Fenced):
            # Another instance has become the primary; the group will say so, or choose again.
            self._is_elected = False
            for one in again:
                one.fail(NotPrimary())
            self._fail_all(NotPrimary())
            self._on_lost()
        else:
            self._waiting = again + self._waiting
        self._wake.set()

    def _fail_all(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.fail(error)
