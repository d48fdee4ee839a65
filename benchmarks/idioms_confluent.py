"""How confluent-kafka is used in the benchmark of clients."""

import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.client_task import (
    BATCH_BYTES,
    GATHERED_RECORDS,
    POLLED_RECORDS,
    WARM_UP_PAIRS,
    Task,
    Work,
)


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
        while True:
            try:
                sending.produce(topic, value, on_delivery=on_delivery)
                break
            except BufferError:  # its queue is full: deliveries make room
                sending.poll(0.1)
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


WORKS: Final[dict[str, Work]] = {
    "send": send,
    "send+gather": send_gather,
    "iterate": iterate,
    "poll": poll,
    "ask": ask,
    "reply": reply,
}
