"""What a client is asked to do in the benchmark of clients, whichever client it is."""

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

GATHERED_RECORDS: Final = 1_000
POLLED_RECORDS: Final = 500
BATCH_BYTES: Final = 16_384
# Requests that are not measured: connections are opened and code is loaded meanwhile.
WARM_UP_PAIRS: Final = 50


@dataclass
class Task:
    """What was asked for, and the times that it took."""

    bootstrap: str
    topic: str
    replies: str
    count: int
    value: bytes
    linger_ms: int
    group: str
    durations_s: list[float] = field(default_factory=list)

    def time_pair(self, began_s: float) -> None:
        self.durations_s.append(time.perf_counter() - began_s)


Work = Callable[[Task], Coroutine[Any, Any, None] | None]
