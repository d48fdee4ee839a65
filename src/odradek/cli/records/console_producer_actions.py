"""The action of the console producer, after its flags are parsed."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from odradek.cli.records.line_reader import LineReader
from odradek.client.admin.topics import TopicCalls
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.tools.admin_session import open_admin_beside, require_producible
from odradek.tools.failures import CommandFailed
from odradek.tools.producing import producer_settings, report_failures_here
from odradek.tools.standard_input import input_is_terminal, input_lines
from odradek.tools.terminal import Progress
from odradek.wording import counted
from odradek.world import SystemClock

# How long records may still take after Ctrl-C.
_CLOSE_AFTER_INTERRUPT_MS = 2_000


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
    topic: str,
    reader: LineReader,
    properties: dict[str, str],
    *,
    sync: bool,
    serializers: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    settings = replace(producer_settings(properties), **serializers)
    report_failures_here()
    async with open_admin_beside(TopicCalls, properties) as admin:
        await require_producible(admin, topic)
    sending = _Sending(Producer(settings), topic, reader, is_sync=sync)
    try:
        await sending.send_all()
    except asyncio.CancelledError:
        # Ctrl-C: a person does not wait for delivery.timeout.ms while no broker answers.
        await sending.producer.close(timeout_ms=_CLOSE_AFTER_INTERRUPT_MS)
        if (lost := sending.sent - sending.deliveries.acknowledged) > 0:
            lines = counted(lost, "line was", "lines were")
            print(f"odradek console-producer: {lines} not sent", file=sys.stderr)
        raise
    finally:
        await sending.producer.close()
    sending.raise_failure()
    return 0


class _Sending:
    """The lines of standard input on their way to a topic."""

    def __init__(self, producer: Producer, topic: str, reader: LineReader, *, is_sync: bool):
        self.producer = producer
        self.deliveries = Deliveries()
        self.sent = 0
        self._topic = topic
        self._reader = reader
        self._is_sync = is_sync
        self._unreadable: CommandFailed | None = None

    async def send_all(self) -> None:
        clock = SystemClock()
        progress = Progress("records sent") if not input_is_terminal() else None
        async for lines in input_lines(prompt=b">"):
            await self._send(lines)
            if self.deliveries.first_error is not None or self._unreadable is not None:
                break
            if progress is not None:
                progress.update(self.sent, clock.monotonic_s())
        await self.producer.flush()
        if progress is not None:
            progress.clear()

    async def _send(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                record = self._reader.read(line)
            except CommandFailed as error:
                self._unreadable = error
                return
            self.sent += 1
            delivery = await self.producer.send(
                self._topic,
                record.value,
                record.key,
                headers=record.headers,
                on_delivery=self.deliveries.note,
            )
            if self._is_sync:
                await asyncio.wait([delivery])

    def raise_failure(self) -> None:
        """Raises `CommandFailed` if a line could not be read, or its record was not taken."""
        deliveries = self.deliveries
        if deliveries.first_error is not None:
            raise CommandFailed(
                f"{counted(deliveries.failed, 'record was', 'records were')} not taken, of"
                f" {self.sent}: {deliveries.first_error}"
            )
        if self._unreadable is not None:
            before = counted(self.sent, "line before it was", "lines before it were")
            raise CommandFailed(
                f"{self._unreadable}; {before} sent" if self.sent else str(self._unreadable)
            )
