"""The action of the console producer, after its flags are parsed."""

import asyncio

from odradek.cli.records.line_reader import LineReader
from odradek.client.admin.topics import TopicCalls
from odradek.client.producer.accumulator import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.tools.admin_session import open_admin_beside, require_producible
from odradek.tools.failures import CommandFailed
from odradek.tools.producing import producer_settings, report_failures_here
from odradek.tools.standard_input import input_is_terminal, input_lines
from odradek.tools.terminal import Progress
from odradek.wording import counted
from odradek.world import SystemClock


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
    report_failures_here()
    async with open_admin_beside(TopicCalls, properties) as admin:
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
