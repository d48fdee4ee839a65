"""What one client does in a benchmark of clients, in a process of its own.

`benchmarks.clients` starts it: `python -m benchmarks.client_work CLIENT WORK TOPIC --bootstrap ...`
prints one line of JSON. Each client is used as its documentation shows it, with the same settings:
acks=all, idempotence, the same linger and batch size, no compression, one group with automatic
commits. CPU is user and system time of this process, from making the client to closing it; imports
are not counted.

The work of `reply` is the other side of `ask`: it answers each record of TOPIC with a record to the
topic of replies until it is ended.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

GATHERED_RECORDS: Final = 1_000
POLLED_RECORDS: Final = 500
BATCH_BYTES: Final = 16_384
# Requests that are not measured: connections are opened and code is loaded meanwhile.
WARM_UP_PAIRS: Final = 50


@dataclass
class Task:
    """What was asked for, and the times that it took."""

    bootstrap: str
    topic: str
    replies: str
    count: int
    value: bytes
    linger_ms: int
    group: str
    durations_s: list[float] = field(default_factory=list)

    def time_pair(self, began_s: float) -> None:
        self.durations_s.append(time.perf_counter() - began_s)


Work = Callable[[Task], Coroutine[Any, Any, None] | None]


def odradek_work() -> dict[str, Work]:
    from odradek.client import Consumer, Producer, TopicPartition

    def producer(task: Task) -> Producer:
        return Producer(
            bootstrap_servers=task.bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=task.linger_ms,
            batch_size=BATCH_BYTES,
        )

    def consumer(task: Task) -> Consumer:
        return Consumer(
            task.topic,
            bootstrap_servers=task.bootstrap,
            group_id=task.group,
            auto_offset_reset="earliest",
        )

    async def send(task: Task) -> None:
        topic, value = task.topic, task.value
        async with producer(task) as sending:
            for _ in range(task.count):
                await sending.send(topic, value)
            await sending.flush()

    async def send_gather(task: Task) -> None:
        topic, value = task.topic, task.value
        async with producer(task) as sending:
            for begin in range(0, task.count, GATHERED_RECORDS):
                futures = [
                    await sending.send(topic, value)
                    for _ in range(min(GATHERED_RECORDS, task.count - begin))
                ]
                await asyncio.gather(*futures)

    async def iterate(task: Task) -> None:
        count = 0
        async with consumer(task) as reading:
            async for record in reading:
                count += record.value is not None
                if count == task.count:
                    break

    async def poll(task: Task) -> None:
        count = 0
        async with consumer(task) as reading:
            while count < task.count:
                for records in (await reading.poll(1_000, POLLED_RECORDS)).values():
                    for record in records:
                        count += record.value is not None

    async def ask(task: Task) -> None:
        async with (
            producer(task) as sending,
            Consumer(bootstrap_servers=task.bootstrap, auto_offset_reset="latest") as reading,
        ):
            reading.assign([TopicPartition(task.replies, 0)])
            await reading.position(TopicPartition(task.replies, 0))
            for _ in range(WARM_UP_PAIRS + task.count):
                began_s = time.perf_counter()
                await sending.send(task.topic, task.value)
                await anext(reading)
                task.time_pair(began_s)

    async def reply(task: Task) -> None:
        async with (
            producer(task) as sending,
            Consumer(bootstrap_servers=task.bootstrap, auto_offset_reset="earliest") as reading,
        ):
            reading.assign([TopicPartition(task.topic, 0)])
            async for record in reading:
                await sending.send(task.replies, record.value)

    return {
        "send": send,
        "send+gather": send_gather,
        "iterate": iterate,
        "poll": poll,
        "ask": ask,
        "reply": reply,
    }


def aiokafka_work() -> dict[str, Work]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    def producer(task: Task) -> Any:
        return AIOKafkaProducer(
            bootstrap_servers=task.bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=task.linger_ms,
            max_batch_size=BATCH_BYTES,
        )

    def consumer(task: Task) -> Any:
        return AIOKafkaConsumer(
            task.topic,
            bootstrap_servers=task.bootstrap,
            group_id=task.group,
            auto_offset_reset="earliest",
        )

    async def send(task: Task) -> None:
        topic, value = task.topic, task.value
        async with producer(task) as sending:
            for _ in range(task.count):
                await sending.send(topic, value)
            await sending.flush()

    async def send_gather(task: Task) -> None:
        topic, value = task.topic, task.value
        async with producer(task) as sending:
            for begin in range(0, task.count, GATHERED_RECORDS):
                futures = [
                    await sending.send(topic, value)
                    for _ in range(min(GATHERED_RECORDS, task.count - begin))
                ]
                await asyncio.gather(*futures)

    async def iterate(task: Task) -> None:
        count = 0
        async with consumer(task) as reading:
            async for record in reading:
                count += record.value is not None
                if count == task.count:
                    break

    async def poll(task: Task) -> None:
        count = 0
        async with consumer(task) as reading:
            while count < task.count:
                polled = await reading.getmany(timeout_ms=1_000, max_records=POLLED_RECORDS)
                for records in polled.values():
                    for record in records:
                        count += record.value is not None

    async def ask(task: Task) -> None:
        async with (
            producer(task) as sending,
            AIOKafkaConsumer(
                bootstrap_servers=task.bootstrap, auto_offset_reset="latest"
            ) as reading,
        ):
            reading.assign([TopicPartition(task.replies, 0)])
            await reading.position(TopicPartition(task.replies, 0))
            for _ in range(WARM_UP_PAIRS + task.count):
                began_s = time.perf_counter()
                await sending.send(task.topic, task.value)
                await anext(reading)
                task.time_pair(began_s)

    async def reply(task: Task) -> None:
        async with (
            producer(task) as sending,
            AIOKafkaConsumer(
                bootstrap_servers=task.bootstrap, auto_offset_reset="earliest"
            ) as reading,
        ):
            reading.assign([TopicPartition(task.topic, 0)])
            async for record in reading:
                await sending.send(task.replies, record.value)

    return {
        "send": send,
        "send+gather": send_gather,
        "iterate": iterate,
        "poll": poll,
        "ask": ask,
        "reply": reply,
    }


def confluent_work() -> dict[str, Work]:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

    def producer(task: Task) -> Producer:
        return Producer(
            {
                "bootstrap.servers": task.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": task.linger_ms,
                "batch.size": BATCH_BYTES,
            }
        )

    def consumer(task: Task) -> Consumer:
        reading = Consumer(
            {
                "bootstrap.servers": task.bootstrap,
                "group.id": task.group,
                "auto.offset.reset": "earliest",
            }
        )
        reading.subscribe([task.topic])
        return reading

    def produce_all(sending: Producer, task: Task, count: int) -> None:
        topic, value = task.topic, task.value
        delivered = 0

        def on_delivery(error: object, _: object) -> None:
            nonlocal delivered
            if error is not None:
                raise RuntimeError(str(error))
            delivered += 1

        for _ in range(count):
            try:
                sending.produce(topic, value, on_delivery=on_delivery)
            except BufferError:
                sending.poll(0.1)
                sending.produce(topic, value, on_delivery=on_delivery)
            sending.poll(0)
        sending.flush()
        if delivered != count:
            raise RuntimeError(f"{delivered} of {count} records were delivered")

    def send(task: Task) -> None:
        produce_all(producer(task), task, task.count)

    def send_gather(task: Task) -> None:
        sending = producer(task)
        for begin in range(0, task.count, GATHERED_RECORDS):
            produce_all(sending, task, min(GATHERED_RECORDS, task.count - begin))

    def iterate(task: Task) -> None:
        count = 0
        reading = consumer(task)
        while count < task.count:
            message = reading.poll(1.0)
            if message is not None and message.error() is None:
                count += message.value() is not None
        reading.close()

    def poll(task: Task) -> None:
        count = 0
        reading = consumer(task)
        while count < task.count:
            for message in reading.consume(POLLED_RECORDS, 1.0):
                if message.error() is None:
                    count += message.value() is not None
        reading.close()

    def assigned(task: Task, topic: str, offset: int) -> Consumer:
        reading = Consumer({"bootstrap.servers": task.bootstrap, "group.id": task.group})
        reading.assign([TopicPartition(topic, 0, offset)])
        return reading

    def ask(task: Task) -> None:
        sending, reading = producer(task), assigned(task, task.replies, OFFSET_END)
        # The position must be known before the first request; nothing is there to be read.
        reading.get_watermark_offsets(TopicPartition(task.replies, 0))
        reading.poll(1.0)
        for _ in range(WARM_UP_PAIRS + task.count):
            began_s = time.perf_counter()
            sending.produce(task.topic, task.value)
            sending.poll(0)
            while reading.poll(1.0) is None:
                sending.poll(0)
            task.time_pair(began_s)
        sending.flush()
        reading.close()

    def reply(task: Task) -> None:
        sending, reading = producer(task), assigned(task, task.topic, OFFSET_BEGINNING)
        while True:
            message = reading.poll(1.0)
            if message is not None and message.error() is None:
                sending.produce(task.replies, message.value())
            sending.poll(0)

    return {
        "send": send,
        "send+gather": send_gather,
        "iterate": iterate,
        "poll": poll,
        "ask": ask,
        "reply": reply,
    }


CLIENTS: Final[dict[str, Callable[[], dict[str, Work]]]] = {
    "odradek": odradek_work,
    "aiokafka": aiokafka_work,
    "confluent": confluent_work,
}
WORKS: Final = ("send", "send+gather", "iterate", "poll", "ask", "reply")


def run(work: Work, task: Task, loop: str) -> None:
    """Does the work: in an event loop if it is a coroutine."""
    coroutine = work(task)
    if coroutine is None:
        return
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(coroutine)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("topic")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--replies", default="")
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument("--group", default="benchmark")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--profile", help="write a profile of cProfile to this file")
    asked = parser.parse_args()
    work = CLIENTS[asked.client]()[asked.work]
    task = Task(
        asked.bootstrap,
        asked.topic,
        asked.replies,
        asked.records,
        b"x" * asked.record_bytes,
        asked.linger_ms,
        asked.group,
    )
    before_mb = peak_mb()
    began_s, cpu_s = time.perf_counter(), time.process_time()
    if asked.profile:
        import cProfile

        profiler = cProfile.Profile()
        profiler.runcall(run, work, task, asked.loop)
        profiler.dump_stats(asked.profile)
    else:
        run(work, task, asked.loop)
    figures = {
        "seconds": time.perf_counter() - began_s,
        "cpu_s": time.process_time() - cpu_s,
        "imported_mb": before_mb,
        "peak_mb": peak_mb(),
        "durations_s": task.durations_s[WARM_UP_PAIRS:],
    }
    json.dump(figures, sys.stdout)
    print()


if __name__ == "__main__":
    main()
