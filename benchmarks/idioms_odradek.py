"""How our own client is used in the benchmark of clients."""

import asyncio
import time
from typing import Final

from benchmarks.client_task import (
    BATCH_BYTES,
    GATHERED_RECORDS,
    POLLED_RECORDS,
    WARM_UP_PAIRS,
    Task,
    Work,
)
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


WORKS: Final[dict[str, Work]] = {
    "send": send,
    "send+gather": send_gather,
    "iterate": iterate,
    "poll": poll,
    "ask": ask,
    "reply": reply,
}
