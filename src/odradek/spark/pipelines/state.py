"""The files of a running pipeline, by which other processes can find, watch and stop it.

    DIR/NAME/state.json      what it is, which process runs it, how far it has come
    DIR/NAME/running.lock    locked for as long as the process runs
    DIR/NAME/metrics.prom    figures in Prometheus' text format
    DIR/NAME/halt            exists while the pipeline is asked to end (see `halt.py`)
    DIR/NAME/checkpoint/     the checkpoints of Spark

Invariant: a pipeline runs if and only if its lock is held. The state file may be older than a
crash.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Final

from odradek.world.disk import DirectoryLock, Disk

STARTING: Final = "starting"
RUNNING: Final = "running"
WAITING: Final = "waiting to restart"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
FAILED: Final = "failed"
# The state that others see of a pipeline whose process has died.
DIED: Final = "died"
_ENDED: Final = (STOPPED, FINISHED, FAILED)


class AlreadyRunning(RuntimeError):
    """Another process runs this pipeline; two on one checkpoint would write twice. The message
    names it."""


@dataclass(slots=True)
class QueryState:
    """The progress of one query."""

    batch_id: int = -1
    records: int = 0
    batches: int = 0
    restarts: int = 0
    lag: int = 0
    batch_duration_s: float = 0.0
    last_batch_ms: int = 0
    # Whether the checkpoint was below the pipeline's directory; a query may name its own.
    has_checkpoint: bool = False


@dataclass(slots=True)
class PipelineState:
    name: str
    file: str
    pid: int
    started_ms: int
    status: str = STARTING
    error: str | None = None
    queries: dict[str, QueryState] = field(default_factory=dict)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "PipelineState":
        fields = json.loads(data)
        queries = {name: QueryState(**query) for name, query in fields.pop("queries").items()}
        return cls(**fields, queries=queries)


class PipelineDirectory:
    """The files of one pipeline."""

    def __init__(self, disk: Disk, directory: str, name: str) -> None:
        self._disk = disk
        self.name = name
        self.directory = os.path.join(os.path.abspath(directory), name)
        self.checkpoint = f"{self.directory}/checkpoint"
        self.halt_path = f"{self.directory}/halt"
        self._state_path = f"{self.directory}/state.json"
        self._lock_path = f"{self.directory}/running.lock"
        self._metrics_path = f"{self.directory}/metrics.prom"

    def claim(self) -> DirectoryLock:
        """Takes the lock. It is held until it is released or the process ends, however that
        happens."""
        self._disk.make_directories(self.directory)
        try:
            lock = self._disk.lock(self._lock_path)
        except BlockingIOError:
            state = self.read()
            process = f" (process {state.pid})" if state else ""
            raise AlreadyRunning(
                f"pipeline {self.name} is running already{process};"
                f" odradek pipeline stop {self.name} stops it"
            ) from None
        self.take_back_halt()
        return lock

    def has_checkpoint(self, query: str) -> bool:
        """Returns whether Spark has a checkpoint of the query below the pipeline's directory."""
        return self._disk.exists(f"{self.checkpoint}/{query}/metadata")

    def is_running(self) -> bool:
        if not self._disk.exists(self._lock_path):
            return False
        try:
            self._disk.lock(self._lock_path).release()
        except BlockingIOError:
            return True
        return False

    def read(self) -> PipelineState | None:
        try:
            state = PipelineState.from_json(self._disk.read(self._state_path))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if state.status not in _ENDED and not self.is_running():
            state.status = DIED
        return state

    def write(self, state: PipelineState) -> None:
        self._disk.replace(self._state_path, state.to_json())

    def write_metrics(self, text: str) -> None:
        self._disk.replace(self._metrics_path, text.encode())

    def ask_to_halt(self) -> None:
        self._disk.replace(self.halt_path, b"")

    def take_back_halt(self) -> None:
        if self._disk.exists(self.halt_path):
            self._disk.remove(self.halt_path)


def pipelines_in(disk: Disk, directory: str) -> list[PipelineDirectory]:
    """Returns all pipelines that have run in a directory, sorted by name."""
    try:
        names = sorted(disk.list_directory(directory))
    except OSError:
        return []
    directories = [PipelineDirectory(disk, directory, name) for name in names]
    return [pipeline for pipeline in directories if pipeline.read() is not None]
