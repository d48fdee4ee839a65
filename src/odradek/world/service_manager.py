"""Tells a service manager such as systemd how this process is: starting, ready, alive, stopping.

systemd names a Unix datagram socket in NOTIFY_SOCKET and, if its unit has `WatchdogSec=`, a time in
WATCHDOG_USEC. A message is lines of `NAME=value`; sd_notify(3) has the names. Without
NOTIFY_SOCKET all methods do nothing, so their callers need not ask.

`run` beats from the event loop. If the loop is stuck, no beat leaves, and systemd ends the process
after the time of its watchdog and starts it again: a process whose loop is stuck answers nobody,
although it exists. Before the process is ready and after it has been
told to stop, a beat asks for more time instead, so the recovery of a large log is not taken for a
failure while the loop turns.
"""

import asyncio
import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

# How often a process without a watchdog beats while it starts or stops, and how much more time each
# of these beats asks for.
_INTERVAL_S: Final = 10.0
_MORE_TIME_S: Final = 60.0
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """The service manager that started this process, if one wants to be told.

    `watchdog_s` is the time after which it ends a process that does not beat; None without a
    watchdog. `interval_s` is how often `beat` has to be called.
    """

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self.watchdog_s = watchdog_s
        # Half of the watchdog's time, as systemd advises: one late beat does no harm.
        self.interval_s = min(_INTERVAL_S, watchdog_s / 2) if watchdog_s else _INTERVAL_S
        self._alive = f"EXTEND_TIMEOUT_USEC={_MORE_TIME_S * 1e6:.0f}"

    @classmethod
    def from_environment(
        cls, environment: MutableMapping[str, str] = os.environ
    ) -> "ServiceManager":
        """Reads the variables and removes them, so that no child process speaks for this one."""
        address, watchdog_us, watchdog_pid = (environment.pop(name, "") for name in _VARIABLES)
        if not address.startswith(("/", "@")):
            return cls()
        is_watched = watchdog_us.isdecimal() and watchdog_pid in ("", str(os.getpid()))
        return cls(address, int(watchdog_us) / 1e6 if is_watched else None)

    @property
    def is_there(self) -> bool:
        return self._address is not None

    def ready(self, status: str) -> None:
        """Called once, when the process serves. `status` is what `systemctl status` shows."""
        self._alive = "WATCHDOG=1"
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self, status: str) -> None:
        """Called when the process begins to stop."""
        self._alive = f"EXTEND_TIMEOUT_USEC={_MORE_TIME_S * 1e6:.0f}"
        self._send(f"STOPPING=1\nSTATUS={status}")

    def beat(self) -> None:
        """Says that the process is alive; to be called from the loop that does its work."""
        self._send(self._alive)

    async def run(self) -> None:
        """Beats from the running event loop until it is cancelled."""
        while self.is_there:
            self.beat()
            await asyncio.sleep(self.interval_s)

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        # A name that begins with @ is in Linux's abstract namespace, where it begins with a zero.
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        # A manager that does not listen must not harm the process. Nothing is awaited: a full
        # socket means that the manager has messages enough.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), address)
