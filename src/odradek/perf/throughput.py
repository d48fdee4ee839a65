"""Pace and figures of the measuring tools: throttle, latency statistics, Kafka's report lines.

The functions are pure: the caller passes the time, so every line can be tested.
"""

from array import array
from typing import NamedTuple

from odradek.world import Randomness
from odradek.world.clock import Clock

_MEGABYTE = 1024 * 1024
_MAX_SAMPLES = 500_000
PERCENTILES = (0.5, 0.95, 0.99, 0.999)


def percentile(ordered: "array[int] | list[int] | list[float]", share: float) -> float:
    """The value below which `share` of the sorted values lie."""
    if not ordered:
        return 0
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def choose_payload(payloads: list[bytes], number: int, randomness: Randomness) -> bytes:
    """Returns one of the payloads, or the number of the record if there are none."""
    return payloads[randomness.integer_below(len(payloads))] if payloads else b"%d" % number


class Throttle:
    """Keeps a sender to a number of records a second; a negative number means no limit."""

    def __init__(self, records_per_second: float, start_s: float) -> None:
        self._per_second = records_per_second
        self._start_s = start_s

    @property
    def look_every(self) -> int:
        """How many records to send between two looks at the clock, which would otherwise cost as
        much as sending."""
        return 1000 if self._per_second <= 0 else max(1, int(self._per_second / 100))

    def wait_s(self, sent: int, now_s: float) -> float:
        """Returns how long to pause before the next record, after `sent` records."""
        if self._per_second <= 0:
            return 0.0
        return max(0.0, self._start_s + sent / self._per_second - now_s)


class Summary(NamedTuple):
    records: int
    records_per_second: float
    megabytes_per_second: float
    average_ms: float
    max_ms: float
    percentiles_ms: tuple[float, ...]

    def line(self) -> str:
        p50, p95, p99, p999 = (round(value) for value in self.percentiles_ms)
        return (
            f"{self.records} records sent, {self.records_per_second:.6f} records/sec"
            f" ({self.megabytes_per_second:.2f} MB/sec), {self.average_ms:.2f} ms avg latency,"
            f" {self.max_ms:.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th,"
            f" {p999} ms 99.9th."
        )

    def as_json(self) -> dict[str, object]:
        names = ("p50_ms", "p95_ms", "p99_ms", "p99.9_ms")
        return {
            "records": self.records,
            "records_per_second": round(self.records_per_second, 1),
            "megabytes_per_second": round(self.megabytes_per_second, 3),
            "latency_average_ms": round(self.average_ms, 3),
            "latency_max_ms": round(self.max_ms, 3),
            **{
                f"latency_{name}": round(value, 3)
                for name, value in zip(names, self.percentiles_ms, strict=True)
            },
        }


class ProducerStatistics:
    """Counts acknowledged records and their latencies, in all and since the last report."""

    __slots__ = (
        "_latencies_us",
        "_max_us",
        "_sampling",
        "_start_s",
        "_total_us",
        "_window_bytes",
        "_window_count",
        "_window_max_us",
        "_window_start_s",
        "_window_total_us",
        "bytes",
        "count",
    )

    def __init__(self, expected: int, start_s: float) -> None:
        self._sampling = max(1, expected // _MAX_SAMPLES)
        self._latencies_us = array("q")
        self._start_s = start_s
        self.count = self.bytes = 0
        self._max_us = self._total_us = 0
        self._new_window(start_s)

    def _new_window(self, now_s: float) -> None:
        self._window_start_s = now_s
        self._window_count = self._window_bytes = 0
        self._window_max_us = self._window_total_us = 0

    def record(self, latency_us: int, size_bytes: int) -> None:
        if self.count % self._sampling == 0:
            self._latencies_us.append(latency_us)
        self.count += 1
        self.bytes += size_bytes
        self._total_us += latency_us
        self._window_count += 1
        self._window_bytes += size_bytes
        self._window_total_us += latency_us
        if latency_us > self._window_max_us:
            self._window_max_us = latency_us
            self._max_us = max(self._max_us, latency_us)

    def window_line(self, now_s: float) -> str:
        """Returns the report line since the last call, and resets the window."""
        elapsed_s = max(now_s - self._window_start_s, 1e-9)
        count = self._window_count
        line = (
            f"{count} records sent, {count / elapsed_s:.1f} records/sec"
            f" ({self._window_bytes / elapsed_s / _MEGABYTE:.2f} MB/sec),"
            f" {self._window_total_us / 1000 / max(count, 1):.1f} ms avg latency,"
            f" {self._window_max_us / 1000:.1f} ms max latency."
        )
        self._new_window(now_s)
        return line

    def summary(self, now_s: float) -> Summary:
        elapsed_s = max(now_s - self._start_s, 1e-9)
        ordered = sorted(self._latencies_us)
        return Summary(
            self.count,
            self.count / elapsed_s,
            self.bytes / elapsed_s / _MEGABYTE,
            self._total_us / 1000 / max(self.count, 1),
            self._max_us / 1000,
            tuple(percentile(ordered, share) / 1000 for share in PERCENTILES),
        )


class Production:
    """The result of a load: statistics of all records, and of those after the warm-up."""

    def __init__(self, expected: int, warmup: int, clock: Clock) -> None:
        self._expected = expected
        self._warmup = warmup
        self._clock = clock
        self.all = ProducerStatistics(expected, clock.monotonic_s())
        self.steady: ProducerStatistics | None = None
        self.failed = 0
        self.last_error = ""

    def acknowledged(self, latency_us: int, size_bytes: int) -> None:
        self.all.record(latency_us, size_bytes)
        if self._warmup:
            if self.steady is not None:
                self.steady.record(latency_us, size_bytes)
            elif self.all.count == self._warmup:
                self.steady = ProducerStatistics(self._expected, self._clock.monotonic_s())

    def refused(self, reason: str) -> None:
        self.failed += 1
        self.last_error = reason


class ConsumerStatistics:
    """Counts what a consumer has read, and prints it in Kafka's comma-separated columns."""

    HEADER = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"
        " rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
    )
    DETAILED_HEADER = HEADER.replace("start.time, end.time", "time, threadId")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.count = self.bytes = 0
        self._reported_ms = start_ms
        self._reported_count = self._reported_bytes = 0

    def detailed_line(self, now_ms: int, shown_time: str) -> str:
        elapsed_ms = max(now_ms - self._reported_ms, 1)
        megabytes = (self.bytes - self._reported_bytes) / _MEGABYTE * 1000 / elapsed_ms
        records = (self.count - self._reported_count) * 1000 / elapsed_ms
        self._reported_ms = now_ms
        self._reported_count, self._reported_bytes = self.count, self.bytes
        return (
            f"{shown_time}, 0, {self.bytes / _MEGABYTE:.4f}, {megabytes:.4f}, {self.count},"
            f" {records:.4f}, 0, {elapsed_ms}, {megabytes:.4f}, {records:.4f}"
        )

    def final_line(self, end_ms: int, shown_start: str, shown_end: str, join_ms: int) -> str:
        elapsed_s = max(end_ms - self.start_ms, 1) / 1000
        fetch_s = max(end_ms - self.start_ms - join_ms, 1) / 1000
        megabytes = self.bytes / _MEGABYTE
        return (
            f"{shown_start}, {shown_end}, {megabytes:.4f}, {megabytes / elapsed_s:.4f},"
            f" {self.count}, {self.count / elapsed_s:.4f}, {join_ms}, {round(fetch_s * 1000)},"
            f" {megabytes / fetch_s:.4f}, {self.count / fetch_s:.4f}"
        )

    def as_json(self, end_ms: int) -> dict[str, object]:
        elapsed_s = max(end_ms - self.start_ms, 1) / 1000
        megabytes = self.bytes / _MEGABYTE
        return {
            "records": self.count,
            "megabytes": round(megabytes, 4),
            "records_per_second": round(self.count / elapsed_s, 1),
            "megabytes_per_second": round(megabytes / elapsed_s, 4),
            "elapsed_ms": end_ms - self.start_ms,
        }


def java_date(milliseconds: int, pattern: str) -> str:
    """Formats a local time by a Java pattern. Only the fields yyyy MM dd HH mm ss SSS are
    supported."""
    from datetime import datetime

    moment = datetime.fromtimestamp(milliseconds // 1000).astimezone()
    for letters, directive in _DATE_LETTERS:
        pattern = pattern.replace(letters, directive)
    return moment.strftime(pattern).replace("\2", f"{milliseconds % 1000:03d}")


_DATE_LETTERS = (
    ("SSS", "\2"),
    ("yyyy", "%Y"),
    ("MM", "%\1"),
    ("dd", "%d"),
    ("HH", "%H"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("%\1", "%m"),
)
