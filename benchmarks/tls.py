"""TLS beside Apache Kafka, in one run: records, handshakes, round trips.

    python -m benchmarks.tls [--records 500000] [--rounds 3]

Both brokers run at the same time with the same certificate (an elliptic curve) and take turns, so
that other work on the machine matters to both. Load comes from librdkafka; handshakes from the TLS
of Python, four at a time, each on a new connection without resumption. Only ratios are printed:
above 1, Odradek is faster, also for the p99, or needs less CPU for a record.
"""

import argparse
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import librdkafka
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess, free_ports, start_odradek, wait_until_ready
from odradek.security.certificates import LOCAL_HOSTS, CertificateDirectory
from odradek.world import OsDisk, SystemClock

_PARTITIONS: Final = 6
_SIZES: Final = (100, 1000)
_HANDSHAKES: Final = 400
_THREADS: Final = 4
_ROUND_TRIPS: Final = 400
_INTERVAL_S: Final = 0.005


class Rival:
    """A broker with a TLS listener, and what was measured of it."""

    def __init__(self, process: BrokerProcess, tls_port: int) -> None:
        self.process = process
        self.tls_port = tls_port
        self.figures: dict[str, list[float]] = {}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    def note(self, what: str, value: float) -> None:
        self.figures.setdefault(what, []).append(value)


@contextmanager
def rivals(directory: Path, keystore: str) -> Iterator[dict[str, Rival]]:
    tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
    inside, first, second, kafka_port, controller = free_ports(5)
    own = start_odradek(
        directory / "odradek",
        {"listeners": f"PLAINTEXT://127.0.0.1:{inside},SSL://127.0.0.1:{first}", **tls},
        port=inside,
    )
    try:
        wait_until_ready(own)
        home = ApacheKafka.install()
        node = home.prepare(
            directory / "kafka",
            {
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": (
                    f"PLAINTEXT://127.0.0.1:{kafka_port},SSL://127.0.0.1:{second},"
                    f"CONTROLLER://127.0.0.1:{controller}"
                ),
                "advertised.listeners": (
                    f"PLAINTEXT://127.0.0.1:{kafka_port},SSL://127.0.0.1:{second}"
                ),
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
                ),
                **tls,
            },
        )
        kafka = node.start()
        kafka.port = kafka_port
        try:
            wait_until_ready(kafka)
            yield {"odradek": Rival(own, first), "kafka": Rival(kafka, second)}
        finally:
            kafka.stop()
    finally:
        own.stop()


def make_topic(address: str, topic: str, partitions: int, tls: dict[str, object]) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0, **tls})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def handshakes_a_second(port: int, authority: str) -> float:
    context = ssl.create_default_context(cafile=authority)

    def shake(_: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            pass

    began = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(shake, range(_HANDSHAKES)))
    return _HANDSHAKES / (time.perf_counter() - began)


def measure(rival: Rival, number: int, records: int, tls: dict[str, object]) -> None:
    """One round of everything, against one broker."""
    for size in _SIZES:
        count = records * 100 // size if size > 100 else records
        topic = f"tls-{size}-{number}"
        make_topic(rival.address, topic, _PARTITIONS, tls)
        cpu = rival.process.usage().cpu_s
        took = librdkafka.produce(
            rival.address, topic, count, size, partitions=_PARTITIONS, acks="1"
        )
        rival.note(f"produce {size} B", count / took)
        rival.note(f"CPU of producing {size} B", count / (rival.process.usage().cpu_s - cpu))
        cpu = rival.process.usage().cpu_s
        took = librdkafka.consume(rival.address, topic, count, partitions=_PARTITIONS)
        rival.note(f"consume {size} B", count / took)
        rival.note(f"CPU of consuming {size} B", count / (rival.process.usage().cpu_s - cpu))
    rival.note("handshakes", handshakes_a_second(rival.tls_port, str(tls["ssl.ca.location"])))
    topic = f"pace-{number}"
    make_topic(rival.address, topic, 1, tls)
    trips = sorted(librdkafka.round_trips(rival.address, topic, _ROUND_TRIPS, _INTERVAL_S))
    rival.note("round trip p50", 1 / trips[len(trips) // 2])
    rival.note("round trip p99", 1 / trips[int(len(trips) * 0.99)])


def ratios(found: dict[str, Rival]) -> Iterator[tuple[str, float]]:
    median: Callable[[list[float]], float] = statistics.median
    for what, own in found["odradek"].figures.items():
        yield what, median(own) / median(found["kafka"].figures[what])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tls", description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        certificates = CertificateDirectory(OsDisk(), SystemClock(), str(directory / "certs"))
        certificates.create_authority()
        keystore = certificates.create("broker", LOCAL_HOSTS, 30)
        tls: dict[str, object] = {
            "security.protocol": "ssl",
            "ssl.ca.location": certificates.authority_path,
        }
        with rivals(directory, keystore) as found, librdkafka.secured(tls):
            # The first round warms up Java's compiler, and is not counted.
            for number in range(arguments.rounds + 1):
                for rival in found.values():
                    if number == 1:
                        rival.figures.clear()
                    measure(rival, number, arguments.records, tls)
            for what, ratio in ratios(found):
                print(f"{what:<24} {ratio:.2f}x")


if __name__ == "__main__":
    main()
