"""One leader's reign over a partition: how far its followers are, and what follows from it.

Pure state: no clock, no loop, no store. Time is passed in, decisions are returned.

    in sync     the set in the metadata store; whoever is in it may be elected
    proposed    a set that was sent to the store and may or may not have been stored
    joining     outside the set, but keeping up: the high watermark waits for it, so that it
                can reach the mark while records pour in

The high watermark is the least log end over all three, so neither an expansion whose outcome
is unknown nor a shrink that is not stored lets it run ahead. A follower is caught up at a time
if it holds everything that the leader held then: its fetches tell, one late.

Invariant: the leader itself is always in sync, and `followers` holds every other replica.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from odradek.protocol.types import LeaderEpoch
from odradek.statemachine.watermark import Watermark

UNKNOWN: Final = -1
_LONG_AGO_S: Final = float("-inf")


class Follower:
    """What a leader knows of another replica, all of it from that replica's fetches."""

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
        """It asks for records from `log_end` on, so it holds everything below."""
        if log_end >= leader_end:
            self.caught_up_s = max(self.caught_up_s, now_s)
        elif self._leader_end != UNKNOWN and log_end >= self._leader_end:
            self.caught_up_s = max(self.caught_up_s, self._fetched_s)
        self.log_end = log_end
        self.log_start = log_start
        self._fetched_s = now_s
        self._leader_end = max(self._leader_end, leader_end)

    def heard_again(self, now_s: float) -> None:
        """It asked the same again, and held everything that the leader held then."""
        self.caught_up_s = max(self.caught_up_s, now_s)
        self._fetched_s = max(self._fetched_s, now_s)

    def is_lagging(self, leader_end: int, now_s: float, longest_lag_s: float) -> bool:
        return self.log_end != leader_end and now_s - self.caught_up_s > longest_lag_s


class Leadership:
    __slots__ = (
        "_leader",
        "_waiting_for",
        "appended",
        "eligible",
        "followers",
        "in_sync",
        "leader_epoch",
        "proposed",
        "start_offset",
        "starts_moved",
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
        self._leader = leader
        # Left the set, but may still be elected: nothing is committed without them.
        self.eligible = eligible
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        # The log's end: within a term it only rises, so replicas' fetches can wait on it.
        self.appended = Watermark(start_offset)
        # Counts changes of followers' log starts: deletions wait for them.
        self.starts_moved = Watermark()
        self.in_sync = tuple(in_sync)
        self.version = version
        self.proposed: tuple[int, ...] | None = None
        self.followers = {
            replica: Follower(now_s if replica in self.in_sync else _LONG_AGO_S)
            for replica in replicas
            if replica != leader
        }
        self._waiting_for: tuple[Follower, ...] = ()
        self._choose()

    def update(
        self,
        replicas: Iterable[int],
        in_sync: Iterable[int],
        version: int,
        eligible: tuple[int, ...] = (),
    ) -> None:
        """What the store holds now, in the same term."""
        self.eligible = eligible
        before, self.in_sync = self.in_sync, tuple(in_sync)
        self.version = version
        wanted = dict.fromkeys(replica for replica in replicas if replica != self._leader)
        for replica in [one for one in self.followers if one not in wanted]:
            del self.followers[replica]
        for replica in wanted:
            self.followers.setdefault(replica, Follower())
        for replica in self.in_sync:
            if replica in self.followers:
                self.followers[replica].is_joining = False
        self._choose()
        if self.in_sync != before:
            # Who left must show that it keeps up: its fetches are looked at again.
            self.appended.nudge()

    def propose(self, in_sync: tuple[int, ...]) -> None:
        """This set is on its way to the store: until the outcome is known it counts as well."""
        self.proposed = in_sync
        self._choose()

    def settle(self) -> None:
        """The outcome of the proposal is known, and `update` was told of it if it happened."""
        if self.proposed is not None:
            for replica in self.proposed:
                if replica in self.followers and replica not in self.in_sync:
                    # Refused: it shows again that it keeps up before the mark waits for it.
                    self.followers[replica].is_joining = False
        self.proposed = None
        self._choose()

    def _choose(self) -> None:
        """Whom the high watermark waits for."""
        counted = {*self.in_sync, *(self.proposed or ())}
        self._waiting_for = tuple(
            follower
            for replica, follower in self.followers.items()
            if replica in counted or follower.is_joining
        )

    # The high watermark

    @property
    def is_alone(self) -> bool:
        """Nobody is waited for: the leader's own log decides."""
        return not self._waiting_for

    def committed(self, own_end: int) -> int:
        """Below it every record is on all replicas that may be elected; -1 if nobody knows."""
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
        follower = self.followers[replica]
        if broker_epoch != follower.broker_epoch:
            # Another life of the broker: what the last one held says nothing of this one.
            if follower.broker_epoch != UNKNOWN:
                follower = self.followers[replica] = Follower(follower.caught_up_s)
                self._choose()
            follower.broker_epoch = broker_epoch
        if log_start != follower.log_start:
            self.starts_moved.advance(self.starts_moved.value + 1)
        follower.fetched(log_end, log_start, leader_end, now_s)
        if (
            not follower.is_joining
            and follower.caught_up_s > _LONG_AGO_S
            and replica not in self.in_sync
        ):
            follower.is_joining = True
            self._choose()

    def forget(self, replica: int) -> None:
        """The broker is gone; when it is back its progress begins anew."""
        if replica in self.followers:
            self.followers[replica] = Follower()
            self.starts_moved.advance(self.starts_moved.value + 1)
            self._choose()
            self.appended.nudge()

    def may_expand(self, replica: int, high_watermark: int) -> bool:
        """Whether the replica holds everything committed, and has seen this term begin."""
        if replica in self.in_sync or self.proposed is not None:
            return False
        log_end = self.followers[replica].log_end
        return log_end >= high_watermark and log_end >= self.start_offset

    def wanted_in_sync(
        self,
        high_watermark: int,
        leader_end: int,
        alive: Mapping[int, int],
        *,
        now_s: float,
        longest_lag_s: float,
    ) -> tuple[int, ...]:
        """The in-sync set as it should be; `alive` holds the epochs of live brokers."""
        kept = [
            replica
            for replica in self.in_sync
            if replica == self._leader
            or (
                replica in self.followers
                and replica in alive
                and not self.followers[replica].is_lagging(leader_end, now_s, longest_lag_s)
            )
        ]
        for replica, follower in self.followers.items():
            if (
                replica not in self.in_sync
                and follower.is_joining
                and alive.get(replica) == follower.broker_epoch
                and follower.log_end >= max(high_watermark, self.start_offset)
            ):
                kept.append(replica)
        return tuple(kept)

    def drop_laggards(self, leader_end: int, now_s: float, longest_lag_s: float) -> None:
        """Those outside the set who no longer keep up are not waited for."""
        for follower in self.followers.values():
            if follower.is_joining and follower.is_lagging(leader_end, now_s, longest_lag_s):
                follower.is_joining = False
        self._choose()

    def low_watermark(self, own_start: int, alive: Container[int]) -> int:
        """The least log start over the replicas of live brokers."""
        for replica, follower in self.followers.items():
            if replica in alive and follower.log_start < own_start:
                own_start = follower.log_start
        return own_start
