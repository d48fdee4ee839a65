"""What encryption at rest costs: an encrypted topic beside a plain one of the same broker.

    python -m benchmarks.encryption [--records 2000000] [--rounds 3] [--layouts]

The two topics take turns, so that other work on the machine matters to both. Load comes from
librdkafka. The ratio is that of the median rates; the goal is 0.7. CPU is that of the broker.

`--layouts` compares ways to lay out an encrypted file, without a broker: fixed frames of several
sizes, as they are written batch by batch, with frames of one batch each.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from unittest.mock import patch

from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from benchmarks import librdkafka
from benchmarks.broker_process import BrokerProcess, odradek_broker
from odradek.security.keys.key_file import KeyFile
from odradek.storage.encryption import encrypted_file, layout
from odradek.storage.encryption.data_keys import DataKey, DataKeys
from odradek.storage.encryption.encrypting_disk import EncryptingDisk
from odradek.world import OsDisk, Randomness, World
from odradek.world.disk import File

PARTITIONS: Final = 6
READ_BYTES: Final = 256 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layouts", action="store_true")
    arguments = parser.parse_args()
    if arguments.layouts:
        compare_layouts()
        return
    for record_bytes, records in ((100, arguments.records), (1000, arguments.records // 5)):
        compare_topics(record_bytes, records, arguments.rounds)


# The whole broker


def compare_topics(record_bytes: int, records: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        key_file = f"{directory}/keys.json"
        KeyFile(key_file, World()).create("topics")
        overrides = {
            "odradek.key.provider": "file",
            "odradek.key.file": key_file,
            "num.partitions": str(PARTITIONS),
        }
        with odradek_broker(Path(directory) / "data", overrides) as broker:
            rates: dict[tuple[str, str], list[tuple[float, float]]] = {}
            for turn in range(rounds):
                for kind in ("plain", "encrypted"):
                    topic = f"{kind}-{turn}"
                    create_topic(broker, topic, "topics" if kind == "encrypted" else "")
                    for what, work in (("produce", produce), ("consume", consume)):
                        before = broker.usage().cpu_s
                        seconds = work(broker.bootstrap, topic, records, record_bytes)
                        cpu_s = broker.usage().cpu_s - before
                        rates.setdefault((what, kind), []).append(
                            (records / seconds, cpu_s / records * 1e6)
                        )
    print(f"{records} records of {record_bytes} bytes, {rounds} rounds")
    for what in ("produce", "consume"):
        figures = {}
        for kind in ("plain", "encrypted"):
            found = rates[what, kind]
            figures[kind] = (
                statistics.median(rate for rate, _ in found),
                statistics.median(cpu for _, cpu in found),
            )
            rate, cpu = figures[kind]
            print(f"  {what} {kind:<10}{rate:>12,.0f} records/s {cpu:>7.2f} µs CPU a record")
        ratio = figures["encrypted"][0] / figures["plain"][0]
        print(f"  {what} encrypted / plain: {ratio:.2f}")


def create_topic(broker: BrokerProcess, topic: str, key: str) -> None:
    config = {"odradek.encryption.key": key} if key else {}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)


def produce(bootstrap: str, topic: str, records: int, record_bytes: int) -> float:
    return librdkafka.produce(
        bootstrap, topic, records, record_bytes, partitions=PARTITIONS, acks="1"
    )


def consume(bootstrap: str, topic: str, records: int, record_bytes: int) -> float:
    return librdkafka.consume(bootstrap, topic, records, partitions=PARTITIONS)


# Layouts


def compare_layouts() -> None:
    print(f"{'layout':<26}{'batch':>8}{'write MB/s':>12}{'read MB/s':>12}{'more bytes':>12}")
    for batch_bytes in (120, 1000, 16_000, 200_000):
        batches = [os.urandom(batch_bytes)] * max(1, min(40_000, 64_000_000 // batch_bytes))
        show("plain file", batch_bytes, batches, plain_write, plain_read)
        show("a frame for each batch", batch_bytes, batches, batch_write, batch_read)
        for frame_bytes in (4096, 16_384, 65_536):
            with (
                patch.object(layout, "FRAME_BYTES", frame_bytes),
                patch.object(encrypted_file, "FRAME_BYTES", frame_bytes),
                patch.object(layout, "SEALED_FRAME_BYTES", frame_bytes + 16),
                patch.object(encrypted_file, "SEALED_FRAME_BYTES", frame_bytes + 16),
            ):
                name = f"frames of {frame_bytes} bytes"
                show(name, batch_bytes, batches, frames_write, frames_read)


def show(
    name: str,
    batch_bytes: int,
    batches: list[bytes],
    write: Callable[[str, list[bytes]], None],
    read: Callable[[str, int], None],
) -> None:
    size = batch_bytes * len(batches)
    with tempfile.TemporaryDirectory() as root:
        directory = f"{root}/orders-0"
        os.mkdir(directory)
        path = f"{directory}/{0:020d}.log"
        written = timed(lambda: write(path, batches))
        reading = timed(lambda: read(path, batch_bytes))
        more = os.stat(path).st_blocks * 512 / size - 1
    print(
        f"{name:<26}{batch_bytes:>8}{size / written / 1e6:>12.0f}{size / reading / 1e6:>12.0f}"
        f"{more:>11.1%}"
    )


def timed(work: Callable[[], None]) -> float:
    """Seconds of processor time, the best of three."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def plain_write(path: str, batches: list[bytes]) -> None:
    append(OsDisk().open(path, create=True), batches)


def plain_read(path: str, batch_bytes: int) -> None:
    read_through(OsDisk().open(path))


def keys_for(path: str) -> DataKeys:
    keys = DataKeys(Randomness())
    keys.assign(os.path.dirname(path), "key")
    keys.add_ready([DataKey("key", b"wrapped", bytes(32))])
    return keys


def frames_write(path: str, batches: list[bytes]) -> None:
    file = EncryptingDisk(OsDisk(), keys_for(path)).open(path, create=True)
    file.truncate(0)
    append(file, batches)


def frames_read(path: str, batch_bytes: int) -> None:
    disk = EncryptingDisk(OsDisk(), keys_for(path), reads_unsealed=True)
    read_through(disk.open(path))


def append(file: File, batches: list[bytes]) -> None:
    position = 0
    for batch in batches:
        file.write_at(position, [batch])
        position += len(batch)
    file.close()


def read_through(file: File) -> None:
    position = 0
    while data := file.read_at(position, READ_BYTES):
        position += len(data)
    file.close()


def batch_write(path: str, batches: list[bytes]) -> None:
    aead, file, position = AESGCM(bytes(32)), OsDisk().open(path, create=True), 0
    for number, batch in enumerate(batches):
        sealed = aead.encrypt(number.to_bytes(12, "big"), batch, path.encode())
        file.write_at(position, [sealed])
        position += len(sealed)
    file.close()


def batch_read(path: str, batch_bytes: int) -> None:
    aead, file, number, size = AESGCM(bytes(32)), OsDisk().open(path), 0, batch_bytes + 16
    while data := file.read_at(number * size, max(READ_BYTES // size, 1) * size):
        parts = []
        for start in range(0, len(data), size):
            nonce = number.to_bytes(12, "big")
            parts.append(aead.decrypt(nonce, data[start : start + size], path.encode()))
            number += 1
        b"".join(parts)
    file.close()


if __name__ == "__main__":
    main()
