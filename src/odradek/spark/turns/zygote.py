"""The process that all processes of tasks are forked from, with the modules loaded that they use.

Its arguments say which module has their function `host(directory, key)`, and what else is loaded.

A process that imports everything by itself has 40 MB of its own and needs half a second; one that
is forked here shares the pages of what is loaded, and is ready at once. So this process has one
thread and opens nothing: it forks, reports who has ended, and sends signals to its children. It
alone does that, because only the parent knows that a process id is still that of its child.

It never outlives whoever started it, and its children do not outlive it.
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
        """Returns when whoever has the tasks has ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._orders, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    self._reap()
                if self._orders in ready and not self._obey():
                    break
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        # If its parent was killed, that cannot do this.
        shutil.rmtree(self._directory, ignore_errors=True)

    def _obey(self) -> bool:
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
            self._say({"forked": key, "pid": pid})
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
                self._say({"exited": pid, "status": os.waitstatus_to_exitcode(status)})

    def _say(self, message: dict[str, object]) -> None:
        with contextlib.suppress(ConnectionError):
            self._orders.sendall(encoded(message))


def _load(module: str) -> None:
    """Loads the module of a task, for all tasks of its kind to share; only one of Odradek's own,
    because others may start threads or hang. The task's process says what is wrong with it."""
    if module.startswith("odradek.") and module not in sys.modules:
        with contextlib.suppress(Exception):
            import_module(module)
            gc.freeze()


def die_with_parent() -> None:
    """Has the kernel kill this process when its parent ends. Only Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def main() -> None:
    """The arguments are the descriptor of the orders, the directory, the module of the processes,
    and other modules that they use."""
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
