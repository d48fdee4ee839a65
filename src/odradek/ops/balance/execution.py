"""Carries a plan out: leaders first, then data in waves under a throttle, by a journal.

1. The journal gets the plan and the throttles that brokers and topics have now.
2. Moves that change only the order of replicas take effect, and preferred leaders are elected. They
   cost nothing, and relieve the brokers that lead too much at once.
3. Wave after wave: the replicas of the wave get a throttle, the partitions are reassigned, and when
   the brokers have finished, their preferred leaders are elected.
4. The throttles from before are restored, and the journal says how the run ended.

Every step can be done again, so after a crash `run` goes on with the journal from the beginning:
moves that have arrived are skipped, and those in progress are waited for. `cancel` stops the
moves in progress, which leaves each partition on the replicas that it had, and restores the
throttles. A move that has finished is not undone.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odradek.client.admin.partitions import ElectionType
from odradek.client.errors import ClientError
from odradek.ops.balance.journal import Entry, Journal, State, Throttles
from odradek.ops.balance.plan import Move, Plan, shown_bytes, waves
from odradek.ops.balance.reading import BalanceAdmin, sizes
from odradek.ops.balance.throttles import list_replicas, read_throttles, restore, set_rates
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

DEFAULT_THROTTLE: Final = 50_000_000
MAX_MOVES: Final = 5
MAX_WAVE_BYTES: Final = 10_000_000_000
_LOOK_AGAIN_S: Final = 0.2
_MEASURE_S: Final = 5.0
# How late a broker may describe what another one knows.
_LATE_S: Final = 10.0
# Without any progress for so long, a run gives up.
STALLED_S: Final = 600.0
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
# What an election may answer without being a failure: it is done, the replica is not in sync, or
# the topic is gone.
_NO_ELECTION: Final = (
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    *_GONE,
)

Say = Callable[[str], None]


class Stopped(Exception):
    """`odradek balance cancel` asked this run to stop."""


class RunFailed(Exception):
    """The plan could not be carried out to its end; the message says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a plan is carried out. `throttle` is bytes a second, -1 for no limit. `max_moves` limits
    the replicas that a broker sends and receives at once, `max_wave_bytes` the bytes of a wave."""

    throttle: int = DEFAULT_THROTTLE
    max_moves: int = MAX_MOVES
    max_wave_bytes: int = MAX_WAVE_BYTES
    stalled_s: float = STALLED_S


def divided(plan: Plan, options: Options) -> list[list[Move]]:
    """Returns the waves of the data that a plan moves."""
    return waves(plan.data_moves, options.max_moves, options.max_wave_bytes)


def entry_of(plan: Plan, kind: str, options: Options, now_ms: int) -> Entry:
    """Returns the journal of a run that is about to begin."""
    orders = tuple(move for move in plan.moves if not move.adding)
    return Entry(
        cluster_id=plan.before.cluster_id,
        kind=kind,
        state=State.RUNNING,
        started_ms=now_ms,
        throttle=options.throttle,
        waves=(orders, *map(tuple, divided(plan, options))),
        elections=plan.elections,
    )


class Execution:
    """One run of a plan. The caller holds the lock of the journal."""

    def __init__(
        self,
        admin: BalanceAdmin,
        journal: Journal,
        entry: Entry,
        say: Say,
        *,
        stalled_s: float = STALLED_S,
    ) -> None:
        self._admin = admin
        self._journal = journal
        self.entry = entry
        self._say = say
        self._stalled_s = stalled_s

    async def run(self) -> Entry:
        """Carries everything out and returns the journal at the end. If it is cancelled, from
        within or by `odradek balance cancel`, it stops its moves and restores throttles first."""
        try:
            await self._run()
        except Stopped:
            await self.stop(State.CANCELLED, "cancelled by odradek balance cancel")
        except asyncio.CancelledError:
            await self.stop(State.CANCELLED, "interrupted")
            raise
        except (RunFailed, KafkaError, ClientError) as failure:
            await self.stop(State.FAILED, str(failure))
            raise
        else:
            await self._finish(State.COMPLETED, "")
        return self.entry

    async def stop(self, state: State, reason: str) -> None:
        """Stops the moves of the journal that are in progress, and restores throttles."""
        moving = await self._moving(self.entry.moves)
        if moving:
            answers = await self._admin.cancel_partition_reassignments(moving)
            for error in answers.values():
                if error is not None and error.code not in _GONE:
                    raise error
            self._say(f"stopped {counted(len(moving), 'move')}")
        await self._finish(state, reason)

    async def _finish(self, state: State, reason: str) -> None:
        left = await restore(self._admin, self.entry.throttles)
        if left.brokers:
            brokers = ", ".join(left.brokers)
            self._say(
                f"warning: broker {brokers} does not answer and keeps its throttle; when it is"
                " back, lift it with: odradek balance cancel"
            )
        self._write(replace(self.entry.with_state(state, reason), throttles=left))

    def _write(self, entry: Entry) -> None:
        self._journal.write(entry)
        self.entry = entry

    # The steps of a run

    async def _run(self) -> None:
        entry = self.entry
        orders, *data = entry.waves
        if entry.throttle >= 0 and entry.throttles.is_empty:
            moves = [move for wave in data for move in wave]
            entry = replace(entry, throttles=await read_throttles(self._admin, moves))
        self._write(entry)
        if entry.throttle >= 0:
            await set_rates(self._admin, entry.throttles.brokers, entry.throttle)
        await self._lead(orders)
        for number, wave in enumerate(data, 1):
            await self._move(wave, f"wave {number} of {len(data)}")

    async def _lead(self, orders: Sequence[Move]) -> None:
        """Step 2."""
        await self._reassign(orders)
        await self._wait(orders)
        await self._check_arrived(orders)
        names = {move.partition for move in orders} | set(self.entry.elections)
        await self._elect(names)
        if names:
            self._say(f"elected the preferred leaders of {counted(len(names), 'partition')}")

    async def _move(self, wave: Sequence[Move], title: str) -> None:
        """Step 3."""
        left = await self._not_arrived(wave)
        if not left:
            return
        size = sum(move.bytes_to_move for move in left)
        self._say(f"{title}: {counted(len(left), 'partition')}, {shown_bytes(size)}")
        if self.entry.throttle >= 0:
            await list_replicas(self._admin, left)
        moving = await self._moving(left)
        await self._reassign([move for move in left if move.partition not in moving])
        await self._wait(left)
        await self._check_arrived(left)
        await self._elect({move.partition for move in left})

    async def _reassign(self, moves: Iterable[Move]) -> None:
        targets = {move.partition: list(move.after) for move in moves}
        if not targets:
            return
        answers = await self._admin.alter_partition_reassignments(targets)
        for partition, error in answers.items():
            if error is not None and error.code not in _GONE:
                raise RunFailed(f"{partition} cannot move: {error.message}")

    async def _not_arrived(self, moves: Iterable[Move]) -> list[Move]:
        """Returns the moves whose partition exists and does not have its new replicas yet."""
        topics = await self._admin.list_topics(include_internal=True)
        left = []
        for move in moves:
            topic = topics.get(move.partition.topic)
            known = topic.partitions.get(move.partition.partition) if topic is not None else None
            if known is not None and tuple(map(int, known.replicas)) != move.after:
                left.append(move)
        return left

    async def _moving(self, moves: Iterable[Move]) -> set[TopicPartition]:
        """Returns the partitions of these moves that the brokers are reassigning."""
        names = {move.partition for move in moves}
        return names & (await self._admin.list_partition_reassignments()).keys()

    async def _wait(self, moves: Sequence[Move]) -> None:
        """Returns when none of the moves is in progress. Raises if nothing happens for long."""
        clock_s = asyncio.get_running_loop().time
        seen: tuple[int, int] | None = None
        changed_s = measured_s = clock_s()
        copied = 0
        while True:
            if self._journal.is_asked_to_stop():
                raise Stopped
            try:
                left = len(await self._moving(moves))
                if not left:
                    return
                if clock_s() - measured_s >= _MEASURE_S:
                    copied, measured_s = await self._copied(moves), clock_s()
            except (ClientError, OSError) as error:
                if clock_s() - changed_s >= self._stalled_s:
                    raise RunFailed(f"the brokers do not answer: {error}") from error
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            if (left, copied) != seen:
                seen, changed_s = (left, copied), clock_s()
            elif clock_s() - changed_s >= self._stalled_s:
                raise RunFailed(
                    f"{counted(left, 'move')} made no progress for {self._stalled_s:.0f} s; is a"
                    " broker down, or the throttle below the rate of the producers?"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _check_arrived(self, moves: Sequence[Move]) -> None:
        """Raises if partitions do not have their new replicas although nothing moves: somebody has
        stopped or changed the reassignment. Brokers may describe the last change a moment late."""
        clock_s = asyncio.get_running_loop().time
        end_s = clock_s() + _LATE_S
        while left := await self._not_arrived(moves):
            if clock_s() >= end_s:
                raise RunFailed(
                    f"{left[0].partition} does not have the replicas {list(left[0].after)}, and is"
                    " not moving; did somebody stop its reassignment?"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _copied(self, moves: Iterable[Move]) -> int:
        """Returns the bytes that the new replicas have."""
        names = [move.partition for move in moves]
        targets = sorted({broker for move in moves for broker in move.adding})
        directories = await self._admin.describe_log_dirs(targets, names) if targets else {}
        return sum(sum(sizes({broker: listed}).values()) for broker, listed in directories.items())

    async def _elect(self, names: Collection[TopicPartition]) -> None:
        if not names:
            return
        answers = await self._admin.elect_leaders(ElectionType.PREFERRED, sorted(names))
        for partition, error in answers.items():
            if error is not None and error.code not in _NO_ELECTION:
                raise RunFailed(f"the leader of {partition} cannot be elected: {error.message}")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a journal is, as the brokers say."""

    entry: Entry
    is_alive: bool
    """Whether a process carries it out now."""
    arrived: int
    moving: int
    waiting: int

    @property
    def is_interrupted(self) -> bool:
        return self.entry.state is State.RUNNING and not self.is_alive

    @property
    def state(self) -> str:
        return "interrupted" if self.is_interrupted else self.entry.state.value

    @property
    def throttles(self) -> Throttles:
        return self.entry.throttles


async def progress(admin: BalanceAdmin, journal: Journal, entry: Entry) -> Progress:
    """Compares a journal with the cluster. It is true also if the command was killed."""
    is_alive = journal.is_locked()
    look = Execution(admin, journal, entry, lambda _: None)
    moving = await look._moving(entry.moves)
    left = {move.partition for move in await look._not_arrived(entry.moves)} - moving
    return Progress(
        entry,
        is_alive,
        arrived=len(entry.moves) - len(moving) - len(left),
        moving=len(moving),
        waiting=len(left),
    )
