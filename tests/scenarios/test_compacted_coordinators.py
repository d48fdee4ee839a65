"""Groups and transactions remember what they should when their own topics are compacted.

A consumer commits again and again and a producer ends one transaction after the other, until
`__consumer_offsets` and `__transaction_state` have been compacted; then the broker is killed.
"""

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess, free_ports, ready_odradek
from odradek.world import OsDisk
from tests.log_verification import verify_log

PATIENCE_S = 60.0
QUIET = {"log_level": 0}
OVERRIDES = {
    "offsets.topic.segment.bytes": "20000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.segment.bytes": "3000",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.3",
    "log.segment.delete.delay.ms": "0",
}
TOPIC = "work"
INTERNAL = ("__consumer_offsets-0", "__transaction_state-0")


def compacted_up_to(data: Path, name: str) -> int:
    try:
        lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return 0
    offsets = {"{}-{}".format(*line.split()[:2]): int(line.split()[2]) for line in lines}
    return offsets.get(name, 0)


def started(directory: Path, port: int) -> BrokerProcess:
    return ready_odradek(directory, OVERRIDES, port=port)


def commit(broker: BrokerProcess, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "workers", **QUIET})
    for number in range(offset - 99, offset + 1):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, number)], asynchronous=False)
    consumer.close()


def committed(broker: BrokerProcess) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "workers", **QUIET})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_S)
    consumer.close()
    return int(found.offset)


def test_coordinators_outlive_compaction_and_a_kill(tmp_path: Path) -> None:
    port, data = free_ports(1)[0], tmp_path / "data"
    broker = started(tmp_path, port)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "steady", **QUIET}
        )
        producer.init_transactions(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        written = offset = 0
        while not all(compacted_up_to(data, name) for name in INTERNAL):
            assert time.monotonic() < deadline, broker.said()
            offset += 100
            commit(broker, offset)
            for _ in range(10):
                producer.begin_transaction()
                producer.produce(TOPIC, b"%d" % written)
                producer.commit_transaction(PATIENCE_S)
                written += 1
        broker.kill()
        broker = started(tmp_path, port)
        assert committed(broker) == offset
        # The same producer, the same epoch: the coordinator knows it.
        producer.begin_transaction()
        producer.produce(TOPIC, b"%d" % written)
        producer.commit_transaction(PATIENCE_S)
        assert broker.stop() == 0, broker.said()
        for name in INTERNAL:
            assert verify_log(OsDisk(), str(data / name), deep=True).problems == []
    finally:
        broker.kill()
