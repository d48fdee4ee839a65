"""Measures how long `odradek up --secure --brokers 3` takes to its first authenticated record.

    python -m tests.scenarios.secure_start

The record is sent by librdkafka with the file that `up` has written, with acks=all, to a topic that
does not exist before.
"""

import tempfile
import time

from confluent_kafka import Producer

from odradek.config.properties import parse_properties
from odradek.testing import Cluster


def first_record(data: str, topic: str) -> tuple[float, float]:
    """Returns after how many seconds the brokers were ready, and the record acknowledged."""
    begun_s = time.monotonic()
    with Cluster(brokers=3, secure=True, data=data):
        ready_s = time.monotonic() - begun_s
        with open(f"{data}/librdkafka.properties", encoding="utf-8") as file:
            producer = Producer({**parse_properties(file.read()), "log_level": 0})
        failed: list[object] = []
        producer.produce(topic, b"first", on_delivery=lambda error, _: failed.append(error))
        if producer.flush(30) or failed != [None]:
            raise SystemExit(f"the record was not acknowledged: {failed}")
        return ready_s, time.monotonic() - begun_s


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for start in ("first", "second", "third"):
            ready_s, record_s = first_record(f"{directory}/data", f"{start}-topic")
            print(
                f"{start} start: ready after {ready_s:.2f} s, first record after {record_s:.2f} s"
            )


if __name__ == "__main__":
    main()
