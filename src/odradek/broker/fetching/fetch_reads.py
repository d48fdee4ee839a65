"""Reads the partitions of a fetch, pass by pass: at first those that may have something new,
later those that moved meanwhile. Consumers' fetches and replicas' differ in what may be read
(`consumer_reads`, `replica_reads`).
"""

from odradek.broker.fetching.interest import FetchEntry
from odradek.broker.services import Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.messages.fetch import FetchRequest, PartitionData
from odradek.replication.partition import Partition
from odradek.statemachine.watermark import Watermark
from odradek.storage import Slice


class FetchReads:
    """What was found so far, in the order in which it is answered."""

    __slots__ = (
        "_found",
        "_max_bytes",
        "_min_bytes",
        "_services",
        "is_enough",
        "is_refused",
        "partitions",
        "results",
        "resume_s",
    )

    def __init__(self, services: Services, request: FetchRequest, max_bytes: int) -> None:
        self._services = services
        self._min_bytes = request.min_bytes
        self._max_bytes = max_bytes
        # Bytes of records in this pass.
        self._found = 0
        self.is_enough = False
        # Whether there is a partition that may not be read here.
        self.is_refused = False
        # When to read again what was held back, if anything was.
        self.resume_s: float | None = None
        self.partitions: dict[FetchEntry, Partition] = {}
        self.results: dict[FetchEntry, PartitionData] = {}

    def read(self, entries: list[FetchEntry], *, goes_on: bool = False) -> None:
        """One pass, or the next entries of one that goes on. Whatever had records before is among
        the entries."""
        left = self._max_bytes
        found = self._found if goes_on else 0
        results = self.results
        for entry in entries:
            data = results[entry] = PartitionData(
                partition_index=entry.partition,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
            try:
                found += self._read_one(entry, data, left - found, first=not found)
            except ApiError as refusal:
                data.error_code = refusal.code
                self.partitions.pop(entry, None)
                self.is_enough = self.is_refused = True
        self._found = found
        if found >= self._min_bytes:
            self.is_enough = True

    def watch(self, entries: list[FetchEntry]) -> list[FetchEntry]:
        """Waits for those that were just read; returns whichever are to be read again anyhow."""
        self.register(entries)
        return self.again(entries)

    def register(self, entries: list[FetchEntry]) -> None:
        """Whoever moves from now on becomes hot. To be called in the step that read them."""
        for entry in entries:
            partition = self.partitions.get(entry)
            if partition is not None:
                entry.watch(self._watermark(partition))

    def again(self, entries: list[FetchEntry]) -> list[FetchEntry]:
        """Returns the entries to read again though nothing moves: those with records, but too few
        (their slices are let go), and those of which there may be more to tell by then, though
        it is no reason to answer."""
        again = []
        for entry in entries:
            data = self.results[entry]
            if isinstance(data.records, Slice):
                data.records.release()
                data.records = b""
                again.append(entry)
                continue
            partition = self.partitions.get(entry)
            if partition is None or not self._is_silent(partition, entry):
                again.append(entry)
        return again

    def fall_silent(self, entry: FetchEntry, data: PartitionData) -> bool:
        """Whether nothing can be told of the partition until its watermark moves; then it waits
        for that. To be asked once the client knows what was read."""
        partition = self.partitions.get(entry)
        if (
            partition is None
            or data.records
            or data.error_code
            or data.diverging_epoch is not None
            # Read in an earlier turn, where there are many.
            or data.high_watermark != partition.high_watermark.value
            or not self._is_silent(partition, entry)
        ):
            return False
        entry.watch(self._watermark(partition))
        return True

    @property
    def trusts_silence(self) -> bool:
        """Whether partitions that were silent may be taken to be so still, unread."""
        services = self._services
        return services.replicas.is_leased and not services.logs.offline_directories

    def _read_one(self, entry: FetchEntry, data: PartitionData, left: int, *, first: bool) -> int:
        raise NotImplementedError

    def _watermark(self, partition: Partition) -> Watermark:
        raise NotImplementedError

    def _is_silent(self, partition: Partition, entry: FetchEntry) -> bool:
        raise NotImplementedError
