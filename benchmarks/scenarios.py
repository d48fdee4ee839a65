"""The scenarios, each a function from a running broker to figures.

Every scenario makes its own topics, checks that the broker did what was asked, and knows nothing of
which broker it measures. Sizes come from ``Effort``: quick runs only show that everything works.
"""

import selectors
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks import librdkafka, wire
from benchmarks.apache_kafka import LONG_TOOL_JVM_FLAGS, ApacheKafka
from benchmarks.broker_process import BrokerProcess
from benchmarks.figures import Figures, percentile

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work each scenario does."""

    throughput_bytes: int
    requests: int
    round_trips: int
    slow_s: float
    java_records: int
    joins: int
    transactions: int


FULL = Effort(500 * MEGABYTE, 100_000, 20_000, 5.0, 2_000_000, 10, 2_000)
QUICK = Effort(50 * MEGABYTE, 10_000, 1_000, 1.0, 200_000, 3, 200)


@contextmanager
def fresh_topic(broker: BrokerProcess, partitions: int = 1) -> Iterator[str]:
    name = f"benchmark-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    _wait_for_leaders(admin, name, partitions)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(30)


def _wait_for_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    """Waits until all partitions have a leader: the controller answers before the brokers know, and
    raw requests would fail."""
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    deadline = time.monotonic() + 30
    while True:
        try:
            for future in admin.list_offsets(asked).values():
                future.result(30)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def cpu_of(broker: BrokerProcess, work: Callable[[], float]) -> tuple[float, float]:
    """Returns the seconds that ``work`` reports, and the CPU seconds that the broker used
    meanwhile."""
    before = broker.usage().cpu_s
    elapsed = work()
    return elapsed, broker.usage().cpu_s - before


def throughput(
    broker: BrokerProcess, effort: Effort, *, record_bytes: int, partitions: int, acks: str
) -> Figures:
    """Measures one librdkafka client that writes, then one that reads everything back."""
    count = effort.throughput_bytes // record_bytes
    what = f"{record_bytes} B, {partitions} partition{'s' * (partitions > 1)}"
    with fresh_topic(broker, partitions) as topic:
        elapsed, cpu = cpu_of(
            broker,
            lambda: librdkafka.produce(
                broker.bootstrap, topic, count, record_bytes, partitions=partitions, acks=acks
            ),
        )
        figures = {
            f"produce {what}, acks={acks}": count / elapsed,
            f"CPU to produce {what}, acks={acks}": cpu / count * 1e6,
        }
        if acks == "1":
            elapsed, cpu = cpu_of(
                broker,
                lambda: librdkafka.consume(broker.bootstrap, topic, count, partitions=partitions),
            )
            figures[f"consume {what}"] = count / elapsed
            figures[f"CPU to consume {what}"] = cpu / count * 1e6
    return figures


def java_producer(broker: BrokerProcess, effort: Effort, kafka: ApacheKafka) -> Figures:
    """Apache Kafka's own producer-perf-test."""
    figures: dict[str, float] = {}
    for record_bytes in (100, 1000):
        count = effort.java_records * 100 // record_bytes
        with fresh_topic(broker) as topic:
            arguments = ["--topic", topic, "--num-records", str(count)]
            arguments += ["--record-size", str(record_bytes), "--throughput", "-1"]
            arguments += ["--command-property", f"bootstrap.servers={broker.bootstrap}", "acks=1"]
            before = broker.usage().cpu_s
            output = kafka.run_tool(
                "producer-perf-test", *arguments, timeout_s=300, jvm_flags=LONG_TOOL_JVM_FLAGS
            )
            cpu = broker.usage().cpu_s - before
        summary = [line for line in output.splitlines() if "99.9th" in line][-1]
        figures[f"Java produce {record_bytes} B, 1 partition, acks=1"] = float(
            summary.split("records sent, ")[1].split(" records/sec")[0].replace(",", ".")
        )
        figures[f"CPU for Java to produce {record_bytes} B"] = cpu / count * 1e6
    return figures


def sequential_requests(
    broker: BrokerProcess, topic: str, count: int, *, max_s: float = 1000.0
) -> tuple[float, list[float]]:
    """Sends requests on one connection, each after the previous response. Returns the seconds and
    each round trip."""
    frame = wire.produce_frame(topic, wire.one_record_batch(b"x" * 100, int(time.time() * 1000)))
    connection = wire.WireConnection(broker.port)
    durations = []
    started = previous = time.perf_counter()
    for _ in range(count):
        connection.send(frame)
        answer = connection.receive()
        now = time.perf_counter()
        durations.append(now - previous)
        previous = now
        if wire.produce_error(answer, topic):
            raise RuntimeError(f"produce was answered with {wire.produce_error(answer, topic)}")
        if now - started > max_s:
            break
    connection.close()
    return previous - started, durations


def pipelined_requests(
    broker: BrokerProcess, frame: bytes, count: int, *, connections: int, depth: int
) -> float:
    """Keeps ``depth`` requests in flight on each connection. Returns the seconds until all are
    answered."""
    peers = [wire.WireConnection(broker.port) for _ in range(connections)]
    peers[0].send(frame)
    answer_bytes = 4 + len(peers[0].receive())  # all answers have the same size
    selector = selectors.DefaultSelector()
    share = count // connections
    to_send = dict.fromkeys(peers, share)
    unread_bytes = dict.fromkeys(peers, share * answer_bytes)
    started = time.perf_counter()
    for peer in peers:
        selector.register(peer.socket, selectors.EVENT_READ, peer)
        first = min(depth, share)
        peer.send(frame * first)
        to_send[peer] -= first
    partial = dict.fromkeys(peers, 0)
    # One buffer for all responses: allocating a megabyte for each cost more than the broker's work.
    room = bytearray(1 << 20)
    while unread_bytes:
        for key, _ in selector.select():
            peer = key.data
            received = peer.socket.recv_into(room)
            if not received:
                raise ConnectionError("the broker closed the connection")
            unread_bytes[peer] -= received
            answered, partial[peer] = divmod(partial[peer] + received, answer_bytes)
            following = min(answered, to_send[peer])
            if following:
                peer.send(frame * following)
                to_send[peer] -= following
            if unread_bytes[peer] <= 0:
                del unread_bytes[peer]
                selector.unregister(peer.socket)
    elapsed = time.perf_counter() - started
    for peer in peers:
        peer.close()
    selector.close()
    return elapsed


def one_record_requests(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures requests of one record: one at a time, over several connections, and many in
    flight."""
    count = effort.requests
    figures: dict[str, float] = {}
    with fresh_topic(broker) as topic:
        elapsed, durations = sequential_requests(broker, topic, count // 4)
        figures["one-record requests, 1 connection, 1 under way"] = len(durations) / elapsed
        batch = wire.one_record_batch(b"x" * 100, int(time.time() * 1000))
        frame = wire.produce_frame(topic, batch)
        elapsed = pipelined_requests(broker, frame, count, connections=8, depth=1)
        figures["one-record requests, 8 connections, 1 under way each"] = count / elapsed
        before = broker.usage().cpu_s
        elapsed = pipelined_requests(broker, frame, count, connections=4, depth=32)
        cpu = broker.usage().cpu_s - before
        figures["one-record requests, 4 connections, 32 under way each"] = count / elapsed
        figures["CPU for a million pipelined requests"] = cpu / count * 1e6
    return figures


def librdkafka_latency(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures latency with one producer and one consumer: acks=1, no linger, a record every 2
    ms."""
    with fresh_topic(broker) as topic:
        librdkafka.round_trips(broker.bootstrap, topic, effort.round_trips // 10, 0.0)
    with fresh_topic(broker) as topic:
        durations = librdkafka.round_trips(broker.bootstrap, topic, effort.round_trips, 0.002)
    return _percentiles("end to end, librdkafka", durations)


def wire_latency(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures the same without a client library: a waiting fetch on one connection, a produce on
    another."""
    durations = []
    with fresh_topic(broker) as topic:
        batch = wire.one_record_batch(b"x" * 100, int(time.time() * 1000))
        produce = wire.produce_frame(topic, batch)
        writer, reader = wire.WireConnection(broker.port), wire.WireConnection(broker.port)
        warm_up = effort.round_trips // 10
        for offset in range(warm_up + effort.round_trips):
            reader.send(wire.fetch_frame(topic, offset, wait_ms=10_000, max_bytes=1 << 20))
            time.sleep(0.001)  # the pace, and time for the fetch to wait at the broker
            started = time.perf_counter()
            writer.send(produce)
            answer = reader.receive()
            durations.append(time.perf_counter() - started)
            if wire.produce_error(writer.receive(), topic) or not wire.fetched_bytes(answer, topic):
                raise RuntimeError("a record did not come back")
        writer.close()
        reader.close()
    return _percentiles("end to end, bare protocol", durations[warm_up:])


def _percentiles(name: str, durations: list[float]) -> Figures:
    ranks: Mapping[str, float] = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    return {f"{name}, {rank}": percentile(durations, at) * 1000 for rank, at in ranks.items()}


def slow_connections(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures a fast producer beside 100 connections that do not read responses and 100 that do
    not finish a request."""
    with fresh_topic(broker) as topic, fresh_topic(broker) as fast_topic:
        librdkafka.produce(broker.bootstrap, topic, 100_000, 1000, partitions=1, acks="1")
        sequential_requests(broker, fast_topic, effort.requests // 10)
        before = broker.usage().resident_bytes
        fetch = wire.fetch_frame(topic, 0, wait_ms=100, max_bytes=8 * MEGABYTE)
        batch = wire.one_record_batch(b"x" * 100_000, int(time.time() * 1000))
        half = wire.produce_frame(topic, batch)[:50_000]
        slow = [wire.WireConnection(broker.port, 4096) for _ in range(200)]
        for number, connection in enumerate(slow):
            connection.send(fetch if number % 2 else half)
        elapsed, durations = sequential_requests(
            broker, fast_topic, 10_000_000, max_s=effort.slow_s
        )
        grown = broker.usage().resident_bytes - before
        for connection in slow:
            connection.close()
    return {
        "beside 200 slow connections: one-record requests": len(durations) / elapsed,
        "beside 200 slow connections: p99": percentile(durations, 0.99) * 1000,
        "beside 200 slow connections: longest pause": max(durations) * 1000,
        "beside 200 slow connections: memory they cost": max(0, grown) / MEGABYTE,
    }


def first_acknowledgement(start: Callable[[], BrokerProcess]) -> Figures:
    """Measures the time from starting the process to the first acknowledged record, including the
    creation of its topic."""
    started = time.perf_counter()
    broker = start()
    try:
        frame = wire.produce_frame("first", wire.one_record_batch(b"x", int(time.time() * 1000)))
        while not _acknowledged(broker, frame):
            if broker.process.poll() is not None or time.perf_counter() - started > 60:
                raise RuntimeError(f"{broker.name} did not start; it said:\n{broker.said()}")
            time.sleep(0.002)
        return {"cold start to the first acknowledged record": time.perf_counter() - started}
    finally:
        broker.stop()


def _acknowledged(broker: BrokerProcess, frame: bytes) -> bool:
    try:
        connection = wire.WireConnection(broker.port)
    except OSError:
        return False
    try:
        connection.send(wire.metadata_frame("first"))
        connection.receive()
        connection.send(frame)
        return wire.produce_error(connection.receive(), "first") == 0
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        connection.close()


def memory(broker: BrokerProcess, name: str) -> Figures:
    return {name: broker.usage().resident_bytes / MEGABYTE}
