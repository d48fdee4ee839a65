"""The actions of `odradek archive` and `odradek restore`, after their flags are parsed."""

import argparse
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from odradek.cli.spark.archive import source_options
from odradek.cli.spark.restore import sink_options
from odradek.client.errors import NoBrokerAvailable
from odradek.spark.options import SinkOptions
from odradek.spark.preflight import (
    check_archive,
    check_archived_topic,
    check_directory,
    check_source,
    closing_clients,
)
from odradek.spark.prerequisites import require_spark
from odradek.spark.reachability import in_words_of_commands, require_reachable
from odradek.spark.spark_settings import check_common_spelling, check_master
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import Progress, print_json, table
from odradek.wording import counted
from odradek.world.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.spark.archive import ArchiveWriter
    from odradek.spark.archive.entries import State

_clock = SystemClock()
# Enough memory for two tasks that sort; --spark-property can give more on a larger machine.
_DRIVER_MEMORY: Final = "768m"


@contextmanager
def spark_session(arguments: argparse.Namespace, name: str) -> "Iterator[SparkSession]":
    """Yields a Spark session that ends with the command. Its errors become one line."""
    from odradek.spark.spark_session import session, stop

    config = {"spark.driver.memory": _DRIVER_MEMORY, **dict(arguments.spark_property)}
    spark = session(name, master=arguments.master, config=config)
    try:
        if not os.environ.get("ODRADEK_DEBUG"):
            spark.sparkContext.setLogLevel("OFF")
        yield spark
    except _refusals() as error:
        raise CommandFailed(str(error)) from error
    except KeyboardInterrupt:
        print("interrupted; the same command again goes on where this one was", file=sys.stderr)
        raise
    finally:
        stop(spark)


@contextmanager
def _advice_of_commands() -> Iterator[None]:
    """Leaves the advice for queries out: the command knows the flag of the address."""
    try:
        yield
    except NoBrokerAvailable as error:
        raise in_words_of_commands(error) from None


def _refusals() -> tuple[type[Exception], ...]:
    """Returns the exceptions whose message is written for users."""
    from odradek.spark import archive

    return (
        archive.ArchiveBroken,
        archive.DamagedArchive,
        archive.DataLoss,
        archive.FilesystemFailed,
        archive.NoArchive,
        archive.RestoreFailed,
        archive.TakenOver,
    )


class _Bar:
    """Progress towards a total that is known when work begins."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._progress is None:
            self._progress = Progress(self._noun, total)
        self._progress.update(done, _clock.monotonic_s())

    def clear(self) -> None:
        if self._progress is not None:
            self._progress.clear()
        self._progress = None


# Archive


def work_on_archive(arguments: argparse.Namespace) -> int:
    is_reading_only = arguments.list or arguments.check
    require_spark()
    check_master(arguments.master)
    check_common_spelling(dict(arguments.spark_property))
    with closing_clients(), _advice_of_commands():
        must_exist = is_reading_only or arguments.merge
        check_directory("--to", arguments.to, must_exist=must_exist)
        if must_exist:
            check_archive("--to", arguments.to)
        if arguments.topic or arguments.include:
            check_source(source_options(arguments), is_streaming=False)
    with spark_session(arguments, "odradek archive") as spark:
        from odradek.spark.archive import Archive

        archive = Archive(spark, arguments.to)
        if arguments.list:
            return _show(archive.state(), as_json=arguments.json)
        if arguments.check:
            state = archive.check()
            rows = sum(file.rows for file in state.files.values())
            return _say(
                arguments,
                {"records": rows, "files": len(state.files), "gaps": len(state.gaps)},
                f"{_records(rows)} in {_files(len(state.files))}, each exactly once{_gaps(state)}",
            )
        with archive.writer() as writer:
            if arguments.merge:
                fewer = _merge(writer, arguments)
                return _say(arguments, {"fewer_files": fewer}, f"{_files(fewer)} fewer")
            return _append(writer, arguments)


def _append(writer: "ArchiveWriter", arguments: argparse.Namespace) -> int:
    from odradek.spark.archive import Reading

    reading = Reading(
        source_options(arguments),
        chunk_records=arguments.max_records,
        allow_data_loss=arguments.allow_data_loss,
        codec=arguments.compression_type,
    )
    pause = threading.Event()
    while True:
        began_s = _clock.monotonic_s()
        bar = _Bar("offsets")
        try:
            appended = writer.append(reading, bar)
        finally:
            bar.clear()
        fewer = 0 if arguments.no_merge or not appended.records else _merge(writer, arguments)
        took_s = _clock.monotonic_s() - began_s
        if appended.records or not arguments.follow:
            _say(
                arguments,
                {
                    "records": appended.records,
                    "files": appended.files,
                    "fewer_files": fewer,
                    "seconds": round(took_s, 3),
                },
                f"archived {_records(appended.records)} in {_files(appended.files)}"
                + (f", {fewer:,} fewer after merging" if fewer else "")
                + f", {took_s:.1f} s",
            )
        if not arguments.follow:
            return 0
        pause.wait(arguments.interval_ms / 1000)


def _merge(writer: "ArchiveWriter", arguments: argparse.Namespace) -> int:
    bar = _Bar("records merged")
    try:
        return writer.merge_small_files(
            arguments.file_size, codec=arguments.compression_type, on_progress=bar
        )
    finally:
        bar.clear()


def _say(arguments: argparse.Namespace, value: dict[str, object], text: str) -> int:
    if arguments.json:
        print_json(value)
    else:
        print(text, flush=True)
    return 0


def _show(state: "State", *, as_json: bool) -> int:
    rows = []
    for topic in state.topics:
        for topic_partition, next_offset in sorted(state.offsets.items()):
            if topic_partition.topic != topic:
                continue
            files = [
                file
                for file in state.files_of(topic)
                if file.partition == topic_partition.partition
            ]
            hours = sorted(f"{file.date} {file.hour}h" for file in files)
            rows.append(
                {
                    "topic": topic,
                    "partition": topic_partition.partition,
                    "records": sum(file.rows for file in files),
                    "bytes": sum(file.size_bytes for file in files),
                    "files": len(files),
                    "next_offset": next_offset,
                    "first_hour": hours[0] if hours else None,
                    "last_hour": hours[-1] if hours else None,
                }
            )
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        headers = [name.upper().replace("_", " ") for name in rows[0]]
        print(table(headers, [[_cell(value) for value in row.values()] for row in rows]))
    for gap in state.gaps:
        hint(
            f"offsets {gap.first_offset} to {gap.end_offset - 1} of {gap.topic} [{gap.partition}]"
            " were deleted before they were archived"
        )
    return 0


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


# Restore


def restore_topic(arguments: argparse.Namespace) -> int:
    require_spark()
    check_master(arguments.master)
    check_common_spelling(dict(arguments.spark_property))
    with closing_clients(), _advice_of_commands():
        check_directory("--from", arguments.directory, must_exist=True)
        check_archive("--from", arguments.directory)
        check_archived_topic("--from", arguments.directory, arguments.topic)
        require_reachable(
            SinkOptions.read(sink_options(arguments), is_streaming=False).admin_settings()
        )
    with spark_session(arguments, "odradek restore") as spark:
        from odradek.spark.archive import Archive, Restoring, restore

        restoring = Restoring(
            arguments.topic,
            sink_options(arguments),
            to_topic=arguments.to_topic,
            since_ms=arguments.since,
            until_ms=arguments.until,
            name=arguments.restore_id,
            transaction_records=arguments.max_records,
            topic_configs=dict(arguments.config),
        )
        began_s = _clock.monotonic_s()
        bar = _Bar("records")
        try:
            restored = restore(Archive(spark, arguments.directory), restoring, bar)
        finally:
            bar.clear()
        took_s = _clock.monotonic_s() - began_s
        if restored.was_begun and not restored.records:
            hint(
                "this restore was done before: --restore-id NAME writes everything once more,"
                " or delete the topic first"
            )
        return _say(
            arguments,
            {
                "records": restored.records,
                "was_begun": restored.was_begun,
                "group": restored.group,
                "seconds": round(took_s, 3),
            },
            f"restored {_records(restored.records)} to {restoring.target}"
            + (", after what was there already" if restored.was_begun else "")
            + f", {took_s:.1f} s",
        )


def _records(count: int) -> str:
    return counted(count, "record", spec=",")


def _files(count: int) -> str:
    return counted(count, "file", spec=",")


def _gaps(state: "State") -> str:
    return f"; {counted(len(state.gaps), 'gap is', 'gaps are')} on record" if state.gaps else ""
