"""The measuring tools on Odradek's own client: load in both directions, and latency."""

import argparse
import asyncio
from functools import partial

from odradek.client.admin.topics import TopicCalls
from odradek.client.consumer.consumer import Consumer
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.client.settings import ConsumerSettings
from odradek.perf.report import (
    ConsumptionProgress,
    ProductionProgress,
    print_consumer_header,
    report_consumption,
    report_production,
)
from odradek.perf.throughput import (
    ConsumerStatistics,
    ProducerStatistics,
    Production,
    Throttle,
    choose_payload,
    percentile,
)
from odradek.tools.admin_session import open_admin_beside, require_producible
from odradek.tools.failures import CommandFailed
from odradek.tools.producing import producer_settings, report_failures_here
from odradek.tools.reading import partitions_to_read, start_reading
from odradek.tools.terminal import Progress, print_json
from odradek.world import Randomness, SystemClock
from odradek.world.event_loop import fastest_loop

_POLL_RECORDS = 10_000
_LATENCY_TIMEOUT_MS = 60_000
_REPORT_EVERY = 1000


def produce_load(
    arguments: argparse.Namespace, payloads: list[bytes], properties: dict[str, str]
) -> int:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(_produce_load(arguments, payloads, properties))


async def _produce_load(
    arguments: argparse.Namespace, payloads: list[bytes], properties: dict[str, str]
) -> int:
    settings = producer_settings(properties)
    report_failures_here()
    async with open_admin_beside(TopicCalls, properties) as admin:
        await require_producible(admin, arguments.topic)
    clock = SystemClock()
    load = Production(arguments.num_records, arguments.warmup_records, clock)
    async with Producer(settings) as producer:
        await producer.partitions_for(arguments.topic)
        load.all = ProducerStatistics(arguments.num_records, clock.monotonic_s())
        await _send_all(producer, load, arguments, payloads)
        await producer.flush()
        now_s = clock.monotonic_s()
    return report_production(arguments, load, now_s)


async def _send_all(
    producer: Producer, load: Production, arguments: argparse.Namespace, payloads: list[bytes]
) -> None:
    clock = SystemClock()
    randomness = Randomness()
    throttle = Throttle(arguments.throughput, clock.monotonic_s())
    progress = ProductionProgress(load, arguments, clock)
    look_every = throttle.look_every
    monotonic_s = clock.monotonic_s

    def delivered(
        started_s: float, size_bytes: int, _: RecordMetadata | None, error: BaseException | None
    ) -> None:
        if error is None:
            load.acknowledged(int((monotonic_s() - started_s) * 1_000_000), size_bytes)
        else:
            load.refused(str(error))

    only = payloads[0] if len(payloads) == 1 else None
    for number in range(arguments.num_records):
        payload = only or choose_payload(payloads, number, randomness)
        now_s = monotonic_s()
        await producer.send(
            arguments.topic, payload, on_delivery=partial(delivered, now_s, len(payload))
        )
        if number % look_every == 0:
            progress.update(number, now_s)
            pause_s = throttle.wait_s(number, now_s)
            if pause_s > 0:
                await asyncio.sleep(pause_s)
    progress.clear()


def consume_load(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(_consume_load(arguments, properties))


async def _consume_load(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    clock = SystemClock()
    settings = ConsumerSettings.from_properties(properties)
    start_ms = clock.now_ms()
    async with open_admin_beside(TopicCalls, properties) as admin:
        partitions = await partitions_to_read(admin, arguments.topic, arguments.include)
    async with Consumer(settings) as consumer:
        start_reading(consumer, partitions, LATEST if arguments.from_latest else EARLIEST)
        statistics = ConsumerStatistics(start_ms)
        join_ms = clock.now_ms() - start_ms
        print_consumer_header(arguments)
        end_ms = await _consume_all(consumer, statistics, arguments)
    return report_consumption(arguments, statistics, end_ms, join_ms)


async def _consume_all(
    consumer: Consumer, statistics: ConsumerStatistics, arguments: argparse.Namespace
) -> int:
    """Reads until there are enough records or none has come for too long. Returns the time of the
    last one."""
    clock = SystemClock()
    progress = ConsumptionProgress(statistics, arguments, clock)
    last_ms = clock.now_ms()
    while statistics.count < arguments.num_records:
        max_records = min(_POLL_RECORDS, arguments.num_records - statistics.count)
        taken = await consumer.poll(timeout_ms=arguments.timeout, max_records=max_records)
        if not taken:
            break
        for records in taken.values():
            statistics.count += len(records)
            for record in records:
                statistics.bytes += len(record.key or b"") + len(record.value or b"")
        last_ms = clock.now_ms()
        progress.update(last_ms)
    progress.clear()
    return last_ms


def measure_latency(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(_measure_latency(arguments, properties))


async def _measure_latency(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    sender_settings = producer_settings(
        properties | {"acks": arguments.producer_acks, "linger.ms": "0"}
    )
    consumer_settings = ConsumerSettings.from_properties(properties)
    topic = arguments.topic
    async with open_admin_beside(TopicCalls, properties) as admin:
        if topic not in await admin.list_topics():
            print(f'Topic "{topic}" does not exist. Will create it with 1 partition.')
            await admin.create_topic(topic, 1)
        partitions = await partitions_to_read(admin, topic)
    async with Producer(sender_settings) as producer, Consumer(consumer_settings) as consumer:
        start_reading(consumer, partitions, LATEST)
        for partition in partitions:
            await consumer.position(partition)
        latencies_us = await _round_trips(producer, consumer, arguments)
    latencies_us.sort()
    average_ms = sum(latencies_us) / len(latencies_us) / 1000
    p50, p99, p999 = (percentile(latencies_us, share) / 1000 for share in (0.5, 0.99, 0.999))
    if arguments.json:
        print_json(
            {"records": len(latencies_us), "average_ms": round(average_ms, 4),
             "p50_ms": p50, "p99_ms": p99, "p99.9_ms": p999}
        )  # fmt: skip
    else:
        print(f"Avg latency: {average_ms:.4f} ms")
        print(f"Percentiles: 50th = {p50:.3f}, 99th = {p99:.3f}, 99.9th = {p999:.3f}")
    return 0


async def _round_trips(
    producer: Producer, consumer: Consumer, arguments: argparse.Namespace
) -> list[float]:
    """Sends a record, waits until it is read, and only then sends the next."""
    clock = SystemClock()
    randomness = Randomness()
    progress = Progress("records", arguments.num_records)
    headers = _headers(arguments)
    key = b"k" * arguments.record_key_size or None
    latencies_us: list[float] = []
    for number in range(arguments.num_records):
        value = bytes([65 + randomness.integer_below(26)]) * arguments.record_size
        start_s = clock.monotonic_s()
        delivery = await producer.send(arguments.topic, value, key, headers=headers)
        taken = await consumer.poll(_LATENCY_TIMEOUT_MS)
        elapsed_us = (clock.monotonic_s() - start_s) * 1_000_000
        await delivery
        read = [record for records in taken.values() for record in records]
        if len(read) != 1 or read[0].value != value:
            raise CommandFailed(
                f"expected to read the one record that was sent, but read {len(read)};"
                " use a topic that no other program writes to"
            )
        latencies_us.append(elapsed_us)
        if number % _REPORT_EVERY == 0 and not arguments.json:
            progress.clear()
            print(f"{number}\t{elapsed_us / 1000}", flush=True)
        progress.update(number, clock.monotonic_s())
    progress.clear()
    return latencies_us


def _headers(arguments: argparse.Namespace) -> list[tuple[str, bytes | None]]:
    size = arguments.record_header_size
    value = None if size < 0 else b"h" * size
    return [("n" * arguments.record_header_key_size, value) for _ in range(arguments.num_headers)]
