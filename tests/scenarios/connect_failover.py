"""Two workers of Connect, killed or stopped again and again while their connectors work.

    python -m tests.scenarios.connect_failover
    python -m tests.scenarios.connect_failover --kills 0 --stops 3 --lines 20000

Sources read files that grow, and sinks write their topics to other files. Meanwhile a worker is
killed (`kill -9`) and started again, or stopped (SIGSTOP) for longer than its group waits, and
resumed; every second time it is the one that leads. Afterwards:

1. each topic has every line of its file once, in order, for readers of committed records;
2. each sink's file has every line; some may be there more than once, because a file has no
   transactions;
3. both workers say that all connectors and tasks run, each task on one of the two;
4. how long it took from a kill until every task was running elsewhere is printed.
"""

import argparse
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from odradek.client.sync import Consumer
from odradek.testing import Cluster
from tests.scenarios.connect_process import PATIENCE_S, SINK, SOURCE, Worker, started, until

_SESSION_MS = 6_000


@dataclass
class Run:
    directory: Path
    bootstrap: str
    connectors: int
    lines: int
    workers: list[Worker] = field(default_factory=list)
    failover_s: list[float] = field(default_factory=list)

    def start(self, index: int, port: int) -> Worker:
        settings = {
            "listeners": f"http://127.0.0.1:{port}",
            "session.timeout.ms": str(_SESSION_MS),
            "config.storage.replication.factor": "3",
        }
        return started(self.directory / str(index), "distributed", self.bootstrap, settings)

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()

    def source(self, index: int) -> Path:
        return self.directory / f"source-{index}"

    def sink(self, index: int) -> Path:
        return self.directory / f"sink-{index}"

    def create(self) -> None:
        for index in range(self.connectors):
            self.source(index).touch()
            worker = self.workers[index % 2]
            worker.create(
                f"source-{index}", connector_class=SOURCE, file=str(self.source(index)),
                topic=f"lines-{index}",
            )  # fmt: skip
            worker.create(
                f"sink-{index}", connector_class=SINK, file=str(self.sink(index)),
                topics=f"lines-{index}",
            )  # fmt: skip

    def write(self, stopped: threading.Event) -> None:
        """Writes lines to the files, slowly enough that workers end in between."""
        files = [self.source(index).open("a") for index in range(self.connectors)]
        for number in range(self.lines):
            for file in files:
                file.write(f"{number}\n")
            if number % 20 == 0:
                for file in files:
                    file.flush()
                if not stopped.is_set():
                    time.sleep(0.02)
        for file in files:
            file.close()

    def leader(self) -> int:
        """Returns which worker leads, as it says itself."""

        def found() -> str:
            for index, worker in enumerate(self.workers):
                text = worker.ask("GET", "/metrics")[1]
                if f"kafka_connect_worker_connector_count {2 * self.connectors}" in text:
                    return str(index)
            return ""

        return int(until(found, lambda: "nobody leads"))

    def statuses(self) -> str:
        """Returns what the workers say, for a failure."""
        found = [worker.ask("GET", "/connectors?expand=status")[1] for worker in self.workers]
        said = [worker.said()[-2_000:] for worker in self.workers]
        return f"not everything runs: {found}\n{said}"

    def all_run(self, worker: Worker, *, without: str | None = None) -> bool:
        """Returns whether everything runs, and nothing of it at the worker `without`."""
        found = worker.ask("GET", "/connectors?expand=status")[1]
        if without is not None and without in str(found):
            return False
        parts = [one["status"] for one in found.values()]
        return len(parts) == 2 * self.connectors and all(
            part["connector"]["state"] == "RUNNING"
            and [task["state"] for task in part["tasks"]] == ["RUNNING"]
            for part in parts
        )

    def kill(self, index: int) -> None:
        old, other = self.workers[index], self.workers[1 - index]
        old.kill()
        killed_s = time.monotonic()
        name = f"127.0.0.1:{old.port}"
        until(lambda: self.all_run(other, without=name), lambda: "the tasks did not move")
        self.failover_s.append(time.monotonic() - killed_s)
        self.workers[index] = self.start(index, old.port)

    def stop(self, index: int) -> None:
        """Stops a worker for longer than the group waits for it, and resumes it."""
        process, other = self.workers[index].process, self.workers[1 - index]
        name = f"127.0.0.1:{self.workers[index].port}"
        process.send_signal(signal.SIGSTOP)
        until(lambda: self.all_run(other, without=name), lambda: "the tasks did not move")
        process.send_signal(signal.SIGCONT)

    # Afterwards

    def check(self) -> None:
        for worker in self.workers:
            until(lambda worker=worker: self.all_run(worker), self.statuses)  # type: ignore[misc]
        wanted = [str(number) for number in range(self.lines)]
        for index in range(self.connectors):
            found = self._read(f"lines-{index}")
            assert found == wanted, f"lines-{index} has {len(found)} records of {self.lines}"
            until(
                lambda index=index: set(self.sink(index).read_text().split()) >= set(wanted),  # type: ignore[misc]
                lambda: "a sink misses lines",
            )

    def _read(self, topic: str) -> list[str]:
        found: list[str] = []
        deadline_s = time.monotonic() + PATIENCE_S
        with Consumer(
            bootstrap_servers=self.bootstrap, isolation_level="read_committed"
        ) as consumer:
            consumer.assign([(topic, 0)])
            consumer.seek_to_beginning([(topic, 0)])
            while len(found) < self.lines and time.monotonic() < deadline_s:
                for records in consumer.poll(500).values():
                    found += [record.value.decode() for record in records]
            for records in consumer.poll(1_000).values():
                found += [record.value.decode() for record in records]
        return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(*, connectors: int, lines: int, kills: int, stops: int) -> Run:
    """Runs the scenario; raises `AssertionError` if anything is wrong."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster(brokers=1))
        made = Run(directory, cluster.bootstrap, connectors, lines)
        stack.callback(made.end)
        made.workers += [made.start(index, free_port()) for index in range(2)]
        made.create()
        stopped = threading.Event()
        writing = threading.Thread(target=made.write, args=(stopped,), daemon=True)
        writing.start()
        for number in range(kills + stops):
            until(lambda: all(map(made.all_run, made.workers)), made.statuses)
            leader = made.leader()
            index = leader if number % 2 == 0 else 1 - leader
            if number < kills:
                made.kill(index)
            else:
                made.stop(index)
        stopped.set()
        writing.join()
        made.check()
        return made


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.connect_failover")
    parser.add_argument("--connectors", type=int, default=4, help="sources, and as many sinks")
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=4)
    given = parser.parse_args()
    began_s = time.monotonic()
    made = run(connectors=given.connectors, lines=given.lines, kills=given.kills, stops=given.stops)
    took_s = time.monotonic() - began_s
    slowest = f", tasks ran elsewhere within {max(made.failover_s):.1f} s" if given.kills else ""
    print(
        f"{given.connectors * given.lines:,} lines through {2 * given.connectors} connectors,"
        f" {given.kills} kills, {given.stops} stops{slowest}; {took_s:.0f} s in all: nothing lost,"
        " nothing doubled in the topics"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
