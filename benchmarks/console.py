"""The console of a large cluster: pages, first paint, memory, and a live tail of a fast topic.

    python -m benchmarks.console [--topics 10000] [--groups 500] [--rate 20000]

A page is asked for by HTTP, from loopback: the time is that of the server. The first paint is that
of Debian's Chromium, from the click to the first text. The tail is watched in it too: five times a
second the page is asked for its next frame, and the wait says how responsive it is.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Producer
from playwright.sync_api import Browser

from benchmarks.broker_process import BrokerProcess, ToolMissing, ready_odradek
from benchmarks.many_topics import PARTITIONS, create
from odradek.client import Consumer, OffsetAndMetadata, TopicPartition
from tests.browser.chromium import browser_started, chromium
from tests.scenarios.service_process import ready_process, service_command

PAGES: Final = {
    "overview": "/",
    "topics": "/topics",
    "topics, a search": "/topics?q=topic-99",
    "groups": "/groups",
    "brokers": "/brokers",
}
TAILED: Final = "topic-0"
TAIL_S: Final = 15.0
_FIRST_PAINT: Final = """new Promise(done => new PerformanceObserver(list => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) done(entry.startTime);
}).observe({type: "paint", buffered: true}))"""
_NEXT_FRAME: Final = "new Promise(done => requestAnimationFrame(() => done(1)))"


@contextmanager
def console(directory: Path, bootstrap: str) -> Iterator[tuple[psutil.Process, str]]:
    settings = {"bootstrap.servers": bootstrap}
    command = service_command("console", directory / "console.properties", settings)
    process, url = ready_process(command, directory / "console.log")
    try:
        with urllib.request.urlopen(url) as first_page:  # leads to that of the only cluster
            yield psutil.Process(process.pid), first_page.geturl().rstrip("/")
    finally:
        process.terminate()
        process.communicate()


async def make_groups(bootstrap: str, count: int) -> None:
    for number in range(count):
        partition = TopicPartition(f"topic-{number}", 0)
        async with Consumer(bootstrap_servers=bootstrap, group_id=f"group-{number}") as consumer:
            consumer.assign([partition])
            await consumer.commit({partition: OffsetAndMetadata(0)})


def page_times_ms(url: str, rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        with urllib.request.urlopen(url) as answer:
            answer.read()
        found.append((time.perf_counter() - began_s) * 1000)
    return found


def first_paints_ms(browser: Browser, url: str, rounds: int) -> list[float]:
    """Each time in a browser without a cache."""
    found = []
    for _ in range(rounds):
        context = browser.new_context()
        page = context.new_page()
        page.goto(url, wait_until="load")
        found.append(float(page.evaluate(_FIRST_PAINT)))
        context.close()
    return found


def produce(bootstrap: str, rate: int, end: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10, "log_level": 0})
    began_s, sent = time.monotonic(), 0
    while not end.wait(0.02):
        due = int((time.monotonic() - began_s) * rate)
        for number in range(sent, due):
            producer.produce(TAILED, f"record {number}".encode().ljust(100, b"."))
        sent = due
        producer.poll(0)
    producer.flush(30)


def tail(browser: Browser, url: str, bootstrap: str, rate: int) -> list[str]:
    """Watches a live tail; returns rows of the table."""
    page = browser.new_context().new_page()
    page.goto(f"{url}/topics/{TAILED}/messages?start=live", wait_until="load")
    end = threading.Event()
    thread = threading.Thread(target=produce, args=(bootstrap, rate, end))
    thread.start()
    waits_ms, pages_ms = [], []
    try:
        began_s = time.monotonic()
        while time.monotonic() - began_s < TAIL_S:
            asked_s = time.perf_counter()
            page.evaluate(_NEXT_FRAME)
            waits_ms.append((time.perf_counter() - asked_s) * 1000)
            pages_ms += page_times_ms(f"{url}/topics", 1)
            page.wait_for_timeout(200)
        note, rows = page.inner_text("#tail-note"), page.locator("#tail tr").count()
    finally:
        end.set()
        thread.join()
    return [
        f"| live tail, {rate:,} records/s: next frame, median and longest ms | {both(waits_ms)} |",
        f"| the list of topics meanwhile, ms | {both(pages_ms)} |",
        f"| the tail has rows, and says | {rows}, {note!r} |",
    ]


def both(times_ms: Sequence[float]) -> str:
    return f"{statistics.median(times_ms):.0f}, {max(times_ms):.0f}"


def megabytes(process: psutil.Process) -> float:
    processes = [process, *process.children(recursive=True)]
    return float(sum(one.memory_info().rss for one in processes)) / 1e6


def measure(broker: BrokerProcess, directory: Path, options: argparse.Namespace) -> None:
    create(broker, options.topics)
    asyncio.run(make_groups(broker.bootstrap, options.groups))
    with console(directory, broker.bootstrap) as (process, url):
        print("| page | server, median and longest ms | first paint, median and longest ms |")
        print("|---|---|---|")
        with browser_started(chromium()) as browser:
            for name, path in PAGES.items():
                times_ms = page_times_ms(url + path, options.rounds)
                paints_ms = first_paints_ms(browser, url + path, 5)
                print(f"| {name} | {both(times_ms)} | {both(paints_ms)} |", flush=True)
            print(*tail(browser, url, broker.bootstrap, options.rate), sep="\n")
        print(f"| memory of the console | {megabytes(process):.0f} MB |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--topics", type=int, default=10_000, help=f"of {PARTITIONS} partitions each"
    )
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second in the tail")
    parser.add_argument("--rounds", type=int, default=30, help="requests for each page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        broker = ready_odradek(directory)
        try:
            measure(broker, directory, options)
        except ToolMissing as missing:
            print(missing, file=sys.stderr)
            return 2
        finally:
            broker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
