"""What schema validation costs: a validated topic beside a plain one of the same broker.

    python -m benchmarks.schema_validation [--records 1000000] [--rounds 3]

The topics take turns, so that other work on the machine matters to all. Load comes from librdkafka,
schemas from a registry of ours in a process of its own. Ratios are those of the median rates; the
goal is 0.5 for the check of the id. CPU is that of the broker; the process that decodes is in it.
"""

import argparse
import io
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fastavro
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import librdkafka
from benchmarks.broker_process import BrokerProcess, free_ports, odradek_broker
from odradek.schemas.registry_client import RegistryClient

PARTITIONS: Final = 6
SCHEMA: Final = (
    '{"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"},'
    ' {"name": "user", "type": "long"}]}'
)
_ID: Final = {"confluent.value.schema.validation": "true"}
TOPICS: Final = {
    "plain": {},
    "id": _ID,
    "content": {**_ID, "odradek.schema.validation.content": "true"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as directory:
        overrides = {"confluent.schema.registry.url": url, "num.partitions": str(PARTITIONS)}
        with (
            odradek_broker(Path(directory) / "data", overrides) as broker,
            registry(Path(directory), broker.bootstrap, url),
        ):
            for lengths, spread in (("equal", 0), ("different", 30)):
                values = framed_values(url, lengths, spread)
                compare(broker, lengths, values, arguments.records, arguments.rounds)


@contextmanager
def registry(directory: Path, bootstrap: str, url: str) -> Iterator[None]:
    """A schema registry, stopped at the end."""
    path = directory / "registry.properties"
    path.write_text(
        f"listeners={url}\nkafkastore.bootstrap.servers={bootstrap}\nodradek.access.log=false\n"
    )
    command = [sys.executable, "-m", "odradek.cli", "schema-registry-start", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not re.search("is ready at", line):
            raise RuntimeError(f"the registry did not start: {line}")
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)


def framed_values(url: str, lengths: str, spread: int) -> list[bytes]:
    """Registers the schema for all topics, and returns values of about 100 bytes."""
    client = RegistryClient(url)
    ids = {client.register(f"{name}-{lengths}-value", "AVRO", SCHEMA) for name in TOPICS}
    (schema_id,) = ids
    schema = fastavro.parse_schema(json.loads(SCHEMA))
    draw = random.Random(1)
    values = []
    for _ in range(500):
        encoded = io.BytesIO()
        page = "x" * (85 + draw.randint(-spread, spread))
        fastavro.schemaless_writer(encoded, schema, {"page": page, "user": 1 << 40})
        values.append(b"\0" + schema_id.to_bytes(4, "big") + encoded.getvalue())
    return values


def compare(
    broker: BrokerProcess, lengths: str, values: list[bytes], records: int, rounds: int
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in TOPICS}
    for turn in range(rounds):
        for name, config in TOPICS.items():
            topic = f"{name}-{lengths}"
            if turn:
                admin.delete_topics([topic])[topic].result(30)
            admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)
            count = records // 10 if name == "content" else records
            before = broker.usage().cpu_s
            seconds = librdkafka.produce(
                broker.bootstrap, topic, count, 0, partitions=PARTITIONS, acks="1", values=values
            )
            cpu_s = broker.usage().cpu_s - before
            found[name].append((count / seconds, cpu_s / count * 1e6))
    print(f"values of {lengths} lengths")
    plain = statistics.median(rate for rate, _ in found["plain"])
    for name, figures in found.items():
        rate = statistics.median(rate for rate, _ in figures)
        cpu = statistics.median(cpu for _, cpu in figures)
        line = f"  {name:<8} {rate:>12,.0f} records/s {rate / plain:>6.2f}x"
        print(f"{line} {cpu:>6.2f} µs CPU a record")


if __name__ == "__main__":
    main()
