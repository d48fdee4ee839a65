"""Makes the pictures of docs/console.md: a cluster with some traffic, seen through the console.

    .venv/bin/python scripts/photograph_console.py [DIRECTORY]

It needs Chromium (apt-get install chromium) and takes about two minutes.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

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
    # name, path, theme, and what is clicked there
    ("overview", "", "light", ""),
    ("overview-dark", "", "dark", ""),
    ("topics", "/topics?sort=rate&dir=down", "light", ""),
    ("messages", "/topics/orders/messages?filter=value.total > 250", "light", ""),
    ("reset", "/groups/billing/reset?to=shift&shift=-100&topic=orders", "light", ""),
    ("redrive", "/topics/dead-letters/redrive?start=oldest", "light", ""),
    (
        "connector", "/new-connector?name=visits&class=odradek.connect.HttpSourceConnector",
        "light", "",
    ),
    ("schema", "/schemas/orders-value", "dark", ""),
    ("sql", "/sql", "light", "main a:has-text('CTAS_')"),
    ("balance", "/balance", "light", "button:has-text('Make the plan')"),
)  # fmt: skip
STATEMENTS = """
CREATE STREAM orders (id STRING KEY, number BIGINT, customer STRUCT<id STRING, country STRING>,
  total DOUBLE) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE customers (id STRING PRIMARY KEY, name STRING)
  WITH (kafka_topic='customers', value_format='JSON');
CREATE TABLE sales AS
  SELECT c.name AS name, COUNT(*) AS orders, SUM(o.total) AS total
  FROM orders o JOIN customers c ON o.customer->id = c.id
  WHERE o.total > 20 GROUP BY c.name EMIT CHANGES;
"""
SCHEMA = {
    "type": "record", "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "total", "type": "double"}],
}  # fmt: skip


class Platform(NamedTuple):
    """Addresses of brokers and services."""

    brokers: str
    registry: str
    sql: str
    console: str


def fill(platform: Platform) -> None:
    with Admin(bootstrap_servers=platform.brokers) as admin:
        admin.create_topics(
            [
                NewTopic("orders", 6, 3),
                NewTopic("payments", 3, 3),
                NewTopic("customers", 6, 3, configs={"cleanup.policy": "compact"}),
                NewTopic("page-views", 12, 2),
                NewTopic("parcels", 3, 3),
                NewTopic("dead-letters", 1, 3),
                NewTopic("clicks", assignments={one: [1] for one in range(60)}),
            ]
        ).raise_for_errors()
    body = json.dumps({"ksql": STATEMENTS}).encode()
    headers = {"content-type": "application/json"}
    urlopen(Request(f"{platform.sql}/ksql", body, headers)).close()  # noqa: S310 - our own
    with RegistryClient(platform.registry) as client:
        client.register("orders-value", "AVRO", json.dumps(SCHEMA))
        note = {"name": "note", "type": ["null", "string"], "default": None}
        fields = [*SCHEMA["fields"], note]
        client.register("orders-value", "AVRO", json.dumps({**SCHEMA, "fields": fields}))
    with Producer(bootstrap_servers=platform.brokers) as producer:
        for number in range(1, 7):
            said = {
                "topic": ("orders", "payments")[number % 2],
                "partition": str(number % 3),
                "exception.message": f"column total: {number}oo is not a number",
            }
            headers = [(f"__connect.errors.{name}", text.encode()) for name, text in said.items()]
            producer.send("dead-letters", b"{}", f"order-{number}".encode(), headers=headers)


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
                    "customer": {
                        "id": str(number % 97),
                        "country": chance.choice(["NL", "DE", "CZ"]),
                    },
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
    with tempfile.TemporaryDirectory() as scratch, _platform(scratch) as platform:
        fill(platform)
        brokers = platform.brokers
        workers = [threading.Thread(target=traffic, args=(brokers, stop))]
        workers += [
            threading.Thread(target=consume, args=(brokers, group, topic, stop))
            for group, topic in (("billing", "orders"), ("fraud-check", "payments"))
        ]
        for worker in workers:
            worker.start()
        try:
            _take(directory, f"{platform.console}/c/local")
        finally:
            stop.set()
            for worker in workers:
                worker.join()


@contextmanager
def _platform(data: str) -> Iterator[Platform]:
    """Starts three brokers and the services; yields their addresses."""
    registry, rest, connect, sql, console = free_ports(5)
    command = [sys.executable, "-m", "odradek.cli", "up", "--platform", "--until-input-closes"]
    command += ["--brokers", "3", "--data", data, "--port", str(BROKER_PORT)]
    command += ["--registry-port", str(registry), "--rest-port", str(rest)]
    command += ["--connect-port", str(connect), "--sql-port", str(sql)]
    command += ["--console-port", str(console)]
    # The journal of balance is in the home directory of the user otherwise.
    environment = {**os.environ, "XDG_STATE_HOME": data}
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as platform:
        assert platform.stdin is not None
        assert platform.stdout is not None
        for line in platform.stdout:
            if "the platform is ready" in line:
                break
        local = "http://127.0.0.1"
        yield Platform(
            f"127.0.0.1:{BROKER_PORT}", f"{local}:{registry}", f"{local}:{sql}",
            f"{local}:{console}",
        )  # fmt: skip
        platform.stdin.close()
        platform.stdout.read()


def _take(directory: Path, base: str) -> None:
    with browser_started(chromium()) as browser:
        for number, (name, path, theme, clicked) in enumerate(PICTURES):
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
            if clicked:
                page.locator(clicked).first.click()
                time.sleep(2.0)
                page.evaluate(
                    "document.querySelector('section:has(#plan)')?.scrollIntoView();"
                    " window.scrollBy(0, -90)"
                )
            content = page.screenshot()
            assert len(content) < MAX_BYTES, f"{name} has {len(content):,} bytes"
            (directory / f"console-{name}.png").write_bytes(content)
            sys.stdout.write(f"console-{name}.png: {len(content):,} bytes\n")
            context.close()


if __name__ == "__main__":
    photograph(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
