"""The lines of the perf tools, the same whichever client does the work: while it works, and at the
end."""

import argparse
import sys

from odradek.perf.throughput import ConsumerStatistics, Production, java_date
from odradek.tools.terminal import Progress, print_json
from odradek.wording import counted
from odradek.world import SystemClock


class ProductionProgress:
    """Shows how many records were sent, and Kafka's line once in an interval."""

    def __init__(self, load: Production, arguments: argparse.Namespace, clock: SystemClock) -> None:
        self._load = load
        self._interval_s = arguments.reporting_interval / 1000
        self._next_s = clock.monotonic_s() + self._interval_s
        self._progress = Progress("records sent", arguments.num_records)
        self.clear = self._progress.clear

    def update(self, number: int, now_s: float) -> None:
        self._progress.update(number, now_s)
        if now_s >= self._next_s:
            self._progress.clear()
            print(self._load.all.window_line(now_s), flush=True)
            self._next_s = now_s + self._interval_s


class ConsumptionProgress:
    """Shows how many records were read, and with `--show-detailed-stats` Kafka's line once in an
    interval."""

    def __init__(
        self, statistics: ConsumerStatistics, arguments: argparse.Namespace, clock: SystemClock
    ) -> None:
        self._statistics = statistics
        self._arguments = arguments
        self._clock = clock
        self._reported_ms = clock.now_ms()
        self._progress = Progress("records read", arguments.num_records)
        self.clear = self._progress.clear

    def update(self, now_ms: int) -> None:
        self._progress.update(self._statistics.count, self._clock.monotonic_s())
        arguments = self._arguments
        if not arguments.show_detailed_stats:
            return
        if now_ms - self._reported_ms >= arguments.reporting_interval:
            self._reported_ms = now_ms
            self._progress.clear()
            shown = java_date(now_ms, arguments.date_format)
            print(self._statistics.detailed_line(now_ms, shown), flush=True)


def report_production(arguments: argparse.Namespace, load: Production, now_s: float) -> int:
    if arguments.json:
        report: dict[str, object] = dict(load.all.summary(now_s).as_json())
        if load.steady is not None:
            report["steady_state"] = load.steady.summary(now_s).as_json()
        print_json(report | {"failed": load.failed})
    else:
        print(load.all.summary(now_s).line())
        if load.steady is not None:
            line = load.steady.summary(now_s).line()
            print(line.replace("records sent", "steady state records sent"))
    if load.failed:
        print(
            f"{counted(load.failed, 'record')} failed, the last one: {load.last_error}",
            file=sys.stderr,
        )
    return 1 if load.failed else 0


def print_consumer_header(arguments: argparse.Namespace) -> None:
    if not (arguments.hide_header or arguments.json):
        detailed = arguments.show_detailed_stats
        print(ConsumerStatistics.DETAILED_HEADER if detailed else ConsumerStatistics.HEADER)


def report_consumption(
    arguments: argparse.Namespace, statistics: ConsumerStatistics, end_ms: int, join_ms: int
) -> int:
    if arguments.json:
        print_json(statistics.as_json(end_ms))
    elif not arguments.show_detailed_stats:
        start = java_date(statistics.start_ms, arguments.date_format)
        end = java_date(end_ms, arguments.date_format)
        print(statistics.final_line(end_ms, start, end, join_ms))
    if statistics.count < arguments.num_records:
        print(
            f"only {statistics.count} of {counted(arguments.num_records, 'record')} came within"
            f" {arguments.timeout} ms of each other; --timeout waits longer",
            file=sys.stderr,
        )
    return 0
