"""Makes the pictures of docs/console.md: a cluster with some traffic, seen through the console.

    .venv/bin/python scripts/photograph_console.py [DIRECTORY]

It needs Chromium (apt-get install chromium) and takes about two minutes.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.client.sync import Admin, Consumer, NewTopic, Producer
from odradek.schemas.registry_client import RegistryClient

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.broker_process import free_ports
from tests.browser.chromium import browser_started, chromium

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, HEIGHT = 1200, 760
MAX_BYTES = 150_000
BROKER_PORT = 24_300  # and the two above it, which must be free
WATCHED_S = 75.0
PICTURES = (
    # name, path, theme
    ("overview", "", "light"),
    ("overview-dark", "", "dark"),
    ("topics", "/topics?sort=rate&dir=down", "light"),
    ("messages", "/topics/orders/messages?filter=value.total > 250", "light"),
    ("reset", "/groups/billing/reset?to=shift&shift=-100&topic=orders", "light"),
    ("schema", "/schemas/orders-value", "dark"),
)  # fmt: skip
SCHEMA = {
    "type": "record", "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "total", "type": "double"}],
}  # fmt: skip


def fill(brokers: str, registry: str) -> None:
    with Admin(bootstrap_servers=brokers) as admin:
        admin.create_topics(
            [
                NewTopic("orders", 6, 3),
                NewTopic("payments", 3, 3),
                NewTopic("customers", 3, 3, configs={"cleanup.policy": "compact"}),
                NewTopic("page-views", 12, 2),
                NewTopic("parcels", 3, 3),
                NewTopic("dead-letters", 1, 3),
            ]
        ).raise_for_errors()
    with RegistryClient(registry) as client:
        client.register("orders-value", "AVRO", json.dumps(SCHEMA))
        note = {"name": "note", "type": ["null", "string"], "default": None}
        fields = [*SCHEMA["fields"], note]
        client.register("orders-value", "AVRO", json.dumps({**SCHEMA, "fields": fields}))


def traffic(brokers: str, stop: threading.Event) -> None:
    """Writes until it is told to stop, a little more and less by turns."""
    chance = random.Random(4)  # noqa: S311 - the same pictures each time
    number = 0
    with Producer(bootstrap_servers=brokers) as producer:
        while not stop.is_set():
            for _ in range(chance.randrange(60, 160)):
                number += 1
                order = {
                    "number": number,
                    "customer": {"id": number % 97, "country": chance.choice(["NL", "DE", "CZ"])},
                    "total": round(chance.random() * 300, 2),
                }
                producer.send("orders", json.dumps(order).encode(), f"order-{number}".encode())
                producer.send("page-views", f"/products/{number % 40}".encode())
                if number % 3 == 0:
                    producer.send("payments", json.dumps({"order": number}).encode())
            producer.flush()
            stop.wait(0.2)


def consume(brokers: str, group: str, topic: str, stop: threading.Event) -> None:
    with Consumer(
        topic, bootstrap_servers=brokers, group_id=group, auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
    ) as consumer:  # fmt: skip
        while not stop.is_set():
            consumer.poll(200)
            if group == "billing" and not stop.is_set():
                stop.wait(0.4)


def photograph(directory: Path) -> None:
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as scratch, _platform(scratch) as (brokers, registry, base):
        fill(brokers, registry)
        workers = [threading.Thread(target=traffic, args=(brokers, stop))]
        workers += [
            threading.Thread(target=consume, args=(brokers, group, topic, stop))
            for group, topic in (("billing", "orders"), ("fraud-check", "payments"))
        ]
        for worker in workers:
            worker.start()
        try:
            _take(directory, f"{base}/c/local")
        finally:
            stop.set()
            for worker in workers:
                worker.join()


@contextmanager
def _platform(data: str) -> Iterator[tuple[str, str, str]]:
    """Starts three brokers and the services; yields the addresses of brokers, registry, console."""
    registry, rest, console = free_ports(3)
    command = [sys.executable, "-m", "odradek.cli", "up", "--platform", "--until-input-closes"]
    command += ["--brokers", "3", "--data", data, "--port", str(BROKER_PORT)]
    command += ["--registry-port", str(registry), "--rest-port", str(rest)]
    command += ["--console-port", str(console)]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as platform:
        assert platform.stdin is not None
        assert platform.stdout is not None
        for line in platform.stdout:
            if "the platform is ready" in line:
                break
        local = "http://127.0.0.1"
        yield f"127.0.0.1:{BROKER_PORT}", f"{local}:{registry}", f"{local}:{console}"
        platform.stdin.close()
        platform.stdout.read()


def _take(directory: Path, base: str) -> None:
    with browser_started(chromium()) as browser:
        for number, (name, path, theme) in enumerate(PICTURES):
            context = browser.new_context(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if theme == "dark" else "light",
            )
            page = context.new_page()
            page.goto(base + path)
            # The charts of the first picture need some samples.
            time.sleep(WATCHED_S if number == 0 else 2.0)
            if number == 0:
                page.reload()
                time.sleep(2.0)
            content = page.screenshot()
            assert len(content) < MAX_BYTES, f"{name} has {len(content):,} bytes"
            (directory / f"console-{name}.png").write_bytes(content)
            sys.stdout.write(f"console-{name}.png: {len(content):,} bytes\n")
            context.close()


if __name__ == "__main__":
    photograph(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
