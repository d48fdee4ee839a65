"""What a task counts while it runs, for the worker's metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class TaskFigures:
    polled: int = 0
    """Records that a source has read or a sink was given, before transforms."""
    written: int = 0
    """Records that a source has written to topics, or a sink to the other side."""
    batches: int = 0


@dataclass(slots=True)
class FailureFigures:
    failed: int = 0
    passed_over: int = 0
    logged: int = 0
    diverted: int = 0
    """Records that were written to the dead-letter topic."""
