"""The journal of a run: a file that says what is to be done and which throttles were set.

It is written before anything is changed, so after a crash the next command knows what to finish or
to undo. There is one journal for each cluster, in the directory of the user who runs the command.

    balance-<cluster id>.json          the journal
    balance-<cluster id>.json.lock     held by the process that carries it out
    balance-<cluster id>.json.cancel   exists while that process is asked to stop
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Self

from odradek.ops.balance.plan import Move
from odradek.protocol.types import TopicPartition
from odradek.world.disk import DirectoryLock, Disk


class State(Enum):
    RUNNING = "running"
    """The command is at work, or was killed: the lock tells which."""
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class AlreadyRunning(Exception):
    """Another process carries a plan out."""


class JournalUnreadable(Exception):
    """The file is not a journal."""


Overrides = dict[str, dict[str, str | None]]
"""Settings that a resource had before: its name, then setting and value; None if it had none."""


@dataclass(frozen=True, slots=True)
class Throttles:
    """What the throttled brokers and topics had before, to be restored."""

    brokers: Overrides = field(default_factory=dict)
    topics: Overrides = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.brokers and not self.topics


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a journal."""

    cluster_id: str
    kind: str
    state: State
    started_ms: int
    throttle: int
    """Bytes a second; -1 means no limit."""
    waves: tuple[tuple[Move, ...], ...]
    """The first one has the moves that change only the order of replicas; it may be empty."""
    elections: tuple[TopicPartition, ...]
    throttles: Throttles = Throttles()
    reason: str = ""

    @property
    def moves(self) -> list[Move]:
        return [move for wave in self.waves for move in wave]

    def with_state(self, state: State, reason: str = "") -> "Entry":
        return replace(self, state=state, reason=reason)

    def to_json(self) -> dict[str, Any]:
        content = asdict(self)
        content["state"] = self.state.value
        content["version"] = 1
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            cluster_id=content["cluster_id"],
            kind=content["kind"],
            state=State(content["state"]),
            started_ms=content["started_ms"],
            throttle=content["throttle"],
            waves=tuple(tuple(map(_move, wave)) for wave in content["waves"]),
            elections=tuple(TopicPartition(*name) for name in content["elections"]),
            throttles=Throttles(**content["throttles"]),
            reason=content["reason"],
        )


def _move(content: Mapping[str, Any]) -> Move:
    return Move(
        TopicPartition(*content["partition"]),
        tuple(content["before"]),
        tuple(content["after"]),
        content["size_bytes"],
        content["leader"],
        content["rate"],
    )


def default_path(cluster_id: str) -> str:
    """Returns where the journal of a cluster is: in $XDG_STATE_HOME, or ~/.local/state."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "odradek", f"balance-{cluster_id}.json")


class Journal:
    """The files of one journal."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._lock: DirectoryLock | None = None

    def read(self) -> Entry | None:
        """Returns what the last run wrote, or None if there was none."""
        if not self._disk.exists(self.path):
            return None
        try:
            return Entry.from_json(json.loads(self._disk.read(self.path)))
        except (ValueError, KeyError, TypeError) as error:
            raise JournalUnreadable(
                f"{self.path} is not a journal of odradek balance ({error}); move it away, then"
                " look for throttles with: odradek configs --describe --entity-type brokers"
            ) from error

    def write(self, entry: Entry) -> None:
        content = json.dumps(entry.to_json(), separators=(",", ":"))
        self._disk.replace(self.path, content.encode())

    def acquire(self) -> None:
        """Takes the lock, which ends with this process. Raises `AlreadyRunning`."""
        self._disk.make_directories(os.path.dirname(self.path) or ".")
        try:
            self._lock = self._disk.lock(f"{self.path}.lock")
        except BlockingIOError:
            raise AlreadyRunning(
                "odradek balance is carrying out a plan already; odradek balance status shows it,"
                " odradek balance cancel stops it"
            ) from None
        self._forget_cancellation()

    def release(self) -> None:
        if self._lock is not None:
            self._forget_cancellation()
            self._lock.release()
            self._lock = None

    def is_locked(self) -> bool:
        """Returns whether a process, perhaps this one, carries the plan out."""
        if self._lock is not None:
            return True
        if not self._disk.exists(f"{self.path}.lock"):
            return False
        try:
            self._disk.lock(f"{self.path}.lock").release()
        except BlockingIOError:
            return True
        return False

    # Cancellation by another process

    def ask_to_stop(self) -> None:
        self._disk.replace(f"{self.path}.cancel", b"")

    def is_asked_to_stop(self) -> bool:
        return self._disk.exists(f"{self.path}.cancel")

    def _forget_cancellation(self) -> None:
        with suppress(FileNotFoundError):
            self._disk.remove(f"{self.path}.cancel")
