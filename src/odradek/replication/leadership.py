"""One leader epoch of a partition, on its leader: how far each follower is, and which ones count.

This is pure state without clock, event loop or store: times are passed in, decisions are returned.
`Partition` owns it while it leads. The high watermark waits for three kinds of followers:

    in sync     in the in-sync set of the metadata store; they may be elected
    proposed    in a set that was sent to the store, whether or not it is stored yet
    joining     outside the set, but keeping up: without the wait they could not reach a high
                watermark that keeps advancing (Kafka: the maximal ISR)

So the high watermark is the lowest log end of all three. It does not advance too far while the
outcome of an expansion is unknown, nor while a shrink is not stored.

A follower is caught up at a time if it holds every record that the leader held at that time. One
fetch shows it for the time of the fetch before.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.protocol.types import LeaderEpoch
from odradek.statemachine.watermark import Watermark

UNKNOWN: Final = -1
_LONG_AGO_S: Final = float("-inf")


class Follower:
    """What a leader knows about another replica, all of it from that replica's fetches."""

    __slots__ = (
        "_fetched_s",
        "_leader_end",
        "broker_epoch",
        "caught_up_s",
        "is_joining",
        "log_end",
        "log_start",
    )

    def __init__(self, caught_up_s: float = _LONG_AGO_S) -> None:
        self.log_end = UNKNOWN
        self.log_start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_s = caught_up_s
        self.is_joining = False
        # When it fetched last, and where the leader's log ended at that time.
        self._fetched_s = _LONG_AGO_S
        self._leader_end = UNKNOWN

    def fetched(self, log_end: int, log_start: int, leader_end: int, now_s: float) -> None:
        """The follower fetches from `log_end` on, so it holds every record below."""
        if log_end >= leader_end:
            self.caught_up_s = max(self.caught_up_s, now_s)
        elif self._leader_end != UNKNOWN and log_end >= self._leader_end:
            self.caught_up_s = max(self.caught_up_s, self._fetched_s)
        self.log_end = log_end
        self.log_start = log_start
        self._fetched_s = now_s
        self._leader_end = max(self._leader_end, leader_end)

    def heard_again(self, now_s: float) -> None:
        """The follower repeated its last fetch, and held every record that the leader held then."""
        self.caught_up_s = max(self.caught_up_s, now_s)
        self._fetched_s = max(self._fetched_s, now_s)

    def is_lagging(self, leader_end: int, now_s: float, max_lag_s: float) -> bool:
        return self.log_end != leader_end and now_s - self.caught_up_s > max_lag_s


class Leadership:
    """Invariant: the leader is in the in-sync set, `followers` holds every other replica, and the
    high watermark waits for every follower that counts (`check`)."""

    __slots__ = (
        "_highest_watermark",
        "_leader",
        "_waiting_for",
        "appended",
        "eligible",
        "followers",
        "in_sync",
        "leader_epoch",
        "log_starts_moved",
        "proposed",
        "start_offset",
        "version",
    )

    def __init__(
        self,
        leader: int,
        leader_epoch: LeaderEpoch,
        start_offset: int,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        *,
        version: int,
        now_s: float,
        eligible: tuple[int, ...] = (),
    ) -> None:
        """`version` is that of the partition's node in the metadata store."""
        self._leader = leader
        # Replicas that left the set but may still be elected: nothing is committed meanwhile.
        self.eligible = eligible
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        # The log end: it only rises in one leadership, so the followers' fetches can wait on it.
        self.appended = Watermark(start_offset)
        # Counts changes of the followers' log starts: DeleteRecords waits for them.
        self.log_starts_moved = Watermark()
        self.in_sync = tuple(in_sync)
        self.version = version
        self.proposed: tuple[int, ...] | None = None
        self.followers = {
            replica: Follower(now_s if replica in self.in_sync else _LONG_AGO_S)
            for replica in replicas
            if replica != leader
        }
        self._waiting_for: tuple[Follower, ...] = ()
        # Where the high watermark stood when it was checked last.
        self._highest_watermark = UNKNOWN
        self._choose()

    def end(self, reason: Exception) -> None:
        """This replica leads no longer in this epoch: every request that waits fails."""
        self.appended.fail(reason)
        self.log_starts_moved.fail(reason)

    # Invariants

    def check(self) -> None:
        """Raises `InvariantViolation` if the sets contradict each other."""
        if self._leader not in self.in_sync:
            raise self._violation(f"the in-sync set {self.in_sync} lacks the leader")
        if self.proposed is not None and self._leader not in self.proposed:
            raise self._violation(f"the proposed in-sync set {self.proposed} lacks the leader")
        if self._leader in self.followers:
            raise self._violation("the leader is among its own followers")
        waiting_for = self._waiting_for
        for replica, follower in self.followers.items():
            if self._counts(replica, follower) and follower not in waiting_for:
                raise self._violation(f"the high watermark does not wait for replica {replica}")
        if invariants.is_thorough():
            self._check_thoroughly()

    def _check_thoroughly(self) -> None:
        """The store may show a new in-sync set a moment before the new assignment, because they are
        two nodes and a read of both is not atomic in ZooKeeper. So production does not insist."""
        replicas = {self._leader, *self.followers}
        for name, brokers in (("in-sync set", self.in_sync), ("eligible set", self.eligible)):
            if not replicas.issuperset(brokers):
                raise self._violation(f"the {name} {brokers} is not among the replicas {replicas}")
        if not set(self.eligible).isdisjoint(self.in_sync):
            raise self._violation(f"{self.eligible} are eligible and in sync {self.in_sync}")

    def check_high_watermark(self, high_watermark: int) -> None:
        """Raises `InvariantViolation` if the high watermark fell since it was last checked."""
        if high_watermark < self._highest_watermark:
            raise self._violation(
                f"the high watermark fell from {self._highest_watermark} to {high_watermark}"
            )
        self._highest_watermark = high_watermark

    def _violation(self, rule: str) -> InvariantViolation:
        return InvariantViolation(
            f"leadership of broker {self._leader} in epoch {self.leader_epoch}", rule
        )

    # The in-sync set

    def update(
        self,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        version: int,
        eligible: tuple[int, ...] = (),
    ) -> None:
        """Takes over what the store holds now, in the same leader epoch."""
        if version < self.version and invariants.is_thorough():
            # An operator may have deleted the node and created it again, so production goes on.
            raise self._violation(f"the node's version falls from {self.version} to {version}")
        self.eligible = eligible
        before, self.in_sync = self.in_sync, tuple(in_sync)
        self.version = version
        others = dict.fromkeys(replica for replica in replicas if replica != self._leader)
        for replica in [replica for replica in self.followers if replica not in others]:
            del self.followers[replica]
        for replica in others:
            self.followers.setdefault(replica, Follower())
        for replica in self.in_sync:
            if replica in self.followers:
                self.followers[replica].is_joining = False
        self._choose()
        self.check()
        if self.in_sync != before:
            # A follower that left must show that it keeps up: its fetches are looked at again.
            self.appended.nudge()

    def propose(self, in_sync: tuple[int, ...]) -> None:
        """This set is on its way to the store: until the outcome is known it counts as well."""
        self.proposed = in_sync
        self._choose()
        self.check()

    def settle(self) -> None:
        """The outcome of the proposal is known; `update` was called before if it was stored."""
        if self.proposed is not None:
            for replica in self.proposed:
                if replica in self.followers and replica not in self.in_sync:
                    # Refused: it must show again that it keeps up.
                    self.followers[replica].is_joining = False
        self.proposed = None
        self._choose()
        self.check()

    def _counts(self, replica: int, follower: Follower) -> bool:
        """Whether the high watermark must wait for a follower."""
        return (
            replica in self.in_sync
            or follower.is_joining
            or (self.proposed is not None and replica in self.proposed)
        )

    def _choose(self) -> None:
        """Chooses the followers that the high watermark waits for."""
        self._waiting_for = tuple(
            follower
            for replica, follower in self.followers.items()
            if self._counts(replica, follower)
        )

    # The high watermark

    @property
    def is_alone(self) -> bool:
        """Whether the high watermark waits for no follower: the leader's own log decides."""
        return not self._waiting_for

    def committed(self, own_end: int) -> int:
        """Returns the offset below which every record is on all replicas that count; -1 if one of
        them has not fetched yet."""
        for follower in self._waiting_for:
            own_end = min(own_end, follower.log_end)
        return own_end

    # Followers

    def fetched(
        self,
        replica: int,
        log_end: int,
        log_start: int,
        *,
        broker_epoch: int,
        leader_end: int,
        now_s: float,
    ) -> None:
        """A follower fetches from `log_end` on. `broker_epoch` is that of its broker's run."""
        if log_end > leader_end:
            # `Replica.diverging_replica` answers such a fetch.
            raise self._violation(
                f"replica {replica} fetches from {log_end}, beyond the leader's end {leader_end}"
            )
        follower = self.followers[replica]
        if broker_epoch != follower.broker_epoch:
            # The broker restarted: what its previous run held says nothing about this one.
            if follower.broker_epoch != UNKNOWN:
                follower = self.followers[replica] = Follower(follower.caught_up_s)
                self._choose()
            follower.broker_epoch = broker_epoch
        if log_start != follower.log_start:
            self.log_starts_moved.advance(self.log_starts_moved.value + 1)
        follower.fetched(log_end, log_start, leader_end, now_s)
        if (
            not follower.is_joining
            and follower.caught_up_s > _LONG_AGO_S
            and replica not in self.in_sync
        ):
            follower.is_joining = True
            self._choose()

    def forget(self, replica: int) -> None:
        """The follower's broker is gone; when it is back its progress is counted anew."""
        if replica in self.followers:
            self.followers[replica] = Follower()
            self.log_starts_moved.advance(self.log_starts_moved.value + 1)
            self._choose()
            self.check()
            self.appended.nudge()

    def may_expand(self, replica: int, high_watermark: int) -> bool:
        """Returns whether a replica outside the set may enter it: it holds every committed record,
        and has fetched up to where this leadership began."""
        if replica in self.in_sync or self.proposed is not None:
            return False
        log_end = self.followers[replica].log_end
        return log_end >= high_watermark and log_end >= self.start_offset

    def next_in_sync(
        self,
        high_watermark: int,
        leader_end: int,
        live: Mapping[int, int],
        *,
        now_s: float,
        max_lag_s: float,
    ) -> tuple[int, ...]:
        """Returns the in-sync set as it should be; `live` holds the epochs of live brokers.

        A follower leaves if its broker is gone or it was not caught up for `max_lag_s`. One that
        is joining enters if it holds every committed record.
        """
        kept = [
            replica
            for replica in self.in_sync
            if replica == self._leader
            or (
                replica in self.followers
                and replica in live
                and not self.followers[replica].is_lagging(leader_end, now_s, max_lag_s)
            )
        ]
        for replica, follower in self.followers.items():
            if (
                replica not in self.in_sync
                and follower.is_joining
                and live.get(replica) == follower.broker_epoch
                and follower.log_end >= max(high_watermark, self.start_offset)
            ):
                kept.append(replica)
        return tuple(kept)

    def drop_laggards(self, leader_end: int, now_s: float, max_lag_s: float) -> None:
        """The high watermark no longer waits for joining followers that do not keep up."""
        for follower in self.followers.values():
            if follower.is_joining and follower.is_lagging(leader_end, now_s, max_lag_s):
                follower.is_joining = False
        self._choose()

    def low_watermark(self, own_start: int, live: Container[int]) -> int:
        """Returns the lowest log start of the leader and of the followers on live brokers."""
        for replica, follower in self.followers.items():
            if replica in live and follower.log_start < own_start:
                own_start = follower.log_start
        return own_start
