"""The action of the console consumer, after its flags are parsed."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from odradek.cli.records.record_formatter import Formatter, PrintedRecord
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import open_admin_beside
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.interruption import until_interrupted
from odradek.tools.reading import partitions_to_read, start_reading
from odradek.tools.terminal import flush_out, write_out
from odradek.tools.topic_names import topic_pattern
from odradek.wording import counted

_POLL_MS = 500
_CLOSE_MS = 30_000
_CLOSE_AFTER_INTERRUPT_MS = 2_000
# When a consumer that has found nothing says why.
_SILENT_S = 3.0
_MAX_QUESTION_S = 2.0


class _ConsoleAdmin(TopicCalls, RecordCalls):
    """The admin calls of this tool."""


async def print_records(
    arguments: argparse.Namespace,
    formatter: Formatter,
    offset: int,
    properties: dict[str, str],
    deserializers: Mapping[str, Any],
) -> int:
    settings = replace(ConsumerSettings.from_properties(properties), **deserializers)
    async with open_admin_beside(_ConsoleAdmin, properties) as admin:
        partitions = await _partitions(admin, arguments)
        if offset >= 0 and "auto.offset.reset" not in properties:
            await _require_offset(admin, partitions[0], offset)
    printer = RecordPrinter(formatter, skip_errors=arguments.skip_message_on_error)
    consumer = await Consumer(settings).start()
    is_interrupted = False
    try:
        if settings.group_id is None:
            start_reading(consumer, partitions, offset)
        elif arguments.topic is not None:
            consumer.subscribe([arguments.topic])
        else:
            consumer.subscribe(pattern=topic_pattern(arguments.include))
        try:
            code = await until_interrupted(_print_all(consumer, printer, arguments))
        finally:
            print(f"Processed a total of {printer.printed} messages", file=sys.stderr)
        is_interrupted = code != 0
        return code
    finally:
        # A person who pressed Ctrl-C does not wait for a broker that does not answer.
        timeout_ms = _CLOSE_AFTER_INTERRUPT_MS if is_interrupted else _CLOSE_MS
        await consumer.close(timeout_ms=timeout_ms)


async def _partitions(admin: TopicCalls, arguments: argparse.Namespace) -> list[TopicPartition]:
    partitions = await partitions_to_read(admin, arguments.topic, arguments.include)
    if arguments.partition is None:
        return partitions
    chosen = [partition for partition in partitions if partition.partition == arguments.partition]
    if not chosen:
        raise CommandFailed(
            f"topic {arguments.topic!r} has no partition {arguments.partition};"
            f" it has 0 to {len(partitions) - 1}"
        )
    return chosen


async def _require_offset(admin: RecordCalls, partition: TopicPartition, offset: int) -> None:
    """Raises if the log does not have the offset: the consumer would begin elsewhere."""
    first = (await admin.list_offsets({partition: EARLIEST}))[partition]
    end = (await admin.list_offsets({partition: LATEST}))[partition]
    if isinstance(first, KafkaError) or isinstance(end, KafkaError):
        return  # It has no leader now, and the consumer waits for one.
    if first.offset <= offset <= end.offset:
        return
    extent = f"{first.offset} to {end.offset - 1}" if first.offset < end.offset else "none"
    raise CommandFailed(
        f"{partition} has no offset {offset}: it has {extent}, and the next record gets"
        f" {end.offset}; start at one of them, or with --offset earliest or latest"
    )


class RecordPrinter:
    def __init__(self, formatter: Formatter, *, skip_errors: bool) -> None:
        self._formatter = formatter
        self._skip_errors = skip_errors
        self.printed = 0

    def print(self, records: Iterable[PrintedRecord]) -> None:
        shown = []
        try:
            for record in records:
                self.printed += 1
                try:
                    shown.append(self._formatter.format(record))
                except ValueError as problem:
                    position = f"{record.topic}-{record.partition} at offset {record.offset}"
                    if not self._skip_errors:
                        raise CommandFailed(
                            f"{position}: {problem}; --skip-message-on-error leaves such records"
                            " out"
                        ) from None
                    print(f"left out {position}: {problem}", file=sys.stderr)
        finally:
            write_out(b"".join(shown))
            flush_out()


async def _print_all(
    consumer: Consumer, printer: RecordPrinter, arguments: argparse.Namespace
) -> None:
    limit = arguments.max_messages
    if limit is not None and limit < 0:
        limit = None
    silence = _Silence(consumer, arguments)
    while limit is None or printer.printed < limit:
        left = None if limit is None else limit - printer.printed
        max_records = min(consumer.settings.max_poll_records, left) if left else None
        records_by_partition = await consumer.poll(
            timeout_ms=arguments.timeout_ms or _POLL_MS, max_records=max_records
        )
        if not records_by_partition:
            if not printer.printed:
                await silence.explain(is_over=arguments.timeout_ms is not None)
            if arguments.timeout_ms is not None:
                return
        printer.print(record for records in records_by_partition.values() for record in records)


class _Silence:
    """Says why no record comes, once: a consumer begins at the end, unless it is told otherwise."""

    def __init__(self, consumer: Consumer, arguments: argparse.Namespace) -> None:
        self._consumer = consumer
        self._arguments = arguments
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()
        self._is_explained = False

    async def explain(self, *, is_over: bool) -> None:
        """Prints the hint when it is due. `is_over` says that the command ends now."""
        if self._is_explained or (not is_over and self._loop.time() < self._since_s + _SILENT_S):
            return
        assigned = self._consumer.assignment()
        if not assigned:
            return
        self._is_explained = True
        try:
            async with asyncio.timeout(_MAX_QUESTION_S):
                first = await self._consumer.beginning_offsets(assigned)
                end = await self._consumer.end_offsets(assigned)
                position = {one: await self._consumer.position(one) for one in assigned}
        except (ClientError, KafkaError, TimeoutError):
            return  # The consumer says itself that brokers cannot be reached.
        older = sum(max(0, position[one] - first[one]) for one in assigned)
        if older:
            hint(self._about_older(older, assigned[0].topic))
        elif all(end[one] <= position[one] for one in assigned) and not is_over:
            what = self._arguments.topic or "what is read"
            hint(f"{what} has no records yet; waiting for the first (Ctrl-C ends it)")

    def _about_older(self, older: int, topic: str) -> str:
        what = self._arguments.topic or "what is read"
        there = f"{what} has {counted(older, 'older record')}"
        group = self._consumer.settings.group_id
        if group is None:
            return f"no new records; {there}: --from-beginning shows them"
        return (
            f"no new records for group {group}; {there}. To read them again, stop this, then:"
            f" odradek consumer-groups --reset-offsets --group {shlex.quote(group)} --topic {topic}"
            " --to-earliest --execute"
        )
