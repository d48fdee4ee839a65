"""Hosts as network namespaces, each connected to a router in user space by a TUN device.

A host has a number, which is the last byte of its address. The machine itself takes part as the
operator's host, so that the test can look at every host. A thread may move to a host with
`enter`: sockets that it opens from then on, and threads that it starts, are that host's.
"""

import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.scenarios.hosts.router import Rule
from tests.scenarios.namespaces import CannotRun, free_subnet, ip, new_prefix, require_namespaces

OPERATOR: Final = 254
_TUNSETIFF: Final = 0x400454CA
_TUN_WITHOUT_INFORMATION: Final = 0x1001
_CLONE_NEWNET: Final = 0x40000000
_TUN: Final = "/dev/net/tun"
_ROUTER_ENDS_S: Final = 10.0

RuleFor = tuple[int | None, int | None, Rule]
"""Source and destination (None: every host), and what happens to packets between them."""


class Network:
    """Use it with `with`; afterwards nothing of it is left."""

    def __init__(self, hosts: Sequence[int], seed: int) -> None:
        _check_machine()
        self._prefix = new_prefix("oh")
        self._subnet = free_subnet()
        self._hosts = list(hosts)
        self._devices: dict[int, int] = {}
        self._router: subprocess.Popen[bytes] | None = None
        try:
            for host in [*hosts, OPERATOR]:
                self._add(host)
            self._start_router(seed)
        except (OSError, subprocess.SubprocessError) as error:
            self.remove()
            raise CannotRun(f"cannot make hosts: {error}") from None

    def name(self, host: int) -> str:
        return f"{self._prefix}-{host}"

    def address(self, host: int) -> str:
        return f"{self._subnet}.{host}"

    def _add(self, host: int) -> None:
        device = os.open(_TUN, os.O_RDWR)
        self._devices[host] = device
        interface = f"{self._prefix}t{host}"
        request = struct.pack("16sH22x", interface.encode(), _TUN_WITHOUT_INFORMATION)
        fcntl.ioctl(device, _TUNSETIFF, request)
        inside: list[str] = []
        if host != OPERATOR:
            ip("netns", "add", self.name(host))
            ip("link", "set", interface, "netns", self.name(host))
            inside = ["-n", self.name(host)]
            ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "addr", "add", f"{self.address(host)}/24", "dev", interface)
        ip(*inside, "link", "set", interface, "txqueuelen", "5000", "up")

    def _start_router(self, seed: int) -> None:
        devices = list(self._devices.values())
        self._router = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.scenarios.hosts.router"),
                *(json.dumps(self._devices), str(seed)),
            ],
            pass_fds=devices,
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.rule()

    def rule(self, *rules: RuleFor) -> None:
        """These are the rules from now on; none at all: every packet passes."""
        router = self._router
        assert router is not None
        assert router.stdin is not None
        assert router.stdout is not None
        told = [(source, destination, asdict(rule)) for source, destination, rule in rules]
        router.stdin.write(json.dumps(told).encode() + b"\n")
        router.stdin.flush()
        assert router.stdout.readline() == b"done\n", "the router has ended"

    def enter(self, host: int) -> None:
        """Moves this thread to a host, for good."""
        with Path(f"/var/run/netns/{self.name(host)}").open() as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.name(host)}")

    def remove(self) -> None:
        if self._router is not None:
            assert self._router.stdin is not None
            assert self._router.stdout is not None
            self._router.stdin.close()
            try:
                self._router.wait(_ROUTER_ENDS_S)
            except subprocess.TimeoutExpired:
                self._router.kill()
                self._router.wait()
            self._router.stdout.close()
        for device in self._devices.values():
            os.close(device)
        self._devices.clear()
        for host in self._hosts:
            ip("netns", "del", self.name(host), check=False)


def _check_machine() -> None:
    require_namespaces()
    if not os.access(_TUN, os.R_OK | os.W_OK):
        raise CannotRun(f"there is no {_TUN}, which the router between hosts needs")
