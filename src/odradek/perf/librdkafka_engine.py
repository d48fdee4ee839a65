"""Bulk load through librdkafka (confluent-kafka): the fast engine of the measuring tools.

librdkafka is optional: only the perf tools use it, and only if it is installed.
"""

import argparse
import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeAlias

from odradek.config.spelling import did_you_mean
from odradek.perf.librdkafka_security import is_security, librdkafka_security
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
)
from odradek.tools.failures import CommandFailed, Unreachable, UsageError
from odradek.tools.topic_names import no_such_topic, topic_pattern
from odradek.world import Randomness, SystemClock

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka.admin import ClusterMetadata

    Client: TypeAlias = confluent_kafka.Producer | confluent_kafka.Consumer

# Kafka's client properties that librdkafka has under another name, or not at all.
_RENAMED = {
    "buffer.memory": None,
    "max.block.ms": None,
    "max.request.size": "message.max.bytes",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "delivery.timeout.ms": "message.timeout.ms",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.poll.records": None,
}
_METADATA_TIMEOUT_S = 1.0
_METADATA_ATTEMPTS = 10
_LOOKS = 5
_LOOK_AGAIN_S = 0.2
_CONSUME_AT_ONCE = 10_000
_MAX_QUEUED_KILOBYTES = 1024 * 1024


def librdkafka_settings(properties: dict[str, str]) -> dict[str, object]:
    """Translates Kafka's properties to librdkafka's names."""
    settings = librdkafka_security(properties)
    for name, value in properties.items():
        renamed = _RENAMED.get(name, name)
        if renamed is not None and not is_security(name):
            settings[renamed] = value
    return settings


@contextmanager
def _settings_explained() -> Iterator[None]:
    """Turns the exception of librdkafka about a setting into one line for the user."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as failure:
        said = str(failure.args[0].str())
        unknown = re.fullmatch(r'No such configuration property: "(.+)"', said)
        if unknown is None:
            raise UsageError(said) from None
        from odradek.client.settings import ConsumerSettings, ProducerSettings

        known = [
            name for kind in (ProducerSettings, ConsumerSettings) for name, *_ in kind.describe()
        ]
        near = did_you_mean(unknown[1], known)
        raise UsageError(f"there is no client setting {unknown[1]}{near}") from None


class _Failures:
    """Errors that librdkafka reports apart from the records, kept so that the tool can print
    them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._fatal: str | None = None
        self.is_interrupted = False

    def note(self, error: "confluent_kafka.KafkaError", fatal: bool = False) -> None:
        # Both mean that no broker can be reached. librdkafka recovers from all other errors by
        # itself.
        if fatal or error.fatal() or error.name() in {"_ALL_BROKERS_DOWN", "_AUTHENTICATION"}:
            self._fatal = str(error.str())

    def check(self) -> None:
        if self.is_interrupted:
            raise KeyboardInterrupt
        if self._fatal is not None:
            raise Unreachable(f"cannot reach a broker at {self.bootstrap}: {self._fatal}")


def produce_load(
    arguments: argparse.Namespace, payloads: list[bytes], properties: dict[str, str]
) -> int:
    from confluent_kafka import Producer

    clock = SystemClock()
    load = Production(arguments.num_records, arguments.warmup_records, clock)

    def delivered(
        error: "confluent_kafka.KafkaError | None", record: "confluent_kafka.Message"
    ) -> None:
        if error is None:
            load.acknowledged(int(record.latency() * 1_000_000), len(record))
        else:
            load.refused(error.str())

    failures = _Failures(properties["bootstrap.servers"])
    settings = librdkafka_settings(properties)
    settings.setdefault("queue.buffering.max.messages", 1_000_000)
    settings |= {"on_delivery": delivered, "error_cb": failures.note}
    with _settings_explained():
        producer = Producer(settings, logger=_silent())
    _require_topic(producer, arguments.topic, failures)
    load.all = ProducerStatistics(arguments.num_records, clock.monotonic_s())
    with _interrupted_between_polls(failures):
        _send_all(producer, load, arguments, payloads, failures)
    return report_production(arguments, load, clock.monotonic_s())


def _send_all(
    producer: "confluent_kafka.Producer",
    load: Production,
    arguments: argparse.Namespace,
    payloads: list[bytes],
    failures: _Failures,
) -> None:
    clock = SystemClock()
    randomness = Randomness()
    throttle = Throttle(arguments.throughput, clock.monotonic_s())
    progress = ProductionProgress(load, arguments, clock)
    topic, only = arguments.topic, payloads[0] if len(payloads) == 1 else None
    look_every = throttle.look_every
    for number in range(arguments.num_records):
        payload = only or choose_payload(payloads, number, randomness)
        while True:
            try:
                producer.produce(topic, payload)
                break
            except BufferError:
                producer.poll(0.01)
                failures.check()
        if number % look_every == 0:
            producer.poll(0)
            failures.check()
            now_s = clock.monotonic_s()
            progress.update(number, now_s)
            while (pause_s := throttle.wait_s(number, clock.monotonic_s())) > 0:
                producer.poll(min(pause_s, 0.1))
                failures.check()
    while producer.flush(0.5):
        failures.check()
    progress.clear()


@contextmanager
def _interrupted_between_polls(failures: _Failures) -> Iterator[None]:
    """Surrounds sending; Ctrl-C ends it at the next check of `failures`. Python would raise
    `KeyboardInterrupt` in a callback, where librdkafka's binding loses it: `poll` then fails with a
    SystemError."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        failures.is_interrupted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _require_topic(client: "Client", topic: str, failures: _Failures) -> list[int]:
    """Returns the partitions of a topic; raises `CommandFailed` with one line if there are none.

    It tries a few times, because a broker may just be creating the topic for a producer.
    """
    for _ in range(_LOOKS):
        found = _metadata(client, failures, topic).topics[topic]
        if found.error is None and found.partitions:
            return sorted(found.partitions)
        client.poll(_LOOK_AGAIN_S)
    known = [name for name in _metadata(client, failures).topics if name != topic]
    raise no_such_topic(topic, known, may_create=True)


def _metadata(client: "Client", failures: _Failures, topic: str | None = None) -> "ClusterMetadata":
    from confluent_kafka import KafkaException

    for last_attempt in (*(False,) * (_METADATA_ATTEMPTS - 1), True):
        try:
            return client.list_topics(topic, timeout=_METADATA_TIMEOUT_S)
        except KafkaException as failure:
            if last_attempt:
                failures.note(failure.args[0], fatal=True)
        # Callbacks run inside poll, so this reports at once if no broker can be reached.
        client.poll(0)
        failures.check()
    raise AssertionError("the last attempt returns or fails")


def consume_load(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

    clock = SystemClock()
    settings = librdkafka_settings(properties)
    failures = _Failures(properties["bootstrap.servers"])
    settings |= {"group.id": "perf-consumer", "enable.auto.commit": False}
    settings |= {"error_cb": failures.note}
    settings.setdefault("queued.max.messages.kbytes", _MAX_QUEUED_KILOBYTES)
    settings.setdefault("queued.min.messages", 1_000_000)
    settings.setdefault("socket.receive.buffer.bytes", arguments.socket_buffer_size)
    with _settings_explained():
        consumer = Consumer(settings, logger=_silent())
    try:
        where = OFFSET_END if arguments.from_latest else OFFSET_BEGINNING
        start_ms = clock.now_ms()
        consumer.assign(
            [
                TopicPartition(topic, partition, where)
                for topic in _topics(consumer, arguments, failures)
                for partition in _require_topic(consumer, topic, failures)
            ]
        )
        statistics = ConsumerStatistics(start_ms)
        join_ms = clock.now_ms() - start_ms
        print_consumer_header(arguments)
        last_ms = _consume_all(consumer, statistics, arguments)
    finally:
        consumer.close()
    return report_consumption(arguments, statistics, last_ms, join_ms)


def _topics(
    consumer: "confluent_kafka.Consumer", arguments: argparse.Namespace, failures: _Failures
) -> list[str]:
    known = sorted(_metadata(consumer, failures).topics)
    if arguments.topic is not None:
        if arguments.topic not in known:
            raise no_such_topic(arguments.topic, known)
        return [arguments.topic]
    pattern: re.Pattern[str] = topic_pattern(arguments.include, "--include")
    found = [topic for topic in known if pattern.fullmatch(topic)]
    if not found:
        raise no_such_topic(arguments.include, known)
    return found


def _consume_all(
    consumer: "confluent_kafka.Consumer",
    statistics: ConsumerStatistics,
    arguments: argparse.Namespace,
) -> int:
    """Reads until there are enough records or none has come for too long. Returns the time of the
    last one."""
    clock = SystemClock()
    progress = ConsumptionProgress(statistics, arguments, clock)
    last_ms = clock.now_ms()
    while statistics.count < arguments.num_records:
        records = consumer.consume(
            min(_CONSUME_AT_ONCE, arguments.num_records - statistics.count), 0.1
        )
        now_ms = clock.now_ms()
        for record in records:
            if record.error() is not None:
                raise CommandFailed(record.error().str())
            statistics.bytes += len(record)
        statistics.count += len(records)
        if records:
            last_ms = now_ms
        elif now_ms - last_ms > arguments.timeout:
            break
        progress.update(now_ms)
    progress.clear()
    return last_ms


def _silent() -> logging.Logger:
    """A logger that drops librdkafka's lines; errors that matter come through callbacks."""
    logger = logging.getLogger("odradek.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
