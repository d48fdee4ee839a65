"""A router in user space: passes packets between TUN devices, well or badly.

    python -m tests.scenarios.hosts.router '{"1": 5, "2": 6}' SEED

The argument names the file descriptor of the TUN device of each host, by the last byte of the
host's IPv4 address. Rules come as lines of JSON on standard input and are confirmed with a line: a
list of `[source, destination, rule]`, of which the last that fits a packet counts (null fits every
host). Whatever no rule is for passes at once.

Invariant: a packet that is not lost is passed unchanged, so checksums stay right; what TCP makes of
the rest is the kernel's affair, as on a real network.
"""

import heapq
import json
import os
import random
import selectors
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

_LARGEST_PACKET: Final = 65_536
_PACKETS_AT_A_TIME: Final = 64
_IPV4: Final = 4
_SOURCE_BYTE, _DESTINATION_BYTE = 15, 19
_SHORTEST_PACKET: Final = 20


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to the packets from one host to another; shares are between 0 and 1."""

    cut: bool = False
    loss: float = 0.0
    duplicate: float = 0.0
    delay_s: float = 0.0
    # This share of the packets is overtaken by those of the next few milliseconds.
    reorder: float = 0.0


_OVERTAKEN_BY_S: Final = 0.01


class Router:
    def __init__(self, devices: dict[int, int], seed: int) -> None:
        self._devices = devices
        self._chance = random.Random(seed)
        self._rules: list[tuple[int | None, int | None, Rule]] = []
        self._found: dict[tuple[int, int], Rule | None] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._selector = selectors.DefaultSelector()
        for number, device in devices.items():
            os.set_blocking(device, False)
            self._selector.register(device, selectors.EVENT_READ, number)
        self._selector.register(sys.stdin.buffer, selectors.EVENT_READ, None)

    def run(self) -> None:
        """Works until standard input ends."""
        while True:
            timeout_s = None
            if self._late:
                timeout_s = max(self._late[0][0] - time.monotonic(), 0)
            for key, _ in self._selector.select(timeout_s):
                if key.data is not None:
                    self._take_in(key.fd)
                elif not self._obey(sys.stdin.buffer.readline()):
                    return
            now_s = time.monotonic()
            while self._late and self._late[0][0] <= now_s:
                _, _, device, packet = heapq.heappop(self._late)
                _write(device, packet)

    def _obey(self, line: bytes) -> bool:
        if not line:
            return False
        rules: list[tuple[int | None, int | None, dict[str, Any]]] = json.loads(line)
        self._rules = [(source, destination, Rule(**rule)) for source, destination, rule in rules]
        self._found.clear()
        print("done", flush=True)
        return True

    def _take_in(self, device: int) -> None:
        for _ in range(_PACKETS_AT_A_TIME):
            try:
                packet = os.read(device, _LARGEST_PACKET)
            except OSError:
                return
            if len(packet) >= _SHORTEST_PACKET and packet[0] >> 4 == _IPV4:
                self._route(packet, packet[_SOURCE_BYTE], packet[_DESTINATION_BYTE])

    def _route(self, packet: bytes, source: int, destination: int) -> None:
        device = self._devices.get(destination)
        if device is None:
            return
        key = (source, destination)
        if key not in self._found:
            self._found[key] = self._rule_for(source, destination)
        rule = self._found[key]
        if rule is None:
            _write(device, packet)
            return
        chance = self._chance.random
        if rule.cut or chance() < rule.loss:
            return
        for _ in range(2 if chance() < rule.duplicate else 1):
            delay_s = rule.delay_s
            if chance() < rule.reorder:
                delay_s += _OVERTAKEN_BY_S * chance()
            if delay_s:
                self._count += 1
                due_s = time.monotonic() + delay_s
                heapq.heappush(self._late, (due_s, self._count, device, packet))
            else:
                _write(device, packet)

    def _rule_for(self, source: int, destination: int) -> Rule | None:
        found = None
        for its_source, its_destination, rule in self._rules:
            if its_source in (None, source) and its_destination in (None, destination):
                found = rule
        return found


def _write(device: int, packet: bytes) -> None:
    try:
        os.write(device, packet)
    except OSError:
        # The device's queue is full, or its host is gone: packets are lost on real networks too.
        return


def main() -> None:
    devices = {int(number): device for number, device in json.loads(sys.argv[1]).items()}
    Router(devices, int(sys.argv[2])).run()


if __name__ == "__main__":
    main()
