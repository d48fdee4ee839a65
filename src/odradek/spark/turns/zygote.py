"""The zygote: the process from which all processes of tasks are forked, with their modules loaded.

Its arguments name the module with the function `host(directory, key)`, which a forked process
calls, and other modules to load.

A process that imports everything by itself has 40 MB of its own and needs half a second to start. A
forked one shares the memory pages of the loaded modules, and is ready at once. To fork is safe only
without other threads, so this process does nothing else: it forks, reports which children have
ended, and sends signals to them. Only the parent can send signals safely, because only the parent
knows that a process id still belongs to its child.

It ends when its owner ends (`hosting`), and its children end with it.
"""

import contextlib
import ctypes
import gc
import json
import os
import random
import selectors
import shutil
import signal
import socket
import sys
from importlib import import_module
from typing import Any, Final

from odradek.spark.turns.messages import encoded

_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG


class Zygote:
    def __init__(self, orders: socket.socket, directory: str, host_module: str) -> None:
        self._orders = orders
        self._directory = directory
        self._host_module = host_module
        self._children: set[int] = set()
        self._rest = b""
        self._woken, waking = os.pipe()
        for end in (self._woken, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._waking = waking

    def run(self) -> None:
        """Handles the orders of the owner, to fork or to send a signal, until the owner has
        ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._orders, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    self._reap()
                if self._orders in ready and not self._handle_orders():
                    break
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        # The owner does this too, unless it was killed.
        shutil.rmtree(self._directory, ignore_errors=True)

    def _handle_orders(self) -> bool:
        data = self._orders.recv(1 << 16)
        if not data:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            order: dict[str, Any] = json.loads(line)
            if "fork" in order:
                _load(order["module"])
                self._fork(order["fork"])
            elif order["signal"][0] in self._children:
                os.kill(*order["signal"])
        return True

    def _fork(self, key: str) -> None:
        pid = os.fork()
        if pid:
            self._children.add(pid)
            self._send({"forked": key, "pid": pid})
            return
        try:
            self._become_host(key)
        finally:
            os._exit(1)

    def _become_host(self, key: str) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._orders.close()
        os.close(self._woken)
        os.close(self._waking)
        die_with_parent()
        random.seed()
        sys.modules[self._host_module].host(self._directory, key)

    def _reap(self) -> None:
        for pid in [*self._children]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.discard(pid)
                self._send({"exited": pid, "status": os.waitstatus_to_exitcode(status)})

    def _send(self, message: dict[str, object]) -> None:
        with contextlib.suppress(ConnectionError):
            self._orders.sendall(encoded(message))


def _load(module: str) -> None:
    """Loads the module of a connector, so that all its tasks share the memory. Only Odradek's own
    modules are loaded here, because others may start threads or hang. An error of the import is
    ignored: the task's process imports the module again, and reports it."""
    if module.startswith("odradek.") and module not in sys.modules:
        with contextlib.suppress(Exception):
            import_module(module)
            gc.freeze()


def die_with_parent() -> None:
    """Lets the kernel kill this process when its parent ends. Does nothing but on Linux."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def main() -> None:
    """The arguments are the descriptor of the socket for orders, the directory of the sockets, the
    module with `host`, and other modules that the processes use."""
    descriptor, directory, host_module, *others = sys.argv[1:]
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Its parent handles Ctrl-C.
    for name in (host_module, *others):
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(descriptor)) as orders:
        Zygote(orders, directory, host_module).run()


if __name__ == "__main__":
    main()
