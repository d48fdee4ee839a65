"""Reads the partitions of a fetch, pass by pass, and keeps the results for the response.

The first pass reads the partitions that are due, later passes those that became due meanwhile. What
may be read differs between consumers and followers: `ConsumerReader` and `ReplicaReader` decide it.
"""

from typing import Protocol

from odradek.broker.fetching.due_partitions import FetchEntry
from odradek.protocol.api_error import ApiError
from odradek.protocol.messages.fetch import PartitionData
from odradek.protocol.types import NO_OFFSET
from odradek.replication.partition import Partition
from odradek.statemachine.watermark import Watermark
from odradek.storage import Slice


class PartitionReader(Protocol):
    """Reads one partition at a time for one kind of client."""

    # The partitions that could be read, and whose watermarks the fetch may wait for.
    partitions: dict[FetchEntry, Partition]
    # Whether the fetch must be answered at once, even if there are no records.
    must_answer: bool
    # The time at which partitions may be read that a throttle holds back, if there are any.
    resume_s: float | None

    @property
    def may_skip_idle(self) -> bool:
        """Whether idle partitions are still idle for sure, so that they need not be read."""
        ...

    def begin_pass(self) -> None: ...

    def read(
        self, entry: FetchEntry, data: PartitionData, max_bytes: int, *, is_first: bool
    ) -> int:
        """Reads one partition into `data`. Returns the number of bytes of records.

        The partition that `is_first` to have records returns at least one batch, however large.
        Raises `ApiError` if the partition may not be read here."""
        ...

    def watermark(self, partition: Partition) -> Watermark:
        """Returns the watermark that moves when the client can read more of the partition."""
        ...

    def becomes_idle(self, partition: Partition, entry: FetchEntry) -> bool:
        """Returns whether the client knows everything about the partition, and will until its
        watermark moves. If so and the client is a follower, sets `entry.idle_follower`."""
        ...


class FetchReads:
    """The results of one fetch so far, in the order of its response."""

    __slots__ = (
        "_found_bytes",
        "_max_bytes",
        "_min_bytes",
        "_reader",
        "has_errors",
        "is_enough",
        "partitions",
        "results",
    )

    def __init__(self, reader: PartitionReader, *, min_bytes: int, max_bytes: int) -> None:
        self._reader = reader
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        # Bytes of records in the current pass.
        self._found_bytes = 0
        # Whether the fetch is to be answered now.
        self.is_enough = False
        # Whether reading a partition has raised an `ApiError`.
        self.has_errors = False
        self.partitions = reader.partitions
        self.results: dict[FetchEntry, PartitionData] = {}

    def read(self, entries: list[FetchEntry], *, continues: bool = False) -> None:
        """Makes a pass over the entries, or `continues` the current one with more entries. Each
        partition of which an earlier pass found records is among the entries."""
        reader, results = self._reader, self.results
        if continues:
            found_bytes = self._found_bytes
        else:
            found_bytes = 0
            reader.begin_pass()
        max_bytes = self._max_bytes
        for entry in entries:
            data = results[entry] = PartitionData(
                partition_index=entry.partition,
                high_watermark=NO_OFFSET,
                aborted_transactions=None,
                records=b"",
            )
            try:
                found_bytes += reader.read(
                    entry, data, max_bytes - found_bytes, is_first=not found_bytes
                )
            except ApiError as error:
                data.error_code = error.code
                self.partitions.pop(entry, None)
                self.is_enough = self.has_errors = True
        self._found_bytes = found_bytes
        if found_bytes >= self._min_bytes or reader.must_answer:
            self.is_enough = True

    def register(self, entries: list[FetchEntry]) -> None:
        """Registers partitions with their watermarks, so that a change makes them due. Must be
        called in the step of the event loop that read them."""
        for entry in entries:
            partition = self.partitions.get(entry)
            if partition is not None:
                entry.register(self._reader.watermark(partition))

    def still_due(self, entries: list[FetchEntry]) -> list[FetchEntry]:
        """Returns the entries that the next pass must read even if no watermark moves: those with
        records, whose slices are released here, and those that may change in a way that does not
        end the wait. Called after a pass that found too little."""
        due = []
        for entry in entries:
            data = self.results[entry]
            if isinstance(data.records, Slice):
                data.records.release()
                data.records = b""
                due.append(entry)
                continue
            partition = self.partitions.get(entry)
            if partition is None or not self._reader.becomes_idle(partition, entry):
                due.append(entry)
        return due

    def make_idle(self, entry: FetchEntry, data: PartitionData) -> bool:
        """Registers the partition with its watermark if the client then knows everything about it
        until the watermark moves. Returns whether it did; if not, the partition has to stay due.
        Called when the result is added to the response."""
        partition = self.partitions.get(entry)
        if (
            partition is None
            or data.records
            or data.error_code
            or data.diverging_epoch is not None
            # A pass over many partitions read this one in an earlier step of the event loop.
            or data.high_watermark != partition.high_watermark.value
            or not self._reader.becomes_idle(partition, entry)
        ):
            return False
        entry.register(self._reader.watermark(partition))
        return True

    def take_resume_s(self) -> float | None:
        """Returns the time at which partitions that a throttle held back in the last pass may be
        read, and clears it."""
        resume_s, self._reader.resume_s = self._reader.resume_s, None
        return resume_s

    def abandon(self) -> None:
        """Releases the records that were found, because the client does not get them."""
        for data in self.results.values():
            if isinstance(data.records, Slice):
                data.records.release()
                data.records = b""

    def unregister(self) -> None:
        """Unregisters all partitions. Called at the end of a fetch without a session."""
        for entry in self.results:
            entry.unregister()
