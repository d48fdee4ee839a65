"""How fast our own client is: records a second and CPU a record, against a running broker.

    python -m benchmarks.micro_client --bootstrap-server localhost:9092
    python -m benchmarks.micro_client --bootstrap-server localhost:9092 --profile produce

CPU figures are those of the client alone. Rates depend on the broker too, which shares the machine.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
import uuid
from collections.abc import Awaitable, Callable

import uvloop

from odradek.client import Admin, Connection, Consumer, Producer, TopicPartition
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

Measure = Callable[[argparse.Namespace, str], Awaitable[int]]


async def produce(options: argparse.Namespace, topic: str) -> int:
    """Values without keys, batched as the producer's defaults say."""
    value = bytes(options.record_bytes)
    settings = {"bootstrap_servers": options.bootstrap_server}
    if options.compression != "none":
        settings["compression_type"] = options.compression
    async with Producer(**settings) as producer:
        send = producer.send
        for _ in range(options.records):
            await send(topic, value)
        await producer.flush()
    return int(options.records)


async def produce_keyed(options: argparse.Namespace, topic: str) -> int:
    """Values with a thousand different keys and one header."""
    value, keys = bytes(options.record_bytes), [b"key-%d" % number for number in range(1000)]
    async with Producer(bootstrap_servers=options.bootstrap_server) as producer:
        for number in range(options.records):
            await producer.send(topic, value, keys[number % 1000], headers=[("h", b"v")])
        await producer.flush()
    return int(options.records)


async def consume(options: argparse.Namespace, topic: str) -> int:
    """`poll`, 500 records at a time."""
    count = 0
    settings = {"bootstrap_servers": options.bootstrap_server, "auto_offset_reset": "earliest"}
    async with Consumer(**settings) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(options.partitions)])
        while count < options.records:
            for records in (await consumer.poll(10_000)).values():
                count += len(records)
    return count


async def iterate(options: argparse.Namespace, topic: str) -> int:
    """`async for`, one record at a time."""
    count = 0
    settings = {"bootstrap_servers": options.bootstrap_server, "auto_offset_reset": "earliest"}
    async with Consumer(**settings) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(options.partitions)])
        async for _ in consumer:
            count += 1
            if count == options.records:
                break
    return count


async def one_at_a_time(options: argparse.Namespace, topic: str) -> int:
    """A record a request, each awaited: the latency of a whole round trip."""
    count: int = max(1, options.records // 200)
    async with Producer(bootstrap_servers=options.bootstrap_server, linger_ms=0) as producer:
        for _ in range(count):
            await producer.send_and_wait(topic, b"x")
    return count


async def requests(options: argparse.Namespace, topic: str) -> int:
    """Small requests on one connection, 20 in flight."""
    host, port = options.bootstrap_server.rsplit(":", 1)
    count: int = max(20, options.records // 50)
    connection = await Connection.open(host, int(port))

    async def ask(times: int) -> None:
        for _ in range(times):
            await connection.request(MetadataRequest(topics=[]), MetadataResponse)

    await asyncio.gather(*(ask(count // 20) for _ in range(20)))
    connection.close()
    await connection.wait_closed()
    return count // 20 * 20


MEASURES: dict[str, Measure] = {
    "produce": produce,
    "produce_keyed": produce_keyed,
    "consume": consume,
    "iterate": iterate,
    "one_at_a_time": one_at_a_time,
    "requests": requests,
}


async def measure(options: argparse.Namespace) -> None:
    topic = f"micro-client-{uuid.uuid4().hex[:8]}"
    async with Admin(bootstrap_servers=options.bootstrap_server) as admin:
        await admin.create_topic(topic, options.partitions, 1)
    print(f"{'':16}{'a second':>12}{'µs CPU each':>14}   of {options.record_bytes}-byte records")
    try:
        # A first run that does not count: it opens connections, compiles codecs, and warms up the
        # broker.
        await produce(options, topic)
        for name, work in MEASURES.items():
            if options.only and name not in options.only:
                continue
            best = (0.0, 0.0)
            for _ in range(options.rounds):
                begun_s, cpu_s = time.perf_counter(), time.process_time()
                count = await work(options, topic)
                elapsed_s = time.perf_counter() - begun_s
                each_us = (time.process_time() - cpu_s) / count * 1e6
                best = max(best, (count / elapsed_s, each_us))
            print(f"{name:16}{best[0]:12,.0f}{best[1]:14.2f}")
    finally:
        async with Admin(bootstrap_servers=options.bootstrap_server) as admin:
            await admin.delete_topic(topic)


async def profile(options: argparse.Namespace) -> None:
    topic = f"micro-client-{uuid.uuid4().hex[:8]}"
    async with Admin(bootstrap_servers=options.bootstrap_server) as admin:
        await admin.create_topic(topic, options.partitions, 1)
        await produce(options, topic)
        profiler = cProfile.Profile()
        profiler.enable()
        await MEASURES[options.profile](options, topic)
        profiler.disable()
        await admin.delete_topic(topic)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=MEASURES, help="measure only these")
    parser.add_argument("--profile", choices=MEASURES, help="show where the time of one goes")
    options = parser.parse_args()
    uvloop.run(profile(options) if options.profile else measure(options))


if __name__ == "__main__":
    main()
