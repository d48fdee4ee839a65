"""Network namespaces: what both kinds of test networks share, and the simpler of the two.

`Namespaces` is a bridge with a cable to each broker (`tests.scenarios.chaos`). The other network
has a router in user space between its hosts (`tests.scenarios.hosts.network`). Any number of runs
may be at work on one machine: names are drawn by chance, and a subnet in use is not taken.
"""

import os
import random
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

_IP_S: Final = 20.0


class CannotRun(Exception):
    """Something outside is missing; the message says what."""


def require_namespaces() -> None:
    """Raises `CannotRun` where network namespaces cannot be made."""
    if os.geteuid() != 0 or None in (shutil.which("ip"), shutil.which("nsenter")):
        raise CannotRun(
            "network namespaces need root, and the commands `ip` (iproute2) and `nsenter`"
        )


def ip(*arguments: str, check: bool = True) -> str:
    """Runs the command `ip`; returns what it printed."""
    done = subprocess.run(
        ["ip", *arguments], check=check, capture_output=True, text=True, timeout=_IP_S
    )
    return done.stdout


def inside(namespace: str) -> list[str]:
    """What a command begins with that is to run there.

    Not `ip netns exec`: it gives the command a copy of all mounts of the machine, and as long as it
    runs, a disk of another run that was mounted then cannot be unmounted for good.
    """
    return ["nsenter", f"--net=/var/run/netns/{namespace}"]


def new_prefix(kind: str) -> str:
    """Begins the names of the namespaces and interfaces of one network.

    An interface's name has at most 15 characters; this leaves five.
    """
    return f"{kind}{secrets.token_hex(4)}"


def free_subnet() -> str:
    """The first three bytes of a /24 that no interface of this machine has."""
    taken = ip("-o", "-4", "addr", "show")
    # Not the chance of a run: two runs of one seed may be at work at once.
    chance = random.SystemRandom()
    while True:
        subnet = f"10.{chance.randrange(64, 250)}.{chance.randrange(250)}"
        if f" {subnet}." not in taken:
            return subnet


class Namespaces:
    """A bridge on this machine and a namespace for each broker, connected by a cable."""

    def __init__(self, brokers: Sequence[int]) -> None:
        require_namespaces()
        self._prefix = new_prefix("od")
        self._subnet = free_subnet()
        self._brokers = list(brokers)
        try:
            self._build()
        except subprocess.SubprocessError as error:
            self.remove()
            said = getattr(error, "stderr", None) or error
            raise CannotRun(f"cannot make network namespaces: {said}") from None

    def name(self, broker: int) -> str:
        return f"{self._prefix}-{broker}"

    def address(self, broker: int) -> str:
        return f"{self._subnet}.{broker}"

    def _cable(self, broker: int) -> str:
        return f"{self._prefix}v{broker}"

    def _build(self) -> None:
        bridge = f"{self._prefix}br"
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{self._subnet}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for broker in self._brokers:
            name, cable = self.name(broker), self._cable(broker)
            ip("netns", "add", name)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", cable, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"{self.address(broker)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def cut(self, broker: int) -> None:
        ip("link", "set", self._cable(broker), "down")

    def heal(self, broker: int) -> None:
        ip("link", "set", self._cable(broker), "up")

    def remove(self) -> None:
        for broker in self._brokers:
            ip("netns", "del", self.name(broker), check=False)
            ip("link", "del", self._cable(broker), check=False)
        ip("link", "del", f"{self._prefix}br", check=False)
