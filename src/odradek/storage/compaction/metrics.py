"""The metrics of the log cleaner, with Kafka's names."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.storage.compaction.cleanable import Cleanable
    from odradek.storage.compaction.job import Message, Outcome


class CleanerMetrics:
    __slots__ = (
        "_expected_bytes",
        "max_clean_time_s",
        "max_compaction_delay_s",
        "max_dirty_percent",
        "passes",
        "progress",
        "recopy_percent",
        "subject",
        "uncleanable",
        "uncleanable_bytes",
    )

    def __init__(self) -> None:
        self.max_dirty_percent = 0.0
        # Of what the last pass read, how much it wrote again.
        self.recopy_percent = 0.0
        self.max_clean_time_s = 0.0
        # How long the log that waits most has waited beyond `max.compaction.lag.ms`.
        self.max_compaction_delay_s = 0.0
        self.uncleanable = 0
        self.uncleanable_bytes = 0
        self.passes = 0
        # The pass under way: which log, and how much of it is done, 0 to 1.
        self.subject: str | None = None
        self.progress = 0.0
        self._expected_bytes = 0

    def examined(self, candidates: "Sequence[Cleanable]", now_ms: int) -> None:
        ratios = [cleanable.dirty_ratio for cleanable in candidates]
        self.max_dirty_percent = 100 * max(ratios, default=0.0)
        self.max_compaction_delay_s = max(
            (cleanable.delay_ms(now_ms) / 1000 for cleanable in candidates), default=0.0
        )

    def begin(self, chosen: "Cleanable") -> None:
        topic, partition = chosen.log.topic_partition
        self.subject = f"{topic}-{partition}"
        self.progress = 0.0
        # The dirty part is read twice.
        self._expected_bytes = max(chosen.clean_bytes + 2 * chosen.dirty_bytes, 1)

    def progressed(self, message: "Message") -> None:
        done = message.get("bytes")
        if isinstance(done, int):
            self.progress = min(done / self._expected_bytes, 1.0)

    def done(self, outcome: "Outcome") -> None:
        self.passes += 1
        self.max_clean_time_s = max(self.max_clean_time_s, outcome.index_s + outcome.clean_s)
        self.recopy_percent = 100 * outcome.bytes_written / max(outcome.bytes_read, 1)

    def end(self) -> None:
        self.subject = None
        self.progress = 0.0
