"""Two registries and three brokers; the primary is killed, or stopped and resumed, under load.

    python -m tests.scenarios.registry_failover
    python -m tests.scenarios.registry_failover --kills 0 --stop-s 30 --registrations 2000

Clients register schemas, some of them new and some that another client registers too, at the
instance that answers. Meanwhile the instance that is the primary is killed (`kill -9`) and started
again, or stopped (SIGSTOP) and resumed. Afterwards:

1. an id has one schema, and a schema has one id, in all answers;
2. every id that a client was given can be read at both instances, with the schema it was given for;
3. both instances list the same subjects and versions, and none is missing;
4. no record in the topic, not even an aborted one, gives an id another schema;
5. an instance that is started afterwards says the same.
"""

import argparse
import itertools
import json
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from odradek.client.sync import Consumer
from odradek.testing import Cluster
from tests.scenarios.registry_process import Registry, started

TOPIC = "_schemas"
_LONGEST_WAIT_S = 90


@dataclass
class Acknowledged:
    subject: str
    version: int
    id: int
    schema: str


@dataclass
class Run:
    registrations: int
    directory: Path
    bootstrap: str
    registries: list[Registry]
    acknowledged: list[Acknowledged] = field(default_factory=list)
    slowest_s: float = 0.0
    failures: int = 0
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def client(self, name: int) -> None:
        """Registers schemas until there are enough."""
        for number in self._numbers:
            if number >= self.registrations:
                return
            # Every fourth schema is registered by several clients, under subjects of their own.
            text = number // 32 if number % 4 == 0 else f"{name}-{number}"
            fields = [{"name": "a", "type": "int", "doc": str(text)}]
            schema = json.dumps({"type": "record", "name": "R", "fields": fields})
            self._register(f"s{name}-{number % 40}", schema, number)

    def _register(self, subject: str, schema: str, number: int) -> None:
        """Asks one instance after the other until one of them registers the schema."""
        began_s = time.monotonic()
        for attempt in itertools.count(number):
            registry = self.registries[attempt % 2]
            try:
                status, answer = registry.ask(
                    "POST", f"/subjects/{subject}/versions", {"schema": schema}
                )
            except (OSError, ValueError, HTTPException):
                status, answer = 0, None
            if status == 200:
                with self._lock:
                    self.acknowledged.append(
                        Acknowledged(subject, answer["version"], answer["id"], schema)
                    )
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                return
            assert status in {0, 500, 503}, answer
            self.failures += 1
            assert time.monotonic() - began_s < _LONGEST_WAIT_S, answer
            time.sleep(0.05)

    def primary(self) -> int:
        """Returns which instance is the primary, as soon as one says so."""
        deadline_s = time.monotonic() + _LONGEST_WAIT_S
        while True:
            for index, registry in enumerate(self.registries):
                try:
                    if "odradek_registry_is_primary 1" in registry.ask("GET", "/metrics")[1]:
                        return index
                except (OSError, ValueError, HTTPException):
                    continue
            assert time.monotonic() < deadline_s, "there is no primary"
            time.sleep(0.05)

    def wait_for(self, count: int) -> None:
        while len(self.acknowledged) < count:
            time.sleep(0.02)

    def kill_primary(self) -> None:
        index = self.primary()
        old = self.registries[index]
        old.process.kill()
        old.process.communicate()
        self.registries[index] = self.start(index, old.port)

    def stop_primary(self, stop_s: float) -> None:
        process = self.registries[self.primary()].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(stop_s)
        process.send_signal(signal.SIGCONT)

    def start(self, index: int, port: int) -> Registry:
        return started(
            self.directory / str(index),
            self.bootstrap,
            {
                "listeners": f"http://127.0.0.1:{port}",
                "kafkastore.topic.replication.factor": "3",
                "schema.compatibility.level": "NONE",
            },
        )

    def end(self) -> None:
        for registry in self.registries:
            registry.process.kill()
            registry.process.communicate()

    # Afterwards

    def check(self) -> None:
        schema_of: dict[int, str] = {}
        id_of: dict[str, int] = {}
        for one in self.acknowledged:
            assert schema_of.setdefault(one.id, one.schema) == one.schema, one
            assert id_of.setdefault(one.schema, one.id) == one.id, one
        versions = {(one.subject, one.version): one.id for one in self.acknowledged}
        for registry in self.registries:
            for schema_id, schema in schema_of.items():
                status, answer = registry.ask("GET", f"/schemas/ids/{schema_id}")
                assert status == 200, (schema_id, answer)
                assert json.loads(answer["schema"]) == json.loads(schema)
            listed = {
                (one["subject"], one["version"]): one["id"]
                for one in registry.ask("GET", "/schemas")[1]
            }
            assert versions.items() <= listed.items()
        first, second = (registry.ask("GET", "/schemas")[1] for registry in self.registries)
        assert first == second
        self._check_topic()

    def _check_topic(self) -> None:
        meaning: dict[int, str] = {}
        with Consumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_uncommitted"
        ) as consumer:
            partition = (TOPIC, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning([partition])
            end = next(iter(consumer.end_offsets([partition]).values()))
            position = 0
            while position < end:
                for records in consumer.poll(1_000).values():
                    for record in records:
                        key = json.loads(record.key)
                        if key["keytype"] == "SCHEMA" and record.value is not None:
                            value = json.loads(record.value)
                            known = meaning.setdefault(value["id"], value["schema"])
                            assert known == value["schema"], f"id {value['id']} was given twice"
                position = consumer.position(partition)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(registrations: int, *, kills: int, stop_s: float, clients: int = 8) -> Run:
    """Runs the scenario; raises `AssertionError` if anything is wrong."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster(brokers=3))
        made = Run(registrations, directory, cluster.bootstrap, [])
        stack.callback(made.end)
        made.registries += [made.start(index, free_port()) for index in range(2)]
        threads = [
            threading.Thread(target=made.client, args=(name,), daemon=True)
            for name in range(clients)
        ]
        for thread in threads:
            thread.start()
        for number in range(kills):
            made.wait_for((number + 1) * registrations // (kills + 1))
            made.kill_primary()
        if stop_s:
            made.wait_for(registrations // 3)
            made.stop_primary(stop_s)
        for thread in threads:
            thread.join()
        assert len(made.acknowledged) == registrations
        made.check()
        last = made.registries[0]
        last.process.kill()
        last.process.communicate()
        made.registries[0] = made.start(0, last.port)
        made.check()
        return made


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.registry_failover")
    parser.add_argument("--registrations", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stop-s", type=float, default=0)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    began_s = time.monotonic()
    made = run(given.registrations, kills=given.kills, stop_s=given.stop_s, clients=given.clients)
    took_s = time.monotonic() - began_s
    ids = {one.id for one in made.acknowledged}
    print(
        f"{len(made.acknowledged)} registrations, {len(ids)} ids up to {max(ids)},"
        f" {made.failures} attempts failed, the slowest registration took {made.slowest_s:.1f} s,"
        f" {took_s:.0f} s in all: nothing lost, no id given twice"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
