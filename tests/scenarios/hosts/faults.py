"""What can happen to a host: its network, its disk, its clock, its broker.

Each fault is a context manager: it begins, lasts as long as the block, and ends. Only one is at
work at a time, so that its cost can be told.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from tests.scenarios.chaos_cluster import Seat
from tests.scenarios.hosts.broker import SteppedClock
from tests.scenarios.hosts.disks import StallingDisk
from tests.scenarios.hosts.network import Network, RuleFor
from tests.scenarios.hosts.router import Rule


class Kind(NamedTuple):
    """How long a fault lasts, unless it is told otherwise, and what it does."""

    seconds: float
    text: str


KINDS: Final = {
    "cut": Kind(10, "no packet to or from a broker"),
    "cut-out": Kind(10, "no packet from it"),
    "cut-in": Kind(10, "no packet to it"),
    "cut-pair": Kind(10, "no packet between it and one other broker"),
    "cut-store": Kind(15, "no packet between it and ZooKeeper"),
    "delay": Kind(10, "200 ms each way"),
    "loss": Kind(10, "5 % of all packets are lost, on every link"),
    "duplicate": Kind(10, "20 % come twice"),
    "reorder": Kind(10, "20 % are overtaken by later ones"),
    "stall": Kind(10, "its disk does not answer (needs mfusepy and libfuse 2)"),
    "full": Kind(8, "its disk has no byte free"),
    "clock": Kind(10, "its clock is stepped by a minute to a day, and back"),
    "stop": Kind(30, "SIGSTOP, then SIGCONT"),
    "kill": Kind(1, "kill -9, then it is started again"),
}
_CUT: Final = Rule(cut=True)
_HOUR_MS: Final = 3_600_000
_STEPS_MS: Final = (-_HOUR_MS, -60_000, 60_000, _HOUR_MS, 24 * _HOUR_MS)

Fault = Callable[[Seat], AbstractContextManager[str]]
"""Happens to a broker; what it yields says what exactly it was."""


class Faults:
    """The faults by name; `stores` are the hosts of the metadata store, if it has any."""

    def __init__(
        self,
        network: Network,
        seats: Mapping[int, Seat],
        *,
        stores: Sequence[int],
        clocks: Mapping[int, SteppedClock],
        disks: Mapping[int, StallingDisk],
        chance: random.Random,
    ) -> None:
        self._network = network
        self._seats = seats
        self._clocks = clocks
        self._disks = disks
        self._chance = chance
        self._stores = list(stores)
        every: tuple[None, None] = (None, None)
        self.by_name: dict[str, Fault] = {
            "cut": lambda seat: self._ruled("no packet", (seat.id, None), (None, seat.id)),
            "cut-out": lambda seat: self._ruled("no packet from it", (seat.id, None)),
            "cut-in": lambda seat: self._ruled("no packet to it", (None, seat.id)),
            "cut-pair": self._cut_pair,
            "delay": lambda seat: self._ruled(
                "200 ms each way", (seat.id, None), (None, seat.id), rule=Rule(delay_s=0.2)
            ),
            "loss": lambda _: self._ruled("5 % lost", every, rule=Rule(loss=0.05)),
            "duplicate": lambda _: self._ruled("20 % twice", every, rule=Rule(duplicate=0.2)),
            "reorder": lambda _: self._ruled("20 % overtaken", every, rule=Rule(reorder=0.2)),
            "full": self._full,
            "clock": self._clock,
            "stop": self._stop,
            "kill": self._kill,
        }
        if stores:
            self.by_name["cut-store"] = self._cut_store
        if disks:
            self.by_name["stall"] = self._stall

    def victim(self, name: str) -> Seat:
        if name == "stall":
            return self._seats[self._chance.choice(list(self._disks))]
        return self._seats[self._chance.choice(list(self._seats))]

    @contextmanager
    def _ruled(
        self, text: str, *pairs: tuple[int | None, int | None], rule: Rule = _CUT
    ) -> Iterator[str]:
        rules: list[RuleFor] = [(source, destination, rule) for source, destination in pairs]
        self._network.rule(*rules)
        try:
            yield text
        finally:
            self._network.rule()

    def _cut_pair(self, seat: Seat) -> AbstractContextManager[str]:
        other = self._chance.choice([one for one in self._seats if one != seat.id])
        return self._ruled(f"none to or from broker {other}", (seat.id, other), (other, seat.id))

    def _cut_store(self, seat: Seat) -> AbstractContextManager[str]:
        pairs = [pair for store in self._stores for pair in ((seat.id, store), (store, seat.id))]
        return self._ruled("none to or from the store", *pairs)

    @contextmanager
    def _stall(self, seat: Seat) -> Iterator[str]:
        disk = self._disks[seat.id]
        disk.stall()
        try:
            yield "its disk does not answer"
        finally:
            disk.go_on()

    @contextmanager
    def _full(self, seat: Seat) -> Iterator[str]:
        with seat.full_disk():
            yield "no byte is free"
        if not seat.is_running:
            seat.start()

    @contextmanager
    def _clock(self, seat: Seat) -> Iterator[str]:
        step_ms = self._chance.choice(_STEPS_MS)
        clock = self._clocks[seat.id]
        clock.step(step_ms)
        try:
            yield f"stepped by {step_ms // 1000:+d} s, and back"
        finally:
            clock.step(0)

    @contextmanager
    def _stop(self, seat: Seat) -> Iterator[str]:
        seat.pause()
        try:
            yield "SIGSTOP"
        finally:
            seat.resume()

    @contextmanager
    def _kill(self, seat: Seat) -> Iterator[str]:
        seat.kill()
        try:
            yield "kill -9"
        finally:
            seat.start()
