"""The actions of the console producer and consumer, after their flags are parsed."""

import argparse
import asyncio
import sys
from collections.abc import Iterable
from typing import Protocol

from odradek.cli.records.line_reader import LineReader
from odradek.cli.records.record_formatter import PrintedRecord
from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.accumulator import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import open_admin_beside, require_producible
from odradek.tools.failures import CommandFailed
from odradek.tools.interruption import until_interrupted
from odradek.tools.producing import producer_settings
from odradek.tools.reading import asked_partitions, start_reading
from odradek.tools.terminal import Progress, flush_out, input_is_terminal, input_lines, write_out
from odradek.tools.topic_names import topic_pattern
from odradek.wording import counted
from odradek.world import SystemClock

_POLL_MS = 500


class Deliveries:
    """Counts acknowledged and failed records, and keeps the first error for the user."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.first_error: BaseException | None = None

    def note(self, _: RecordMetadata | None, error: BaseException | None) -> None:
        if error is None:
            self.acknowledged += 1
            return
        self.failed += 1
        self.first_error = self.first_error or error


async def produce_lines(
    topic: str, reader: LineReader, properties: dict[str, str], *, sync: bool
) -> int:
    settings = producer_settings(properties)
    async with open_admin_beside(properties) as admin:
        await require_producible(admin, topic)
    deliveries = Deliveries()
    clock = SystemClock()
    progress = Progress("records sent") if not input_is_terminal() else None
    sent = 0
    async with Producer(settings) as producer:
        async for lines in input_lines(prompt=b">"):
            for line in lines:
                record = reader.read(line)
                delivery = await producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=record.headers,
                    on_delivery=deliveries.note,
                )
                if sync:
                    await asyncio.wait([delivery])
            sent += len(lines)
            if deliveries.first_error is not None:
                break
            if progress is not None:
                progress.update(sent, clock.monotonic_s())
        await producer.flush()
    if progress is not None:
        progress.clear()
    if deliveries.first_error is not None:
        raise CommandFailed(
            f"{counted(deliveries.failed, 'record was', 'records were')} not taken, of {sent}:"
            f" {deliveries.first_error}"
        )
    return 0


class Formatter(Protocol):
    def format(self, record: PrintedRecord) -> bytes: ...


async def print_records(
    arguments: argparse.Namespace,
    formatter: Formatter,
    offset: int,
    properties: dict[str, str],
) -> int:
    settings = ConsumerSettings.from_properties(properties)
    async with open_admin_beside(properties) as admin:
        partitions = await _partitions(admin, arguments)
    printer = RecordPrinter(formatter, skip_errors=arguments.skip_message_on_error)
    async with Consumer(settings) as consumer:
        if settings.group_id is None:
            start_reading(consumer, partitions, offset)
        elif arguments.topic is not None:
            consumer.subscribe([arguments.topic])
        else:
            consumer.subscribe(pattern=topic_pattern(arguments.include))
        try:
            return await until_interrupted(_print_all(consumer, printer, arguments))
        finally:
            print(f"Processed a total of {printer.printed} messages", file=sys.stderr)


async def _partitions(admin: Admin, arguments: argparse.Namespace) -> list[TopicPartition]:
    found = await asked_partitions(admin, arguments.topic, arguments.include)
    if arguments.partition is None:
        return found
    chosen = [partition for partition in found if partition.partition == arguments.partition]
    if not chosen:
        raise CommandFailed(
            f"topic {arguments.topic!r} has no partition {arguments.partition};"
            f" it has 0 to {len(found) - 1}"
        )
    return chosen


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
    while limit is None or printer.printed < limit:
        left = None if limit is None else limit - printer.printed
        max_records = min(consumer.settings.max_poll_records, left) if left else None
        taken = await consumer.poll(arguments.timeout_ms or _POLL_MS, max_records)
        if not taken and arguments.timeout_ms is not None:
            return
        printer.print(record for records in taken.values() for record in records)
