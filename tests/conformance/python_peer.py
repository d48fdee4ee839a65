"""The other end of ``peer.py`` in Python, run by tests with an older version of a client library.

    python python_peer.py confluent|kafka-python

It imports nothing of ours: it runs where only that library is.
"""

import sys
import time
from base64 import b64decode, b64encode
from typing import Any


def to_bytes(word: str) -> bytes | None:
    return None if word == "-" else b64decode(word)


def to_word(data: bytes | None) -> str:
    return "-" if data is None else b64encode(data).decode()


def split_row(line: str) -> tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    timestamp, key, value, *rest = line.split(" ")
    pairs = zip(rest[::2], rest[1::2], strict=True)
    headers = [(b64decode(name).decode(), to_bytes(header)) for name, header in pairs]
    return int(timestamp), to_bytes(key), to_bytes(value), headers


def print_row(timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Any) -> None:
    words = [str(timestamp_ms), to_word(key), to_word(value)]
    for name, header in headers or []:
        words += [to_word(name.encode()), to_word(header)]
    print("row", *words)


class Confluent:
    def produce(
        self, bootstrap: str, topic: str, codec: str, *, idempotent: bool, rows: Any
    ) -> None:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all"}
        producer = Producer({**settings, "enable.idempotence": idempotent, "linger.ms": 5})
        errors: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                errors.append(error)

        for timestamp_ms, key, value, headers in rows:
            producer.produce(
                topic,
                value,
                key,
                0,
                timestamp=timestamp_ms,
                headers=headers,
                on_delivery=delivered,
            )
        if producer.flush(10) or errors:
            raise RuntimeError(f"not delivered: {errors[:1]}")

    def consume(self, bootstrap: str, topic: str, count: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": bootstrap, "group.id": "no-group"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + 10
        while count > 0 and time.monotonic() < deadline:
            for message in consumer.consume(count, 0.2):
                if message.error():
                    raise RuntimeError(str(message.error()))
                print_row(message.timestamp()[1], message.key(), message.value(), message.headers())
                count -= 1
        consumer.close()


class KafkaPython:
    def produce(
        self, bootstrap: str, topic: str, codec: str, *, idempotent: bool, rows: Any
    ) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            acks="all",
        )
        sent = [
            producer.send(topic, value, key, headers, 0, timestamp_ms)
            for timestamp_ms, key, value, headers in rows
        ]
        for each in sent:
            each.get(10)
        producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> None:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=50)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        deadline = time.monotonic() + 10
        while count > 0 and time.monotonic() < deadline:
            for record in consumer.poll(200).get(partition, []):
                print_row(record.timestamp, record.key, record.value, record.headers)
                count -= 1
        consumer.close()


def main() -> None:
    client = Confluent() if sys.argv[1] == "confluent" else KafkaPython()
    for line in sys.stdin:
        command, bootstrap, topic, *rest = line.split()
        try:
            if command == "produce":
                rows = [split_row(sys.stdin.readline().rstrip("\n")) for _ in range(int(rest[2]))]
                idempotent = rest[1] == "idempotent"
                client.produce(bootstrap, topic, rest[0], idempotent=idempotent, rows=rows)
            else:
                client.consume(bootstrap, topic, int(rest[0]))
            print("done", flush=True)
        except Exception as error:  # noqa: BLE001 - whatever it was, the test must hear of it
            print("error", repr(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
