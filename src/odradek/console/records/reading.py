"""Reads the records that a page shows: newest first, or from a place on, searched and filtered.

Each partition is a lane. Backwards, a lane takes windows before its place, of which each is read
forwards as Kafka's logs can only be read; forwards it just goes on. The lanes are merged by time,
and the next page begins where the records that were shown ended, lane by lane, so that no record is
left out or shown twice.

A search looks at a bounded number of records, bytes and seconds. It says how far it came, and the
next page goes on there. A window backwards counts only when it was read to its end, so windows
are no larger than the bytes that are left seem to allow. Of the records that are found, a page
keeps one line each: decoded data takes many times as much memory as its bytes.
"""

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from odradek.client.admin.admin import Admin
from odradek.client.cluster_view import Topic
from odradek.client.consumer.consumer import Consumer, ConsumerRecord
from odradek.client.errors import OffsetOutOfRange
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.console.records.decoding import Decoded, Decoder
from odradek.console.records.expression import Filter
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.wording import counted
from odradek.world.timeslice import Timeslice

MAX_SHOWN: Final = 500
_MAX_SCANNED: Final = 100_000
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_SECONDS: Final = 5.0
_MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
_FIRST_WINDOW: Final = 250
_LARGEST_WINDOW: Final = 4000
_GROWTH: Final = 4
_POLL_MS: Final = 500
MAX_POLLED: Final = 40
"""How many records are in memory as they are stored: each may be of a batch of its own."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a page asks for. `places` are the offsets at which partitions begin; backwards, the
    records before them are shown."""

    partitions: tuple[int, ...] = ()
    """Only these; all if there are none."""
    is_backward: bool = True
    offset: int | None = None
    timestamp_ms: int | None = None
    places: Mapping[int, int] = field(default_factory=dict)
    limit: int = 50
    text: str = ""
    filter: Filter | None = None
    is_list: bool = False
    """Whether a line of each record is enough."""

    @property
    def is_search(self) -> bool:
        return bool(self.text) or self.filter is not None


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record as pages show it: decoded and masked."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Decoded
    value: Decoded
    headers: list[tuple[str, str]]

    @property
    def size(self) -> int:
        return self.key.size + self.value.size

    @property
    def is_masked(self) -> bool:
        return self.key.is_masked or self.value.is_masked

    def short(self) -> "RecordView":
        """Returns what a table shows of it."""
        return replace(self, key=self.key.short(), value=self.value.short())

    def names(self) -> dict[str, Any]:
        """Returns what a filter can name."""
        return {
            "key": self.key.data,
            "value": self.value.data,
            "headers": dict(self.headers),
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "size": self.size,
        }

    def contains(self, text: str) -> bool:
        """Returns whether the text, in lower case, occurs in key, value or headers."""
        return (
            self.value.contains(text)
            or self.key.contains(text)
            or any(text in name.lower() or text in value.lower() for name, value in self.headers)
        )


@dataclass(slots=True)
class Found:
    """The records of a page, and how the search for them went."""

    records: list[RecordView]
    scanned: int
    next_places: dict[int, int]
    """Where the next page begins; empty if there is nothing more."""
    stopped: str = ""
    """Why a search stopped before it had looked at everything."""
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Lane:
    """A partition: `place` is how far it was looked at, within `first` and `end`."""

    partition: TopicPartition
    first: int
    end: int
    place: int
    window: int
    found: list[RecordView] = field(default_factory=list)

    def is_done(self, wanted: Wanted) -> bool:
        at_border = self.place <= self.first if wanted.is_backward else self.place >= self.end
        return at_border or len(self.found) >= wanted.limit

    def next_window(self, wanted: Wanted) -> tuple[int, int]:
        if wanted.is_backward:
            return max(self.first, self.place - self.window), self.place
        return self.place, min(self.end, self.place + self.window)


class _Budget:
    """How much a search may still look at."""

    def __init__(self, seconds: float) -> None:
        self._until_s = asyncio.get_running_loop().time() + seconds
        self.scanned = 0
        self._bytes = 0
        self._bytes_before = self._scanned_before = 0
        self._kept_bytes = 0
        self._is_again = False

    def count(self, record: ConsumerRecord) -> None:
        self.scanned += 1
        self._bytes += len(record.key or b"") + len(record.value or b"")

    def keep(self, view: RecordView) -> None:
        self._kept_bytes += view.key.memory_bytes + view.value.memory_bytes

    def window(self, lanes: int) -> int:
        """Returns how many records each lane may read without using up the bytes, if the records
        are like those before."""
        fitting = (_MAX_SCANNED - self._scanned_now) / 2
        if read_bytes := self._bytes_before + self._bytes:
            left_bytes = (_MAX_BYTES - self._bytes) / 2
            fitting = min(fitting, left_bytes * self.scanned / read_bytes)
        return max(1, int(fitting / lanes))

    @property
    def _scanned_now(self) -> int:
        return self.scanned - self._scanned_before

    @property
    def has_read_enough(self) -> bool:
        return self._bytes >= _MAX_BYTES or self._scanned_now >= _MAX_SCANNED

    def begin_again(self) -> None:
        """Allows as much once more, with smaller windows; called twice it does nothing."""
        if not self._is_again:
            self._is_again = True
            self._bytes_before, self._bytes = self._bytes, 0
            self._scanned_before = self.scanned

    def left_s(self) -> float:
        return self._until_s - asyncio.get_running_loop().time()

    def stopped(self) -> str:
        if self._scanned_now >= _MAX_SCANNED:
            return counted(self.scanned, "record was", "records were", spec=",") + " looked at"
        if self._bytes >= _MAX_BYTES:
            return f"{self._bytes // 1_000_000} MB were looked at"
        if self._kept_bytes >= _MAX_KEPT_BYTES:
            return f"what was found takes {self._kept_bytes // 1_000_000} MB"
        return "the time was over" if self.left_s() <= 0 else ""


async def read_records(
    admin: Admin, reader: Consumer, topic: Topic, wanted: Wanted, decoder: Decoder
) -> Found:
    """Returns the records of a page. Raises what the brokers answer if they refuse."""
    found = Found([], 0, {})
    led = {
        index
        for index, partition in topic.partitions.items()
        if partition.leader >= 0 and (not wanted.partitions or index in wanted.partitions)
    }
    dark = sorted(set(wanted.partitions or topic.partitions) - led)
    if dark:
        names = ", ".join(map(str, dark[:10])) + (", ..." if len(dark) > 10 else "")
        found.notes.append(
            f"Without a leader, so without records here: partition {names}. Start its brokers."
        )
    lanes = await _lanes(admin, topic.name, led, wanted)
    budget = _Budget(_MAX_SECONDS)
    while active := [lane for lane in lanes if not lane.is_done(wanted)]:
        enough = sum(len(lane.found) for lane in lanes) >= wanted.limit
        # A search through many partitions need not find a page in each of them.
        if (wanted.is_search and enough) or budget.stopped():
            break
        most = budget.window(len(active))
        for lane in active:
            lane.window = min(lane.window, most)
        places = [lane.place for lane in active]
        await _Windows(active, wanted, decoder, budget).read(reader)
        if budget.has_read_enough and places == [lane.place for lane in active]:
            # Not one window backwards fits: with a megabyte a record, fifty are too many.
            budget.begin_again()
    reader.unassign()
    if any(not lane.is_done(wanted) for lane in lanes):
        found.stopped = budget.stopped()
    found.scanned = budget.scanned
    if decoder.note:
        found.notes.append(decoder.note)
    _merge(lanes, wanted, found)
    return found


async def _lanes(admin: Admin, topic: str, indexes: Iterable[int], wanted: Wanted) -> list[_Lane]:
    partitions = [TopicPartition(topic, index) for index in sorted(indexes)]
    firsts, ends = await asyncio.gather(
        listed_offsets(admin, partitions, EARLIEST), listed_offsets(admin, partitions, LATEST)
    )
    times: Mapping[TopicPartition, int] = {}
    if wanted.timestamp_ms is not None:
        times = await listed_offsets(admin, partitions, wanted.timestamp_ms)
    lanes = []
    window = _FIRST_WINDOW if wanted.is_search else max(wanted.limit, 20)
    for partition in partitions:
        if partition not in firsts or partition not in ends:
            continue
        first, end = firsts[partition], ends[partition]
        place = end if wanted.is_backward else first
        if wanted.offset is not None:
            place = wanted.offset
        if wanted.timestamp_ms is not None:
            at = times.get(partition, -1)
            place = end if at < 0 else at
        if wanted.places:
            # A partition that is not named was shown completely.
            place = wanted.places.get(partition.partition, first if wanted.is_backward else end)
        lanes.append(_Lane(partition, first, end, max(first, min(place, end)), window))
    return lanes


async def listed_offsets(
    admin: Admin, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Returns the offset of each partition at a time; partitions that cannot be asked are left
    out. Raises if none can."""
    answers = await admin.list_offsets(dict.fromkeys(partitions, timestamp))
    offsets: dict[TopicPartition, int] = {}
    error: KafkaError | None = None
    for partition, answer in answers.items():
        if isinstance(answer, KafkaError):
            error = answer
        else:
            offsets[partition] = int(answer.offset)
    if error is not None and not offsets:
        raise error
    return offsets


class _Windows:
    """One window of each lane, being read at the same time."""

    def __init__(
        self, lanes: list[_Lane], wanted: Wanted, decoder: Decoder, budget: _Budget
    ) -> None:
        self._wanted = wanted
        self._decoder = decoder
        self._budget = budget
        # The windows that are not read completely: lane, first offset and end.
        self._open = {lane.partition: (lane, *lane.next_window(wanted)) for lane in lanes}
        self._matches: dict[TopicPartition, list[RecordView]] = {one: [] for one in self._open}

    async def read(self, reader: Consumer) -> None:
        """Reads the windows, and moves the places of those lanes whose window was read."""
        reader.assign(list(self._open))
        reader.resume(*self._open)  # The window before may have paused them.
        for partition, (_, low, _) in self._open.items():
            reader.seek(partition, low)
        while self._open and not self._budget.stopped():
            wait_ms = min(_POLL_MS, int(self._budget.left_s() * 1000) + 1)
            try:
                polled = await reader.poll(wait_ms, MAX_POLLED)
            except OffsetOutOfRange:
                break  # Retention took the records meanwhile; the next look finds the beginning.
            for partition, records in polled.items():
                if partition in self._open:
                    await self._take(partition, records)
            # A position also moves over batches without records that are shown. These are looked
            # at when nothing more is buffered: to ask for all positions each time takes long.
            is_drained = sum(map(len, polled.values())) < MAX_POLLED
            for partition in list(self._open if is_drained else polled):
                if partition not in self._open:
                    continue
                lane, low, high = self._open[partition]
                if await reader.position(partition) >= high:
                    del self._open[partition]
                    reader.pause(partition)
                    self._close(lane, low, high)
            await asyncio.sleep(0)  # Other requests are answered meanwhile.
        if not self._wanted.is_backward:
            for partition, (lane, low, _) in self._open.items():
                # What was read counts, also if the window was not finished.
                at = min(await reader.position(partition), lane.end)
                self._close(lane, low, max(low, at))

    async def _take(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        _, _, high = self._open[partition]
        timeslice = Timeslice.of_running_loop()
        for record in records:
            if record.offset >= high:
                return
            # Records may be large, and filters costly: others are answered between them.
            await timeslice.pause()
            self._budget.count(record)
            view = await view_of(record, self._decoder)
            if _is_wanted(view, self._wanted):
                kept = view.short() if self._wanted.is_list else view
                self._budget.keep(kept)
                self._matches[partition].append(kept)

    def _close(self, lane: _Lane, low: int, high: int) -> None:
        matches = self._matches[lane.partition]
        if self._wanted.is_backward:
            lane.found += reversed(matches)
            lane.place = low
        else:
            lane.found += matches
            lane.place = high
        lane.window = min(lane.window * _GROWTH, _LARGEST_WINDOW)


async def view_of(record: ConsumerRecord, decoder: Decoder) -> RecordView:
    """Returns a record decoded and masked."""
    return RecordView(
        record.topic,
        record.partition,
        int(record.offset),
        record.timestamp_ms,
        await decoder.decode("key", record.key, record.headers),
        await decoder.decode("value", record.value, record.headers),
        decoder.headers(record.headers),
    )


def _is_wanted(view: RecordView, wanted: Wanted) -> bool:
    if wanted.text and not view.contains(wanted.text.lower()):
        return False
    return wanted.filter is None or wanted.filter.matches(view.names())


def _merge(lanes: list[_Lane], wanted: Wanted, found: Found) -> None:
    """Takes a page from the lanes, in the order of time, and notes where the next one begins."""
    sign = -1 if wanted.is_backward else 1
    merged = heapq.merge(*(lane.found for lane in lanes), key=lambda view: sign * view.timestamp_ms)
    for view in merged:
        if len(found.records) == wanted.limit:
            break
        found.records.append(view)
    shown: dict[int, list[int]] = {}
    for view in found.records:
        shown.setdefault(view.partition, []).append(view.offset)
    places: dict[int, int] = {}
    for lane in lanes:
        index = lane.partition.partition
        offsets = shown.get(index, [])
        place = lane.place
        if len(offsets) < len(lane.found):
            following = lane.found[len(offsets)].offset
            place = following + 1 if wanted.is_backward else following
        if (place > lane.first) if wanted.is_backward else (place < lane.end):
            places[index] = place
    found.next_places = places
