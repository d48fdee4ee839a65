"""Bugs that are planted in production code on purpose, to see whether a scenario finds them.

Each replaces one or two functions in this process, and is taken back after the run. Production code
does not know of it.

    forget-fencing           an old producer epoch is accepted: zombies go on writing
    apply-after-commit       a coordinator applies a decision only when it is committed, so the next
                             one is made without it
    skip-a-marker            a transaction's end is not written to every partition it touched
    lose-a-pending-offset    a coordinator that loads forgets positions in open transactions
    reuse-a-producer-id      a broker that starts gives producer ids away from the first one on
    keep-the-oldest          compaction keeps the oldest value of a key, not the newest
    forget-tombstones        compaction drops tombstones at once, before all readers have seen them

Those of replication and elections are in `planted_cluster_bugs`, those that once were in the code
in `planted_past_bugs` and `planted_client_bugs`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from odradek.cluster.producer_ids import ProducerIds
from odradek.groups.machine import GroupMachine
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.replication.partition import Partition
from odradek.statemachine.machine import Marker, ProducerIdentity, Written
from odradek.statemachine.runner import Runner
from odradek.storage.compaction import rewriting
from odradek.storage.compaction.key_map import KeyMap, PlainKeyMap
from odradek.storage.producer_state import ProducerStates
from odradek.transactions import identity_checks, machine
from odradek.transactions.machine import StepTaken
from simulation import planted_client_bugs as client_bugs
from simulation import planted_cluster_bugs as cluster_bugs
from simulation import planted_past_bugs as past_bugs

Patch = tuple[object, str, Any]


def _forget_fencing() -> list[Patch]:
    check_batch = ProducerStates.check

    def check(current: Any, producer_id: int, producer_epoch: int) -> ErrorCode:
        if current is None or current.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE

    def check_without_epoch(self: ProducerStates, header: Any) -> Any:
        entry = self.entries.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            return None
        return check_batch(self, header)

    return [
        # `machine` calls it by a name of its own, the checks of EndTxn by theirs.
        (machine, "check_identity", check),
        (identity_checks, "check_identity", check),
        (ProducerStates, "check", check_without_epoch),
    ]


class _LateMachine:
    """A machine that applies its own records only when the log has committed them."""

    def __init__(self, machine: Any, log: Any) -> None:
        self._machine = machine
        self._log = log
        self._is_loaded = False
        self._late: deque[tuple[int, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def after_load(self, now: Any) -> Any:
        self._is_loaded = True
        return self._machine.after_load(now)

    def apply(self, entry: Any) -> None:
        is_step = isinstance(entry, StepTaken)  # It is about the record that it follows.
        is_late = self._is_loaded and (isinstance(entry, Written) or (is_step and self._late))
        offset = entry.offset if isinstance(entry, Written) else -1
        if not is_late or (not self._late and self._log.committed_offset > offset):
            self._machine.apply(entry)
            return
        self._late.append((offset, entry))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._catch_up())

    async def _catch_up(self) -> None:
        while self._late:
            try:
                await self._log.wait_until_committed(self._late[0][0] + 1)
            except Exception:  # noqa: BLE001 - leadership is over, as the runner knows too
                return
            self._machine.apply(self._late.popleft()[1])


def _apply_after_commit() -> list[Patch]:
    begin = Runner.__init__

    def begin_late(self: Any, machine: Any, log: Any, *others: Any, **more: Any) -> None:
        begin(self, _LateMachine(machine, log), log, *others, **more)

    return [(Runner, "__init__", begin_late)]


def _skip_a_marker() -> list[Patch]:
    append = Partition.append_marker

    def append_some(self: Partition, marker: Any, now_ms: int) -> Any:
        is_skipped = self.log.log_end_offset % 5 == 4
        return None if is_skipped else append(self, marker, now_ms)

    return [(Partition, "append_marker", append_some)]


def _lose_a_pending_offset() -> list[Patch]:
    after_load = GroupMachine.after_load

    def forget(self: GroupMachine, now: Any) -> Any:
        for producer_id in list(self.offsets.pending):
            self.offsets.end_transaction(
                Marker(ProducerIdentity(ProducerId(producer_id), ProducerEpoch(0)), committed=False)
            )
        return after_load(self, now)

    return [(GroupMachine, "after_load", forget)]


def _reuse_a_producer_id() -> list[Patch]:
    given: WeakKeyDictionary[ProducerIds, int] = WeakKeyDictionary()

    async def next_of_this_life(self: ProducerIds) -> ProducerId:
        given[self] = given.get(self, -1) + 1
        return ProducerId(given[self])

    return [(ProducerIds, "next", next_of_this_life)]


class _OldestKeyMap(PlainKeyMap):
    def put(self, keys: Sequence[bytes], values: Sequence[int]) -> None:
        first: dict[bytes, int] = {}
        for key, value, is_known in zip(keys, values, self.contains(keys), strict=True):
            if not is_known:
                first.setdefault(key, value)
        super().put(list(first), list(first.values()))


def _keep_the_oldest() -> list[Patch]:
    def make_oldest(budget_bytes: int) -> KeyMap:
        return _OldestKeyMap(budget_bytes)

    return [(rewriting, "make_key_map", make_oldest)]


def _forget_tombstones() -> list[Patch]:
    return [
        (rewriting.Compaction, "_is_past_horizon", lambda *_: True),
        (rewriting.Compaction, "_new_horizon", lambda *_: None),
    ]


PLANTS: dict[str, Callable[[], list[Patch]]] = {
    "ack-before-replication": cluster_bugs.ack_before_replication,
    "apply-after-commit": _apply_after_commit,
    "believe-a-follower": client_bugs.believe_a_follower,
    "outrun-the-memory": client_bugs.outrun_the_memory,
    "coordinate-without-lease": past_bugs.coordinate_without_lease,
    "die-without-descriptors": past_bugs.die_without_descriptors,
    "elect-unclean": cluster_bugs.elect_unclean,
    "fence-by-one-epoch": past_bugs.fence_by_one_epoch,
    "forget-fencing": _forget_fencing,
    "forget-leader-fencing": cluster_bugs.forget_leader_fencing,
    "forget-producer-ids": past_bugs.forget_producer_ids,
    "forget-producers": past_bugs.forget_producers,
    "forget-sequences": client_bugs.forget_sequences,
    "forget-the-next-id": past_bugs.forget_the_next_id,
    "forget-the-absent": past_bugs.forget_the_absent,
    "forget-tombstones": _forget_tombstones,
    "go-on-unseen": client_bugs.go_on_unseen,
    "ignore-broker-epochs": past_bugs.ignore_broker_epochs,
    "ignore-min-isr": cluster_bugs.ignore_min_isr,
    "ignore-the-proposal": past_bugs.ignore_the_proposal,
    "keep-a-log-start": past_bugs.keep_a_log_start,
    "keep-the-broker-epoch": past_bugs.keep_the_broker_epoch,
    "keep-the-oldest": _keep_the_oldest,
    "lead-with-an-empty-log": past_bugs.lead_with_an_empty_log,
    "lose-a-pending-offset": _lose_a_pending_offset,
    "name-itself-leader": past_bugs.name_itself_leader,
    "never-make-it-again": past_bugs.never_make_it_again,
    "no-leader-lease": past_bugs.no_leader_lease,
    "ordinary-internal-topics": past_bugs.ordinary_internal_topics,
    "overwrite-settings": past_bugs.overwrite_settings,
    "outrun-a-lease": past_bugs.outrun_a_lease,
    "renew-unread": past_bugs.renew_unread,
    "reuse-a-producer-id": _reuse_a_producer_id,
    "settle-unread": past_bugs.settle_unread,
    "show-by-id": past_bugs.show_by_id,
    "skip-a-marker": _skip_a_marker,
    "skip-truncation": cluster_bugs.skip_truncation,
    "split-in-front": client_bugs.split_in_front,
    "take-nonsense": past_bugs.take_nonsense,
    "take-later-for-done": client_bugs.take_later_for_done,
    "commit-replays-by-task": client_bugs.commit_replays_by_task,
    "tell-unstable-offsets": past_bugs.tell_unstable_offsets,
    "trust-stale-epochs": past_bugs.trust_stale_epochs,
    "excuse-holes": past_bugs.excuse_holes,
    "wait-for-slow-followers": past_bugs.wait_for_slow_followers,
}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """With this bug in place; without any for None."""
    patches = [] if name is None else PLANTS[name]()
    with ExitStack() as replaced:
        for place, attribute, replacement in patches:
            # It puts back what the class has, so a static method is one again.
            replaced.enter_context(patch.object(place, attribute, replacement))
        yield
