"""The scenarios of groups and transactions, each a function from a broker to figures.

As in ``scenarios``: every function makes its own topics and groups, checks that the broker did what
was asked, and knows nothing of which broker it measures.
"""

import time
import uuid
from statistics import median

from confluent_kafka import Consumer, TopicPartition

from benchmarks import librdkafka, wire
from benchmarks.broker_process import BrokerProcess
from benchmarks.figures import Figures
from benchmarks.scenarios import Effort, fresh_topic, pipelined_requests

PATIENCE_S = 60.0
ABORTED_EVERY = 5
# librdkafka takes up to 0.1 s to connect, which would hide the duration of a join.
CONNECTING_S = 0.2


def _consumer(broker: BrokerProcess, group: str, **settings: str | int) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": "false",
            "log_level": 3,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def commits(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures commits of one partition: one after the other, and many in flight."""
    group = f"benchmark-{uuid.uuid4().hex[:8]}"
    count = effort.requests // 10
    with fresh_topic(broker) as topic:
        committer = _consumer(broker, group)
        for _ in range(count // 10):  # finds the coordinator, and the warm-up
            committer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        started = time.perf_counter()
        for offset in range(count):
            committer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        alone_s = time.perf_counter() - started
        _check_committed(committer, topic, count - 1)
        frame = wire.commit_frame(group, topic, 7)
        connection = wire.WireConnection(broker.port)
        connection.send(frame)
        if error := wire.commit_error(connection.receive()):
            raise RuntimeError(f"a commit was answered with error {error}")
        connection.close()
        pipelined_requests(broker, frame, effort.requests // 10, connections=4, depth=32)
        before = broker.usage().cpu_s
        many_s = pipelined_requests(broker, frame, effort.requests, connections=4, depth=32)
        cpu = broker.usage().cpu_s - before
        _check_committed(committer, topic, 7)
        committer.close()
    return {
        "commits, one consumer, each waited for": count / alone_s,
        "commits, 4 connections, 32 under way each": effort.requests / many_s,
        "CPU for a million commits": cpu / effort.requests * 1e6,
    }


def _check_committed(consumer: Consumer, topic: str, offset: int) -> None:
    found = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)[0].offset
    if found != offset:
        raise RuntimeError(f"{offset} was committed, {found} is there")


def joins(broker: BrokerProcess, effort: Effort, *, protocol: str) -> Figures:
    """Measures the time in a new group from subscribing until every member has partitions and every
    partition has one owner."""
    figures: dict[str, float] = {}
    for count in (1, 10):
        with fresh_topic(broker, 10) as topic:
            _join(broker, topic, count, protocol)  # the first finds code and caches cold
            times_s = [_join(broker, topic, count, protocol) for _ in range(effort.joins)]
        figures[f"join of {count}, {protocol} protocol"] = median(times_s) * 1000
    return figures


def _join(broker: BrokerProcess, topic: str, count: int, protocol: str) -> float:
    group = f"benchmark-{uuid.uuid4().hex[:8]}"
    strategy = {"group_protocol": protocol}
    if protocol == "classic":
        strategy["partition_assignment_strategy"] = "cooperative-sticky"
    members = [_consumer(broker, group, **strategy) for _ in range(count)]
    for member in members:  # finds its coordinator, and whom to ask for metadata
        member.committed([TopicPartition(topic, 0)], PATIENCE_S)
        member.list_topics(topic, PATIENCE_S)
    time.sleep(CONNECTING_S)
    started = time.perf_counter()
    for member in members:
        member.subscribe([topic])
    while not _is_settled(members, 10):
        if time.perf_counter() - started > PATIENCE_S:
            raise RuntimeError(f"{count} consumers did not settle in {PATIENCE_S:.0f} s")
    elapsed = time.perf_counter() - started
    for member in members:
        member.close()
    return elapsed


def _is_settled(members: list[Consumer], partitions: int) -> bool:
    for member in members:
        member.poll(0.001)
    owned = [[part.partition for part in member.assignment()] for member in members]
    return all(owned) and sorted(one for part in owned for one in part) == list(range(partitions))


def transactions(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures one producer that makes one transaction after the other."""
    figures: dict[str, float] = {}
    for records_each in (1, 100):
        with fresh_topic(broker) as topic:
            count = effort.transactions
            librdkafka.produce_transactions(broker.bootstrap, topic, count // 10, records_each)
        with fresh_topic(broker) as topic:
            before = broker.usage().cpu_s
            elapsed = librdkafka.produce_transactions(broker.bootstrap, topic, count, records_each)
            cpu = broker.usage().cpu_s - before
        what = f"{records_each} record{'s' * (records_each > 1)} each"
        figures[f"transactions, {what}"] = count / elapsed
        figures[f"CPU for a million transactions, {what}"] = cpu / count * 1e6
    return figures


def read_committed(broker: BrokerProcess, effort: Effort) -> Figures:
    """Measures reading transactions of 1,000 records, of which every fifth is aborted, with one
    librdkafka client."""
    count = effort.throughput_bytes // 100 // 1000
    committed = (count - count // ABORTED_EVERY) * 1000
    with fresh_topic(broker) as topic:
        librdkafka.produce_transactions(
            broker.bootstrap, topic, count, 1000, aborted_every=ABORTED_EVERY
        )
        before = broker.usage().cpu_s
        elapsed = librdkafka.consume(broker.bootstrap, topic, committed, partitions=1)
        cpu = broker.usage().cpu_s - before
    return {
        "consume read_committed, 100 B, a fifth aborted": committed / elapsed,
        "CPU to consume read_committed, 100 B": cpu / committed * 1e6,
    }
