"""The demo's bad moment: kills the leader of a partition while records are written to it.

    python scripts/failover.py BOOTSTRAP DATA

DATA is the directory of `odradek up --brokers 3`. Prints how long nothing could be written, then
reads everything back. Ends with 1 if a record that was acknowledged is missing, is there twice
or is out of order.
"""
# ruff: noqa: T201 - it is for people

import asyncio
import logging
import os
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.admin.admin import Admin

TOPIC = "payments"
BEFORE_S = 0.7
AFTER_S = 1.0


async def leader_of(admin: Admin) -> int:
    topic = (await admin.describe_topics([TOPIC]))[TOPIC]
    if isinstance(topic, Exception):
        raise topic
    return int(topic.partitions[0].leader)


async def write_until(producer: Producer, stop: asyncio.Event) -> list[float]:
    """Sends 0, 1, 2, ... each after the one before was acknowledged; when each was."""
    acknowledged: list[float] = []
    while not stop.is_set():
        await producer.send_and_wait(TOPIC, str(len(acknowledged)).encode(), partition=0)
        acknowledged.append(time.monotonic())
    return acknowledged


def longest_pause_s(acknowledged: list[float], killed_at: float) -> float | None:
    """Returns the longest time without an acknowledgement after the kill, or None if there was no
    further one. The first one after it may still be an answer of the broker that died."""
    moments = [killed_at, *(moment for moment in acknowledged if moment > killed_at)]
    return max((later - earlier for earlier, later in pairwise(moments)), default=None)


async def read_all(bootstrap: str) -> list[int]:
    partition = TopicPartition(TOPIC, 0)
    found: list[int] = []
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.poll(timeout_ms=1000)).values():
                found += [int(record.value or b"-1") for record in records]
    return found


async def main(bootstrap: str, data: Path) -> int:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        print(f"records are written to topic {TOPIC}, one after the other, with acks=all")
        async with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
            stop = asyncio.Event()
            writing = asyncio.create_task(write_until(producer, stop))
            await asyncio.sleep(BEFORE_S)
            leader = await leader_of(admin)
            pid = int((data / f"broker-{leader}" / "broker.pid").read_text())
            print(f"broker {leader} leads; kill -9 {pid}")
            os.kill(pid, signal.SIGKILL)
            killed_at = time.monotonic()
            await asyncio.sleep(AFTER_S)
            stop.set()
            times = await writing
        successor = await leader_of(admin)
    pause_s = longest_pause_s(times, killed_at)
    if pause_s is None or successor == leader:
        print("nobody took over", file=sys.stderr)
        return 1
    print(f"broker {successor} leads; writing paused for {pause_s * 1000:.0f} ms")
    # One more than acknowledged is no fault: its answer may have been lost with the leader.
    found = await read_all(bootstrap)
    print(f"{len(times)} records acknowledged by all in sync, {len(found)} read back", end="")
    if found != list(range(len(found))) or len(found) < len(times):
        print()
        print("records are missing, doubled or out of order", file=sys.stderr)
        return 1
    print(": none lost, none twice, all in order")
    return 0


if __name__ == "__main__":
    # That a broker is gone is what this is about, and no surprise.
    logging.getLogger("odradek").setLevel(logging.ERROR)
    sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]))))
