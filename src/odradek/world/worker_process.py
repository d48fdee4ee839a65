"""The child process of `processes.ProcessWorker`: it reads work from standard input, a line each.

It runs with low priority and never outlives its parent: on Linux the kernel kills it when the
parent dies, and on every system it ends with its input.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import BinaryIO, Final

from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk
from odradek.world.processes import Work, failure, pause_of

_NICENESS: Final = 19
_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
# Progress is reported no more often than this, because people read it.
_PROGRESS_INTERVAL_S: Final = 0.25


class Orders:
    """The orders of the parent. The end of the input ends this process, whatever it is doing."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._arrived = threading.Semaphore(0)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while line := sys.stdin.buffer.readline():
            self._waiting.append(line)
            self._arrived.release()
        os._exit(0)

    def next(self) -> bytes:
        self._arrived.acquire()
        return self._waiting.popleft()


def _die_with_parent() -> None:
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415 - nothing else needs it

        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _redirect_output() -> BinaryIO:
    """Returns the channel to the parent, which was standard output. From now on everything that is
    printed goes to standard error."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def _find(name: str) -> Work:
    module, function = name.split(":")
    found: Work = getattr(importlib.import_module(module), function)
    return found


def _run(order: Mapping[str, object], output: BinaryIO) -> None:
    def send(message: Mapping[str, object]) -> None:
        output.write(json.dumps(message).encode() + b"\n")
        output.flush()

    sent_s = 0.0
    try:
        argument = order["argument"]
        assert isinstance(argument, dict)
        steps = _find(str(order["work"]))(OsDisk(), SystemClock(), argument)
        while True:
            message = next(steps)
            pause_s = pause_of(message)
            now_s = time.monotonic()
            if "pause_s" not in message or now_s - sent_s >= _PROGRESS_INTERVAL_S:
                sent_s = now_s
                send(message)
            if pause_s:
                time.sleep(pause_s)
    except StopIteration as end:
        send({"result": end.value})
    except Exception as error:  # noqa: BLE001 - the parent decides what each exception means
        failed = failure(error)
        send({"error": failed.kind, "text": str(failed), "number": failed.number})


def main() -> None:
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl-C.
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    orders, output = Orders(), _redirect_output()
    # Work makes millions of objects and hardly a cycle: the collector would take time and find
    # none.
    gc.disable()
    while True:
        _run(json.loads(orders.next()), output)
        gc.collect()


if __name__ == "__main__":
    main()
