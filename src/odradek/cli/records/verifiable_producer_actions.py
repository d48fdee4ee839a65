"""Runs the verifiable producer: it sends numbered records, and prints each result as JSON."""

import argparse
import asyncio
from functools import partial

from odradek.cli.records.verifiable_events import Events
from odradek.client.admin.topics import TopicCalls
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.perf.throughput import Throttle
from odradek.tools.admin_session import open_admin_beside, require_producible
from odradek.tools.interruption import until_interrupted
from odradek.tools.producing import producer_settings, report_failures_here


class VerifiableProducer:
    def __init__(self, arguments: argparse.Namespace, events: Events) -> None:
        self._topic = arguments.topic
        self._max_messages = arguments.max_messages
        self._prefix = arguments.value_prefix
        self._keys = arguments.repeating_keys
        self._created_ms = arguments.message_create_time
        self._events = events
        self.throttle = Throttle(arguments.throughput, events.clock.monotonic_s())
        self.sent = 0
        self.acknowledged = 0

    async def run(self, producer: Producer) -> None:
        clock = self._events.clock
        start_ms = clock.now_ms()
        while self._max_messages < 0 or self.sent < self._max_messages:
            number = self.sent
            self.sent += 1
            value = str(number) if self._prefix is None else f"{self._prefix}.{number}"
            key = None if self._keys is None else str(number % self._keys)
            timestamp_ms = None
            if self._created_ms >= 0:
                timestamp_ms = self._created_ms + clock.now_ms() - start_ms
            await producer.send(
                self._topic,
                value.encode(),
                None if key is None else key.encode(),
                timestamp_ms=timestamp_ms,
                on_delivery=partial(self._delivered, key, value),
            )
            pause_s = self.throttle.wait_s(self.sent, clock.monotonic_s())
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    def _delivered(
        self,
        key: str | None,
        value: str,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        if metadata is None:
            self._events.emit(
                "producer_send_error",
                key=key,
                value=value,
                topic=self._topic,
                exception=type(error).__name__,
                message=str(error),
            )
            return
        self.acknowledged += 1
        self._events.emit(
            "producer_send_success",
            key=key,
            value=value,
            offset=metadata.offset,
            topic=metadata.topic,
            partition=metadata.partition,
        )


async def produce(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    settings = producer_settings(properties)
    report_failures_here()
    async with open_admin_beside(TopicCalls, properties) as admin:
        await require_producible(admin, arguments.topic)
    events = Events()
    start_s = events.clock.monotonic_s()
    work = VerifiableProducer(arguments, events)
    async with Producer(settings) as producer:
        events.emit("startup_complete")
        code = await until_interrupted(work.run(producer))
    events.emit("shutdown_complete")
    elapsed_s = max(events.clock.monotonic_s() - start_s, 1e-9)
    events.emit(
        "tool_data",
        sent=work.sent,
        acked=work.acknowledged,
        target_throughput=arguments.throughput,
        avg_throughput=work.acknowledged / elapsed_s,
    )
    return code
