"""One leader epoch of a partition, on its leader: how far each follower has fetched, and for which
followers the high watermark waits.

This is pure state without clock, event loop or store: times are passed in, decisions are returned.
`Partition` owns it while it leads. The high watermark waits for three kinds of followers:

    in sync     in the ISR (in-sync replicas) of the metadata store; they may be elected
    proposed    in an ISR that was sent to the store, whether or not it is stored yet
                (with those in sync they are Kafka's maximal ISR)
    joining     outside the ISR, but keeping up: without the wait they could not reach a
                high watermark that keeps advancing (Kafka: shouldWaitForReplicaToJoinIsr)

The high watermark is the lowest log end of the leader and of all these followers. So it stays
correct whether or not a proposed change of the ISR is stored.

A follower was caught up at a time if it has every record that the leader had at that time. If it
fetches from an offset at or above the leader's log end at its previous fetch, it was caught up at
the time of that previous fetch.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final, NamedTuple

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.protocol.types import NO_OFFSET, BrokerId, LeaderEpoch, Offset
from odradek.statemachine.watermark import Watermark

UNKNOWN_BROKER_EPOCH: Final = -1
_LONG_AGO_S: Final = float("-inf")


class LagLimits(NamedTuple):
    """For how long a follower may stay in the ISR that is not caught up.

    The limit is `replica.lag.time.max.ms`. A follower that has not fetched in this leader epoch
    stays for `max_lease_s` at least, because it may be the previous leader: if it was cut off from
    the metadata store before it was deposed, it answers clients from memory until its lease ends.
    While it is in the ISR nothing is committed without it, so its answers are not out of date."""

    max_lag_s: float
    max_lease_s: float


class Follower:
    """What a leader knows about a follower, most of it from the follower's fetches. A follower that
    is in sync when the leadership begins is taken as caught up at that time."""

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
        self.log_end = NO_OFFSET
        self.log_start = NO_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.caught_up_s = caught_up_s
        self.is_joining = False
        # When it fetched last, and where the leader's log ended at that time.
        self._fetched_s = _LONG_AGO_S
        self._leader_end = NO_OFFSET

    def note_fetch(
        self, log_end: Offset, log_start: Offset, leader_end: Offset, now_s: float
    ) -> None:
        """Notes that the follower fetches from `log_end` on, so it has every record below."""
        if log_end >= leader_end:
            self.caught_up_s = max(self.caught_up_s, now_s)
        elif self._leader_end != NO_OFFSET and log_end >= self._leader_end:
            self.caught_up_s = max(self.caught_up_s, self._fetched_s)
        self.log_end = log_end
        self.log_start = log_start
        self._fetched_s = now_s
        self._leader_end = max(self._leader_end, leader_end)

    def confirm_caught_up(self, now_s: float) -> None:
        """Notes that the follower was caught up at `now_s`. Called for an idle partition, which is
        not read: the follower's last request came at that time and left the partition as it is."""
        self.caught_up_s = max(self.caught_up_s, now_s)
        self._fetched_s = max(self._fetched_s, now_s)

    def is_lagging(self, leader_end: Offset, now_s: float, limits: LagLimits) -> bool:
        max_lag_s = limits.max_lag_s
        if self.log_end == NO_OFFSET:
            # It has not fetched from this leader, and may not know that the leader has changed.
            max_lag_s = max(max_lag_s, limits.max_lease_s)
        return self.log_end != leader_end and now_s - self.caught_up_s > max_lag_s


class Leadership:
    """The state of one leader epoch. Invariant: the leader is in the ISR, `followers` holds
    every other replica, and the high watermark waits for every follower that is in sync, proposed
    or joining (`check`)."""

    __slots__ = (
        "_checked_high_watermark",
        "_leader",
        "_waiting_for",
        "eligible",
        "followers",
        "in_sync",
        "leader_epoch",
        "log_end",
        "log_start_changes",
        "proposed",
        "start_offset",
        "version",
    )

    def __init__(
        self,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        replicas: Iterable[BrokerId],
        in_sync: Iterable[BrokerId],
        *,
        version: int,
        now_s: float,
        eligible: tuple[BrokerId, ...] = (),
    ) -> None:
        """`version` is that of the partition's node in the metadata store."""
        self._leader = leader
        # Eligible leader replicas (ELR, KIP-966): they left the ISR but may still be
        # elected. While there are any, the high watermark does not advance.
        self.eligible = eligible
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        # The log end, for the followers' fetches that wait for records. It is not advanced while
        # the partition has no followers.
        self.log_end = Watermark(start_offset)
        # A counter, not an offset: it rises when a follower reports another log start, or when
        # other followers count, which wakes waiting DeleteRecords requests.
        self.log_start_changes = Watermark()
        self.in_sync = tuple(in_sync)
        self.version = version
        self.proposed: tuple[BrokerId, ...] | None = None
        self.followers = {
            replica: Follower(now_s if replica in self.in_sync else _LONG_AGO_S)
            for replica in replicas
            if replica != leader
        }
        self._waiting_for: tuple[Follower, ...] = ()
        # The high watermark when it was checked last.
        self._checked_high_watermark = NO_OFFSET
        self._update_waiting_for()

    def end(self, reason: Exception) -> None:
        """Ends the leadership. Requests that wait for `log_end` or `log_start_changes` fail."""
        self.log_end.fail(reason)
        self.log_start_changes.fail(reason)

    # Invariants

    def check(self) -> None:
        """Raises `InvariantViolation` if the sets contradict each other."""
        if self._leader not in self.in_sync:
            raise self._violation(f"the ISR {self.in_sync} lacks the leader")
        if self.proposed is not None and self._leader not in self.proposed:
            raise self._violation(f"the proposed ISR {self.proposed} lacks the leader")
        if self._leader in self.followers:
            raise self._violation("the leader is among its own followers")
        waiting_for = self._waiting_for
        for replica, follower in self.followers.items():
            if self._holds_back_high_watermark(replica, follower) and follower not in waiting_for:
                raise self._violation(f"the high watermark does not wait for replica {replica}")
        if invariants.is_thorough():
            self._check_thoroughly()

    def _check_thoroughly(self) -> None:
        """Checks that the ISR and the ELR contain only replicas and are disjoint.

        Only tests and the simulation check this: in production the store may show a new ISR
        a moment before the new assignment, because they are two nodes, and a read of both is not
        atomic in ZooKeeper.
        """
        replicas = {self._leader, *self.followers}
        for name, brokers in (("ISR", self.in_sync), ("eligible set", self.eligible)):
            if not replicas.issuperset(brokers):
                raise self._violation(f"the {name} {brokers} is not among the replicas {replicas}")
        if not set(self.eligible).isdisjoint(self.in_sync):
            raise self._violation(f"{self.eligible} are eligible and in sync {self.in_sync}")

    def check_high_watermark(self, high_watermark: Offset) -> None:
        """Raises `InvariantViolation` if the high watermark fell since it was last checked."""
        if high_watermark < self._checked_high_watermark:
            raise self._violation(
                f"the high watermark fell from {self._checked_high_watermark} to {high_watermark}"
            )
        self._checked_high_watermark = high_watermark

    def _violation(self, rule: str) -> InvariantViolation:
        return InvariantViolation(
            f"leadership of broker {self._leader} in epoch {self.leader_epoch}", rule
        )

    # The in-sync replicas (ISR)

    def update(
        self,
        replicas: Iterable[BrokerId],
        in_sync: Iterable[BrokerId],
        version: int,
        eligible: tuple[BrokerId, ...] = (),
    ) -> None:
        """Takes over the state of the partition's node in the store, in the same leader epoch."""
        if version < self.version and invariants.is_thorough():
            # An operator may have deleted the node and created it again, so production goes on.
            raise self._violation(f"the node's version falls from {self.version} to {version}")
        before = (self.in_sync, self.eligible)
        self.in_sync, self.eligible = tuple(in_sync), eligible
        self.version = version
        others = dict.fromkeys(replica for replica in replicas if replica != self._leader)
        for replica in [replica for replica in self.followers if replica not in others]:
            del self.followers[replica]
        for replica in others:
            self.followers.setdefault(replica, Follower())
        for replica in self.in_sync:
            if replica in self.followers:
                self.followers[replica].is_joining = False
        self._update_waiting_for()
        self.check()
        if (self.in_sync, self.eligible) != before:
            self._wake_deletions()
        if self.in_sync != before[0]:
            # A follower that left must show that it keeps up: its waiting fetch is woken, so that
            # it fetches again.
            self.log_end.nudge()

    def propose(self, in_sync: tuple[BrokerId, ...]) -> None:
        """Notes an ISR that is being written to the store. Until `settle` the high
        watermark waits for its members too."""
        self.proposed = in_sync
        self._update_waiting_for()
        self.check()

    def settle(self) -> None:
        """Ends the proposal, because its outcome is known. If it was stored, `update` was called
        before."""
        if self.proposed is not None:
            for replica in self.proposed:
                if replica in self.followers and replica not in self.in_sync:
                    # The proposal was refused: the follower must catch up again before the high
                    # watermark waits for it.
                    self.followers[replica].is_joining = False
        self.proposed = None
        self._update_waiting_for()
        self.check()

    def _holds_back_high_watermark(self, replica: BrokerId, follower: Follower) -> bool:
        return (
            replica in self.in_sync
            or follower.is_joining
            or (self.proposed is not None and replica in self.proposed)
        )

    def _update_waiting_for(self) -> None:
        """Collects the followers that the high watermark waits for."""
        self._waiting_for = tuple(
            follower
            for replica, follower in self.followers.items()
            if self._holds_back_high_watermark(replica, follower)
        )

    # The high watermark

    @property
    def waits_for_no_follower(self) -> bool:
        """Whether the leader's own log alone decides about the high watermark."""
        return not self._waiting_for

    def committed_offset(self, own_end: Offset) -> Offset:
        """Returns the offset below which every record is on the leader and on all followers that
        the high watermark waits for; -1 if one of them has not fetched yet."""
        for follower in self._waiting_for:
            own_end = min(own_end, follower.log_end)
        return own_end

    # Followers

    def note_fetch(
        self,
        replica: BrokerId,
        log_end: Offset,
        log_start: Offset,
        *,
        broker_epoch: int,
        leader_end: Offset,
        now_s: float,
    ) -> None:
        """Notes that a follower fetches from `log_end` on. `broker_epoch` tells the runs of its
        broker apart."""
        if log_end > leader_end:
            # `Replica.diverging_replica` answers such a fetch.
            raise self._violation(
                f"replica {replica} fetches from {log_end}, beyond the leader's end {leader_end}"
            )
        follower = self.followers[replica]
        if broker_epoch != follower.broker_epoch:
            # The broker restarted: the new run may have lost records that the previous run had.
            if follower.broker_epoch != UNKNOWN_BROKER_EPOCH:
                follower = self.followers[replica] = Follower(follower.caught_up_s)
                self._update_waiting_for()
            follower.broker_epoch = broker_epoch
        if log_start != follower.log_start:
            self._wake_deletions()
        follower.note_fetch(log_end, log_start, leader_end, now_s)
        if (
            not follower.is_joining
            and follower.caught_up_s > _LONG_AGO_S
            and replica not in self.in_sync
        ):
            follower.is_joining = True
            self._update_waiting_for()

    def forget(self, replica: BrokerId) -> None:
        """Forgets the progress of a follower whose broker is gone. When the broker is back, the
        follower begins as an unknown one."""
        if replica in self.followers:
            self.followers[replica] = Follower()
            self._wake_deletions()
            self._update_waiting_for()
            self.check()
            self.log_end.nudge()

    def may_join_isr(self, replica: BrokerId, high_watermark: Offset) -> bool:
        """Returns whether a replica may be added to the ISR now: it is not in the set, no
        change of the set is pending, it has every committed record, and it has fetched up to the
        offset at which this leadership began."""
        if replica in self.in_sync or self.proposed is not None:
            return False
        log_end = self.followers[replica].log_end
        return log_end >= high_watermark and log_end >= self.start_offset

    def next_in_sync(
        self,
        high_watermark: Offset,
        leader_end: Offset,
        live: Mapping[BrokerId, int],
        *,
        now_s: float,
        limits: LagLimits,
    ) -> tuple[BrokerId, ...]:
        """Returns the ISR as it should be; `live` holds the epochs of live brokers.

        A follower leaves if its broker is gone, or if its log end differs from the leader's and it
        was not caught up for longer than `limits` allow. A joining follower enters if it has every
        committed record, has fetched up to the offset at which this leadership began, and fetched
        in the current run of its broker.
        """
        remaining = [
            replica
            for replica in self.in_sync
            if replica == self._leader
            or (
                replica in self.followers
                and replica in live
                and not self.followers[replica].is_lagging(leader_end, now_s, limits)
            )
        ]
        for replica, follower in self.followers.items():
            if (
                replica not in self.in_sync
                and follower.is_joining
                and live.get(replica) == follower.broker_epoch
                and follower.log_end >= max(high_watermark, self.start_offset)
            ):
                remaining.append(replica)
        return tuple(remaining)

    def next_eligible(
        self, in_sync: tuple[BrokerId, ...], min_in_sync: int
    ) -> tuple[BrokerId, ...]:
        """Returns the eligible leader replicas (ELR, KIP-966) beside the next ISR: those
        that left the set while fewer than `min.insync.replicas` remained in it."""
        if len(in_sync) >= min_in_sync:
            return ()
        known = dict.fromkeys((*self.eligible, *self.in_sync))
        return tuple(
            replica for replica in known if replica not in in_sync and replica in self.followers
        )

    def drop_laggards(self, leader_end: Offset, now_s: float, limits: LagLimits) -> None:
        """Ends the wait of the high watermark for joining followers that do not keep up."""
        for follower in self.followers.values():
            if follower.is_joining and follower.is_lagging(leader_end, now_s, limits):
                follower.is_joining = False
        self._update_waiting_for()

    def low_watermark(self, own_start: Offset, live: Container[BrokerId]) -> Offset:
        """Returns the lowest log start of the leader, of the followers on live brokers, and of
        those that may lead next: a follower that stopped is in sync for some time, or eligible, and
        as the leader it would bring back what it has not deleted."""
        for replica, follower in self.followers.items():
            may_lead = replica in self.eligible or self._holds_back_high_watermark(
                replica, follower
            )
            if (may_lead or replica in live) and follower.log_start < own_start:
                own_start = follower.log_start
        return own_start

    def _wake_deletions(self) -> None:
        self.log_start_changes.advance(self.log_start_changes.value + 1)
