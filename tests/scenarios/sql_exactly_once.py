"""Kills what runs a query with a join and windows, again and again.

    python -m tests.scenarios.sql_exactly_once --kills 5
    python -m tests.scenarios.sql_exactly_once --kills 20 --engine spark --brokers 3

Orders arrive all the time. The server that counts them by customer and minute, joined with the
customers' table, is killed and started again; so is, with Spark, any of its processes: that of a
query, the one these are forked from, the driver, Java, a Python worker of Spark's; and with three
brokers, one of them. At the end every result is compared with one that is
computed in plain Python: each order must have made one change, in order, and none may be missing.
"""

import argparse
import asyncio
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from odradek.client import Producer
from odradek.testing.cluster import Cluster
from tests.scenarios.lane_processes import COMMANDS, processes_of
from tests.scenarios.sql_server import EARLIEST, SqlServer, sql_started

_CUSTOMERS = 5
_MINUTE_MS = 60_000
_STATEMENTS = """
CREATE STREAM orders (c INT KEY, n BIGINT)
  WITH (kafka_topic='orders', value_format='JSON', partitions=3);
CREATE TABLE customers (c INT PRIMARY KEY, region STRING)
  WITH (kafka_topic='customers', value_format='JSON', partitions=3);
CREATE STREAM joined AS
  SELECT o.c AS c, region, n FROM orders o JOIN customers u ON o.c = u.c;
CREATE TABLE counts AS
  SELECT c, COUNT(*) AS orders, SUM(n) AS total, MAX(region) AS region FROM joined
  WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY c;
"""


class _Orders(threading.Thread):
    """Sends orders until it is told to stop, and remembers them."""

    def __init__(self, bootstrap: str, begin_ms: int) -> None:
        super().__init__()
        self._begin_ms = begin_ms
        self.sent: list[tuple[int, int, int]] = []
        self._servers = bootstrap
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        chance = random.Random(7)
        async with Producer({"bootstrap.servers": self._servers, "acks": "all"}) as producer:
            while not self._stopping.is_set():
                for _ in range(20):
                    number = len(self.sent)
                    customer = chance.randrange(_CUSTOMERS)
                    time_ms = self._begin_ms + 1_000 + number * 100
                    self.sent.append((customer, number, time_ms))
                    await producer.send(
                        "orders", json.dumps({"N": number}).encode(), customer.to_bytes(4, "big"),
                        timestamp_ms=time_ms,
                    )  # fmt: skip
                await producer.flush()
                await asyncio.sleep(0.05)


def _expected(orders: list[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Yields the totals of each customer and minute, one after each order."""
    totals: dict[tuple[int, int], list[int]] = {}
    for customer, number, time_ms in orders:
        place = (customer, time_ms // _MINUTE_MS * _MINUTE_MS)
        so_far = totals.setdefault(place, [])
        so_far.append((so_far[-1] if so_far else 0) + number)
    yield from totals.items()


@contextmanager
def _orders(bootstrap: str, begin_ms: int) -> Iterator[_Orders]:
    orders = _Orders(bootstrap, begin_ms)
    orders.start()
    try:
        yield orders
    finally:
        orders.stop()


class _Killing:
    """Kills one after the other, and starts again what does not do so itself."""

    def __init__(
        self, cluster: Cluster, directory: Path, overrides: list[str], chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        self._overrides = overrides
        self._chance = chance

    def server(self, starts: ExitStack) -> SqlServer:
        started = sql_started(self._directory, self._cluster.bootstrap, *self._overrides)
        return starts.enter_context(started)

    def kill(self, kind: str, server: SqlServer, starts: ExitStack) -> SqlServer:
        """Kills one of a kind, and returns the server that runs when the query goes on."""
        chance = self._chance
        if kind == "server":
            server.kill()
            # The next one takes over when the session of the killed one has ended.
            server = self.server(starts)
            server.rows("SELECT c FROM counts EMIT CHANGES LIMIT 1;")
            time.sleep(chance.uniform(6, 9))
        elif kind == "broker":
            broker = chance.randrange(3) + 1
            self._cluster.kill(broker)
            time.sleep(chance.uniform(2, 4))
            self._cluster.restart(broker)
            time.sleep(chance.uniform(2, 4))
        else:
            deadline_s = time.monotonic() + 180
            while not (found := processes_of(server.process.pid, kind)):
                assert time.monotonic() < deadline_s, f"there is no {kind}"
                time.sleep(0.1)
            chance.choice(found).kill()
            time.sleep(chance.uniform(1, 4))
        return server


def run(
    kills: int,
    directory: Path,
    engine: str = "process",
    brokers: int = 1,
    kinds: Sequence[str] = (),
) -> int:
    """Returns how many orders were counted. Raises `AssertionError` if a result is wrong."""
    chance = random.Random(kills)
    victims = list(kinds) or _victims(engine, brokers)
    # Brokers delete what is older than the retention of a week, and refuse what lies ahead. The
    # time of the orders passes much faster than the clock.
    begin_ms = int(time.time() * 1000) - 3 * 86_400_000
    overrides = [f"odradek.sql.engine={engine}", f"ksql.internal.topic.replicas={brokers}"]
    with Cluster(brokers=brokers) as cluster:
        bootstrap = cluster.bootstrap
        killing = _Killing(cluster, directory, overrides, chance)
        with ExitStack() as starts:
            server = killing.server(starts)
            created = server.ksql(_STATEMENTS)
            assert all(one["commandStatus"]["status"] == "SUCCESS" for one in created), created
            for customer in range(_CUSTOMERS):
                server.ksql(
                    "INSERT INTO customers (rowtime, c, region)"
                    f" VALUES ({begin_ms}, {customer}, 'r{customer % 2}');"
                )
            # The customers are older than all orders, so they are in the table first.
            assert len(server.rows("SELECT * FROM customers;")) == _CUSTOMERS
            with _orders(bootstrap, begin_ms) as orders:
                server.rows("SELECT c FROM counts EMIT CHANGES LIMIT 1;")
                for number in range(kills):
                    time.sleep(chance.uniform(1, 3))
                    kind = victims[number % len(victims)]
                    print(f"kill {number + 1}, {kind}: {len(orders.sent)} orders", flush=True)
                    server = killing.kill(kind, server, starts)
            server.kill()
            # The other engine would do: it goes on where this one was. It starts sooner.
            overrides[0] = "odradek.sql.engine=process"
            with sql_started(directory, bootstrap, *overrides) as last:
                limit = len(orders.sent)
                print(f"{limit} orders are compared", flush=True)
                rows = _rows(last, limit)
    found: dict[tuple[int, int], list[int]] = {}
    for customer, start_ms, total, region in rows:
        assert region == f"r{customer % 2}", (customer, region)
        found.setdefault((customer, start_ms), []).append(total)
    expected = dict(_expected(orders.sent))
    wrong = {
        place: (found.get(place, []), totals)
        for place, totals in expected.items()
        if found.get(place) != totals
    }
    for (customer, start_ms), (has, wanted) in sorted(wrong.items(), key=lambda one: one[0][1]):
        print(f"{customer} at {start_ms}: {len(has)} of {len(wanted)} changes, {has[-2:]}")
    assert not wrong, f"{len(wrong)} of {len(expected)} windows are wrong"
    assert found.keys() == expected.keys()
    return limit


def _rows(server: SqlServer, limit: int) -> list[list[Any]]:
    """Returns the changes of the table, or those that there are, after saying why there are not
    enough."""
    text = f"SELECT c, windowstart, total, region FROM counts EMIT CHANGES LIMIT {limit};"
    found: list[list[Any]] = []
    try:
        with server.stream(text, EARLIEST) as lines:
            next(lines)
            found.extend(lines)
    except TimeoutError:
        print(f"{len(found)} of {limit} changes have come", flush=True)
        print(json.dumps(server.ksql("SHOW QUERIES;")[0]["queries"], indent=1), flush=True)
        lines_of_log = server.log.read_text().splitlines()
        print("\n".join(one for one in lines_of_log if "INFO" not in one), flush=True)
    return found


def _victims(engine: str, brokers: int) -> list[str]:
    """Returns who is killed, by turns."""
    found = ["server"] if engine == "process" else ["host", "server", *COMMANDS]
    return found if brokers == 1 else [*found, "broker"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--engine", choices=["process", "spark"], default="process")
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        count = run(arguments.kills, Path(directory), arguments.engine, arguments.brokers)
    print(f"{count} orders, {arguments.kills} kills: each one was counted once")


if __name__ == "__main__":
    main()
