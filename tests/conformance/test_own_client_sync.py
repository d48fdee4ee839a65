"""The client for programs without asyncio: the same behaviour, waited for."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.broker_process import BrokerProcess
from odradek.client import KafkaError, NewTopic, TopicPartition
from odradek.client.errors import ClientClosed, SettingsError
from odradek.client.sync import Admin, Consumer, Producer
from tests.conformance.topics import create_topic, new_topic_name


def test_produce_and_consume(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    called: list[object] = []
    with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(100)]
        assert [delivery.result(20).offset for delivery in deliveries] == list(range(100))
        producer.send(topic, b"last", on_delivery=lambda *outcome: called.append(outcome))
        producer.flush()
        assert len(called) == 1
        assert producer.partitions_for(topic) == [0]
    with Consumer(bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = []
        for record in consumer:
            found.append(record.value)
            if record.value == b"last":
                break
        assert found == [b"%d" % number for number in range(100)] + [b"last"]
        consumer.seek(TopicPartition(topic, 0), 98)
        (records,) = consumer.poll(timeout_ms=20_000).values()
        assert [record.offset for record in records] == [98, 99, 100]


def test_many_threads_share_a_producer(any_broker: BrokerProcess) -> None:
    topic = create_topic(any_broker)
    with (
        Producer(bootstrap_servers=any_broker.bootstrap) as producer,
        ThreadPoolExecutor(8) as threads,
    ):

        def send(number: int) -> int:
            return producer.send(topic, b"%d" % number).result(20).offset

        assert sorted(threads.map(send, range(200))) == list(range(200))


def test_groups_and_transactions(any_broker: BrokerProcess) -> None:
    topic, name = create_topic(any_broker), new_topic_name()
    told: list[str] = []

    class Listener:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            told.append(f"assigned {len(partitions)}")
            consumer.seek(partitions[0], 1)

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            told.append("revoked")
            consumer.commit()

    with Producer(bootstrap_servers=any_broker.bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"zero")
            producer.send(topic, b"one")
        with pytest.raises(RuntimeError, match="mine"), producer.transaction():
            raise RuntimeError("mine")
    with Consumer(
        bootstrap_servers=any_broker.bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.subscribe([topic], listener=Listener())
        assert next(iter(consumer)).value == b"one"
    assert told == ["assigned 1", "revoked"]
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=any_broker.bootstrap, group_id=name) as consumer:
        # The marker that commits the transaction has an offset too.
        committed = consumer.committed([partition])[partition]
        assert committed is not None
        assert committed.offset in {2, 3}


def test_administer(any_broker: BrokerProcess) -> None:
    name = new_topic_name()
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        assert not isinstance(admin.create_topics([NewTopic(name, 2, 1)])[name], KafkaError)
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topic(name)
        (page,) = admin.describe_topic_partitions([name])
        assert len(page.partitions) == 2
        admin.delete_topic(name)


def test_the_thread_ends_with_the_client(any_broker: BrokerProcess) -> None:
    before = threading.active_count()
    producer = Producer(bootstrap_servers=any_broker.bootstrap)
    assert threading.active_count() == before + 1
    producer.close()
    producer.close()
    assert threading.active_count() == before
    with pytest.raises(ClientClosed):
        producer.send("topic", b"")


def test_wrong_settings_leave_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(SettingsError, match="unknown setting colour"):
        Producer(colour="blue")  # type: ignore[call-arg]
    assert threading.active_count() == before


class Interrupted(Exception):
    pass


def _interrupt_when_waiting(consumer: Consumer) -> threading.Thread:
    """Signals this thread as Ctrl-C does, as soon as the consumer waits for records."""

    def interrupt() -> None:
        deadline_s = time.monotonic() + 20
        while time.monotonic() < deadline_s:
            parts = consumer._client._started
            if parts is not None and parts.fetcher._waiters:
                os.kill(os.getpid(), signal.SIGUSR1)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def _read_until_interrupted(consumer: Consumer, way: str, seen: list[bytes]) -> None:
    """Reads the first record and waits for the next, when the signal comes."""
    interrupting: threading.Thread | None = None
    try:
        while True:
            if way == "iterator":
                seen.append(next(iter(consumer)).value)
            else:
                taken = consumer.poll(20_000)
                seen += [record.value for records in taken.values() for record in records]
            if seen and interrupting is None:
                interrupting = _interrupt_when_waiting(consumer)
    finally:
        assert interrupting is not None
        interrupting.join()


@pytest.mark.parametrize("way", ["poll", "iterator"])
def test_records_that_come_after_a_signal_are_neither_swallowed_nor_committed(
    any_broker: BrokerProcess, way: str
) -> None:
    topic, group = create_topic(any_broker), new_topic_name()
    bootstrap = any_broker.bootstrap

    def on_signal(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, on_signal)
    options = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    seen: list[bytes] = []
    try:
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"0").result(20)
            with Consumer(options) as consumer:
                consumer.subscribe([topic])
                with pytest.raises(Interrupted):
                    _read_until_interrupted(consumer, way, seen)
                # The program cleans up, and records come meanwhile.
                producer.send(topic, b"1").result(20)
            with Admin(bootstrap_servers=bootstrap) as admin:
                (committed,) = admin.list_group_offsets(group).values()
            assert not isinstance(committed, KafkaError)
            assert committed.offset == 1
        with Consumer(options) as consumer:
            consumer.subscribe([topic])
            seen.append(next(iter(consumer)).value)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [b"0", b"1"]
