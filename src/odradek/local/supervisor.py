"""Runs the processes of a cluster on one machine: the metadata store, and its brokers.

The parent has no event loop and no threads, so it may fork. A child starts with all modules
imported, shares their memory pages with the parent, and serves a fraction of a second later. A
child holds the read end of a pipe whose only write end is the parent's, so it ends when the parent
ends, however that happens. Each child is a session leader (setsid), so Ctrl-C reaches only the
parent, which stops the brokers one after the other (each moves its leadership to others) and the
store last.

A broker that dies is reported and not restarted; the user may restart it. The store is restarted at
once; leaders go on serving meanwhile.
"""

import gc
import os
import selectors
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from odradek.world import Clock, SystemClock

# The main function of a child. It calls its argument with a text when the child is ready.
ChildMain = Callable[[Callable[[str], None]], int]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOP_TIMEOUT_S = 30.0
_STANDARD_INPUT = 0
_STANDARD_STREAMS = (1, 2)


class ChildFailed(Exception):
    """A child ended before it was ready; the message is what it reported."""


@dataclass(slots=True)
class Child:
    """A child process, and its process id while it runs."""

    name: str
    main: ChildMain
    output_path: str | None
    """Where its standard output and error go; None: where those of the parent go."""
    pid: int = 0
    ready: str | None = None
    exit_status: int | None = None
    _said: bytes = b""
    _pipe: int = -1

    @property
    def is_running(self) -> bool:
        return self.pid != 0 and self.exit_status is None

    @property
    def where(self) -> str:
        """The end of a line about the process: where it has written why."""
        return "" if self.output_path is None else f"; see {self.output_path}"

    def ending(self) -> str:
        """Describes how the process ended."""
        assert self.exit_status is not None
        if os.WIFSIGNALED(self.exit_status):
            number = os.WTERMSIG(self.exit_status)
            return f"killed by {signal.Signals(number).name}"
        return f"exit code {os.waitstatus_to_exitcode(self.exit_status)}"


class Supervisor:
    """Starts, watches and stops children. It is a context manager: leaving it kills all children
    that still run."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.stops = False
        """True after the first SIGINT or SIGTERM."""
        self.is_stopping_at_once = False
        """True after the second one: the supervisor stops at once."""
        self._clock = SystemClock()
        self._selector = selectors.DefaultSelector()
        self._wakeup, wakeup_write = os.pipe()
        self._parent_pipe, self._parent_pipe_write = os.pipe()
        for descriptor in (self._wakeup, wakeup_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            signal.signal(number, self._on_stop)
        # Python writes to the wakeup pipe only for signals that have a handler.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._wakeup, selectors.EVENT_READ)

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            if child.is_running:
                self._signal(child, signal.SIGKILL)
        for child in self.children:
            if child.is_running:
                child.exit_status = os.waitpid(child.pid, 0)[1]

    def stop_when_input_closes(self) -> None:
        self._selector.register(_STANDARD_INPUT, selectors.EVENT_READ)

    # Starting

    def start(self, child: Child) -> None:
        """Forks a child and returns at once; `wait_until` notices when it is ready."""
        sys.stdout.flush()
        sys.stderr.flush()
        # Objects that exist now are excluded from garbage collection, so that their pages stay
        # shared.
        gc.freeze()
        pipe, pipe_write = os.pipe()
        # A signal that comes before the child has its own handlers waits: this process's handler
        # would take it in the child too, where nobody looks, and the child would never stop.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._become(child, pipe_write, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(pipe_write)
        os.set_blocking(pipe, False)
        child.pid, child.ready, child.exit_status = pid, None, None
        child._said, child._pipe = b"", pipe
        if child not in self.children:
            self.children.append(child)
        self._selector.register(pipe, selectors.EVENT_READ, child)

    def _become(self, child: Child, ready_pipe: int, mask: set[int | signal.Signals]) -> NoReturn:
        """Runs in the child: sets up its streams and signals, runs its main function, and never
        returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_STOP_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.setsid()
            os.dup2(self._parent_pipe, _STANDARD_INPUT)
            if child.output_path is not None:
                output = os.open(child.output_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                for stream in _STANDARD_STREAMS:
                    os.dup2(output, stream)
            keep = os.dup2(ready_pipe, 3)
            os.closerange(4, 1024)
            _name_process(child.name)
            code = child.main(lambda word: _say(keep, f"ready {word}"))
        except Exception as failure:  # noqa: BLE001 - the last line of defence of the process
            import traceback

            from odradek.tools.failures import CommandFailed, explain

            _say(3, f"failed {' '.join(explain(failure).split())}")
            if not isinstance(failure, CommandFailed):
                traceback.print_exc()
        except KeyboardInterrupt:
            code = 130
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    # Waiting

    def wait_until(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Handles events of children until `is_over` returns True. Returns False on a timeout."""
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        while not is_over():
            left_s = None if deadline_s is None else deadline_s - self._clock.monotonic_s()
            if left_s is not None and left_s <= 0:
                return False
            for key, _ in self._selector.select(left_s):
                self._see(key)
        return True

    def _see(self, key: selectors.SelectorKey) -> None:
        if isinstance(key.data, Child):
            self._hear(key.data)
        elif key.fd == self._wakeup:
            os.read(self._wakeup, 4096)
            self._reap()
        elif not os.read(_STANDARD_INPUT, 4096):
            self._selector.unregister(_STANDARD_INPUT)
            self.stops = True

    def _hear(self, child: Child) -> None:
        try:
            said = os.read(child._pipe, 65536)
        except BlockingIOError:
            return
        child._said += said
        kind, _, words = child._said.decode("utf-8", "replace").partition(" ")
        if said and kind == "ready" and child._said.endswith(b"\n"):
            child.ready = words.strip()
        if not said:
            self._selector.unregister(child._pipe)
            os.close(child._pipe)

    def _reap(self) -> None:
        for child in self.children:
            if child.is_running:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.exit_status = status

    def require_ready(self, children: list[Child], timeout_s: float) -> None:
        """Waits until all children are ready. Raises as soon as one of them has ended."""

        def is_settled() -> bool:
            return (
                self.stops
                or all(
                    child.ready is not None or child.exit_status is not None for child in children
                )
                or any(child.exit_status is not None for child in children)
            )

        in_time = self.wait_until(is_settled, timeout_s)
        if self.stops:
            return
        for child in children:
            if child.exit_status is not None:
                raise ChildFailed(self._why(child))
        if not in_time:
            late = next(child for child in children if child.ready is None)
            raise ChildFailed(f"{late.name} was not ready within {timeout_s:.0f} s{late.where}")

    def _why(self, child: Child) -> str:
        if child._pipe >= 0 and child.ready is None:
            # The pipe is closed: everything that the child wrote has been read.
            with suppress(OSError):
                child._said += os.read(child._pipe, 65536)
        kind, _, words = child._said.decode("utf-8", "replace").partition(" ")
        if kind == "failed":
            return f"{child.name}: {words.strip()}"
        return f"{child.name} ended ({child.ending()}){child.where}"

    # Stopping

    def stop(self, child: Child) -> None:
        """Asks a child to end and waits. A child that does not end in time is killed."""
        if not child.is_running:
            return
        self._signal(child, signal.SIGTERM)
        done = self.wait_until(
            lambda: not child.is_running or self.is_stopping_at_once, _STOP_TIMEOUT_S
        )
        if not done and not self.is_stopping_at_once:
            print(f"{child.name} does not stop; ending it", file=sys.stderr)
        if child.is_running:
            self._signal(child, signal.SIGKILL)
            self.wait_until(lambda: not child.is_running, _STOP_TIMEOUT_S)

    def _signal(self, child: Child, number: signal.Signals) -> None:
        # The process has ended meanwhile; SIGCHLD reports it.
        with suppress(ProcessLookupError):
            os.kill(child.pid, number)

    def _on_stop(self, *_: object) -> None:
        self.is_stopping_at_once = self.stops
        self.stops = True


class Restarts:
    """The delay before a child is restarted: none, unless it keeps ending."""

    _MIN_DELAY_S = 0.1
    _MAX_DELAY_S = 5.0
    _STABLE_AFTER_S = 10.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = -self._STABLE_AFTER_S
        self._delay_s = 0.0

    def next_delay_s(self) -> float:
        now_s = self._clock.monotonic_s()
        if now_s - self._last_s >= self._STABLE_AFTER_S:
            self._delay_s = 0.0
        else:
            self._delay_s = min(max(2 * self._delay_s, self._MIN_DELAY_S), self._MAX_DELAY_S)
        self._last_s = now_s
        return self._delay_s


def _say(pipe: int, words: str) -> None:
    # The parent may have ended; the child notices that on standard input as well.
    with suppress(OSError):
        os.write(pipe, f"{words}\n".encode())


def _name_process(name: str) -> None:
    """Sets the name that `ps` and `top` show, if the system allows it."""
    with suppress(OSError), open("/proc/self/comm", "w") as file:
        file.write(f"odradek-{name}".replace(" ", "")[:15])
