"""The final lines of the perf tools, the same whichever client did the work."""

import argparse
import sys

from odradek.perf.throughput import ConsumerStatistics, Production, java_date
from odradek.tools.terminal import print_json
from odradek.wording import counted


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
