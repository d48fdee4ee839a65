"""What the management port costs: memory, throughput, latency, and the time of a scrape.

    python -m benchmarks.metrics_cost [--rounds 5] [--records 1000000] [--partitions 3000] [--quick]
    python -m benchmarks.metrics_cost --processor [--bursts 100]

Brokers with and without the port take turns, because a machine is not equally fast all the time;
the figures are medians of the rounds. Throughput is that of one librdkafka producer of records of
100 bytes. The latency is that of one-record requests over one connection, while the broker with the
port is scraped once a second. The processor time of a request is that of the broker's process for
one-record requests, dozens under way; two brokers are asked by turns, so it can be compared on a
busy machine too, alone with `--processor`. At the end a broker with many partitions is
scraped. Its longest stall is the longest answer time of a small request meanwhile.
"""

import argparse
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_process import BrokerProcess, free_ports, odradek_broker
from benchmarks.wire import WireConnection, metadata_frame, one_record_batch, produce_frame

SETTING: Final = "management.listener"
SETTLING_S: Final = 2.0
SCRAPES: Final = 5
HALF_WINDOW: Final = 32
BURST: Final = 1024
WARM_UP: Final = 5
TOPIC: Final = "measured"

Figures = dict[str, list[float]]


def listener(is_on: bool) -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}" if is_on else ""


@contextmanager
def broker(directory: Path, url: str) -> Iterator[BrokerProcess]:
    with odradek_broker(directory, {SETTING: url}) as running:
        yield running


def scrape(url: str) -> tuple[float, int]:
    """Returns how long a scrape takes, in seconds, and the size of its text."""
    begun_s = time.perf_counter()
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as response:
        size = len(response.read())
    return time.perf_counter() - begun_s, size


def throughput(running: BrokerProcess, records: int) -> float:
    """Returns records a second until the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
            "log_level": 0,
        }
    )
    value = b"x" * 100
    begun_s = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, value)
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 10_000:
            producer.poll(0)
    producer.flush()
    return records / (time.perf_counter() - begun_s)


def latency_ms(running: BrokerProcess, requests: int, url: str) -> float:
    """Returns the 99th percentile of one-record requests, one under way."""
    frame = produce_frame(TOPIC, one_record_batch(b"x" * 100, 1_700_000_000_000))
    stop = threading.Event()

    def scrape_each_second() -> None:
        while not stop.wait(1.0):
            scrape(url)

    scraping = threading.Thread(target=scrape_each_second, daemon=True)
    if url:
        scraping.start()
    connection = WireConnection(running.port)
    times_ms = []
    try:
        for _ in range(requests):
            begun_s = time.perf_counter()
            connection.send(frame)
            connection.receive()
            times_ms.append(1000 * (time.perf_counter() - begun_s))
    finally:
        connection.close()
        stop.set()
        if url:
            scraping.join()
    return quantiles(times_ms, n=100)[98]


def processor_s(running: BrokerProcess) -> float:
    """Returns the processor time that the broker has used, to the nanosecond (Linux alone)."""
    used_ns = Path(f"/proc/{running.process_id}/schedstat").read_text().split()[0]
    return int(used_ns) / 1e9


def burst_us(running: BrokerProcess, connection: WireConnection, frame: bytes) -> float:
    """Returns the broker's processor time for a one-record request. So many are under way that it
    never waits for the client: while it waits, it polls for a moment, which takes time too."""
    before_s = processor_s(running)
    connection.send(frame * 2 * HALF_WINDOW)
    for _ in range(BURST // HALF_WINDOW - 2):
        for _ in range(HALF_WINDOW):
            connection.receive()
        connection.send(frame * HALF_WINDOW)
    for _ in range(2 * HALF_WINDOW):
        connection.receive()
    return 1e6 * (processor_s(running) - before_s) / BURST


def compare_processor(directory: Path, bursts: int) -> None:
    """Two brokers run at the same time and are asked by turns, so that whatever else the machine
    does troubles both. What counts is the median of the pairs' differences."""
    frame = produce_frame(TOPIC, one_record_batch(b"x" * 100, 1_700_000_000_000))
    figures: dict[bool, list[float]] = {False: [], True: []}
    with (
        broker(directory / "off", "") as without,
        broker(directory / "on", listener(is_on=True)) as with_port,
    ):
        brokers = {False: without, True: with_port}
        connections = {is_on: WireConnection(one.port) for is_on, one in brokers.items()}
        for is_on, connection in connections.items():
            connection.send(metadata_frame(TOPIC))
            connection.receive()
            for _ in range(WARM_UP):
                burst_us(brokers[is_on], connection, frame)
        for number in range(bursts):
            for is_on in (False, True) if number % 2 else (True, False):
                used_us = burst_us(brokers[is_on], connections[is_on], frame)
                figures[is_on].append(used_us)
        for connection in connections.values():
            connection.close()
    more = [on - off for off, on in zip(figures[False], figures[True], strict=True)]
    low, middle, high = quantiles(more, n=4)
    off_us = median(figures[False])
    print(
        f"one-record requests, processor time: {off_us:.2f} µs off, {middle:+.2f} µs on"
        f" (half of the pairs {low:+.2f} to {high:+.2f}), {1 + middle / off_us:.3f}x"
    )


def one_round(directory: Path, is_on: bool, options: argparse.Namespace, found: Figures) -> None:
    url = listener(is_on)
    with broker(directory, url) as running:
        time.sleep(SETTLING_S)
        found["idle memory, MB"].append(running.usage().resident_bytes / 1e6)
        found["produce, records/s"].append(throughput(running, options.records))
        found["one-record requests p99, ms"].append(latency_ms(running, options.requests, url))


def many_partitions(directory: Path, partitions: int) -> list[str]:
    """Scrapes a broker with many partitions; returns lines that tell what it took."""
    url = listener(is_on=True)
    with broker(directory, url) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        made = admin.create_topics(
            [NewTopic(f"wide-{number}", 100, 1) for number in range(max(partitions // 100, 1))],
            request_timeout=120,
        )
        for future in made.values():
            future.result()
        scrape(url)  # The first one reads what the next ones find in memory.
        stop, waits_ms = threading.Event(), [0.0]

        def ping() -> None:
            connection, frame = WireConnection(running.port), metadata_frame("wide-0")
            while not stop.is_set():
                begun_s = time.perf_counter()
                connection.send(frame)
                connection.receive()
                waits_ms.append(1000 * (time.perf_counter() - begun_s))
            connection.close()

        pinging = threading.Thread(target=ping, daemon=True)
        pinging.start()
        time.sleep(1.0)
        alone_ms = max(waits_ms)
        waits_ms.clear()
        scrapes = [scrape(url) for _ in range(SCRAPES)]
        stop.set()
        pinging.join()
    took_ms = [1000 * took_s for took_s, _ in scrapes]
    return [
        (
            f"scrape of {partitions} partitions: {median(took_ms):.0f} ms, longest "
            f"{max(took_ms):.0f} ms ({scrapes[-1][1] / 1e6:.1f} MB)"
        ),
        (
            f"longest answer to a small request: {max(waits_ms):.1f} ms during the scrapes,"
            f" {alone_ms:.1f} ms without"
        ),
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--bursts", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=3_000)
    parser.add_argument(
        "--processor", action="store_true", help="only the processor time of a request"
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.records, options.requests = 1, 100_000, 2_000
        options.bursts = min(options.bursts, 10)
        options.partitions = min(options.partitions, 300)
    names = ("idle memory, MB", "produce, records/s", "one-record requests p99, ms")
    off: Figures = {name: [] for name in names}
    on: Figures = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as directory:
        compare_processor(Path(directory), options.bursts)
        if options.processor:
            return 0
        for number in range(options.rounds):
            # The order changes from round to round, because the second may find a warmer machine.
            for is_on in (False, True) if number % 2 else (True, False):
                place = Path(directory) / f"{number}-{is_on}"
                one_round(place, is_on, options, on if is_on else off)
        for name in names:
            without, with_port = median(off[name]), median(on[name])
            print(f"{name}: {without:.4g} off, {with_port:.4g} on, {with_port / without:.3f}x")
        for line in many_partitions(Path(directory) / "wide", options.partitions):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
