"""Three brokers of each kind on this machine, with the same clients.

    python -m benchmarks.clusters [--rounds N] [--quick] [--without-kafka] [--json FILE]
    python -m benchmarks.clusters --together [--rounds N] [--quick] [--json FILE]

Without `--together` one cluster runs after the other, each from a cold start. With it both clusters
are up at once, as on a machine where a user compares them, and the loads alternate between them;
the first round only warms both up (a Java broker is compiled while it works) and does not count.

It measures the time from starting the command to the first acks=all record on a topic whose three
replicas are in sync; the memory of all processes; produce throughput with acks=all; end-to-end
latency with acks=all; and, after kill -9 of a leader, how long the metadata shows no leader and how
long a producer gets no acknowledgement. Topics have three replicas and need two in sync.
"""

import argparse
import base64
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import psutil
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from benchmarks import librdkafka
from benchmarks.apache_kafka import ApacheKafka, KafkaNode
from benchmarks.broker_process import BrokerProcess, ToolMissing, free_ports, odradek_program
from benchmarks.figures import Results, percentile
from benchmarks.report import plain_table

BROKERS: Final = 3
MEGABYTE: Final = 1_000_000
PATIENCE_S: Final = 60.0
OURS, THEIRS = "Odradek", "Apache Kafka"


class Cluster(Protocol):
    """Three running brokers, of Odradek or Apache Kafka."""

    bootstrap: str

    def processes(self) -> list[psutil.Process]:
        """All processes of the cluster."""
        ...

    def kill(self, broker_id: int) -> None:
        """kill -9 of one broker."""
        ...

    def stop(self) -> None: ...


class OdradekCluster:
    """``odradek up --brokers 3``: a supervisor and its brokers."""

    def __init__(self, directory: Path) -> None:
        port = _consecutive_ports(BROKERS)
        self._data = directory / "data"
        command = [odradek_program(), "up", "--brokers", str(BROKERS), "--port", str(port)]
        self._supervisor = BrokerProcess.start(
            name=OURS,
            command=[*command, "--data", str(self._data)],
            port=port,
            data_directory=self._data,
            output=directory / "up.log",
        )
        self.bootstrap = ",".join(f"127.0.0.1:{port + number}" for number in range(BROKERS))

    def processes(self) -> list[psutil.Process]:
        supervisor = psutil.Process(self._supervisor.process_id)
        return [supervisor, *supervisor.children(recursive=True)]

    def kill(self, broker_id: int) -> None:
        process_id = int((self._data / f"broker-{broker_id}" / "broker.pid").read_text())
        psutil.Process(process_id).kill()

    def stop(self) -> None:
        self._supervisor.stop()


class ApacheCluster:
    """Three combined nodes. Formatting them is not counted."""

    def __init__(self, nodes: Mapping[int, KafkaNode]) -> None:
        self._brokers = {node_id: node.start() for node_id, node in nodes.items()}
        self.bootstrap = ",".join(broker.bootstrap for broker in self._brokers.values())

    def processes(self) -> list[psutil.Process]:
        return [
            psutil.Process(broker.process_id)
            for broker in self._brokers.values()
            if broker.process.poll() is None
        ]

    def kill(self, broker_id: int) -> None:
        self._brokers[broker_id].kill()

    def stop(self) -> None:
        for broker in self._brokers.values():
            broker.process.terminate()
        for broker in self._brokers.values():
            broker.stop()


def _consecutive_ports(count: int) -> int:
    """Returns the first of `count` consecutive ports that are free now."""
    while True:
        first = free_ports(1)[0]
        taken = {connection.laddr.port for connection in psutil.net_connections("tcp")}
        if not taken.intersection(range(first, first + count)):
            return first


def prepare_apache(kafka: ApacheKafka, directory: Path) -> dict[int, KafkaNode]:
    ports = free_ports(2 * BROKERS)
    voters = ",".join(f"{number + 1}@127.0.0.1:{ports[number]}" for number in range(BROKERS))
    cluster_id = base64.urlsafe_b64encode(b"o" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    nodes = {}
    for number in range(BROKERS):
        node_id, port, controller_port = number + 1, ports[BROKERS + number], ports[number]
        home = directory / f"broker-{node_id}"
        home.mkdir(parents=True)
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(home / "data"),
            "min.insync.replicas": "2",
            "default.replication.factor": "3",
            "group.initial.rebalance.delay.ms": "0",
        }
        configuration = home / "server.properties"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        kafka.run_tool("storage", "format", "-t", cluster_id, "-c", str(configuration))
        nodes[node_id] = KafkaNode(kafka, configuration, home / "data", port)
    return nodes


class Measurement:
    """The measurements of one cluster, from its start to its end."""

    def __init__(self, start: Callable[[], Cluster], scale: float) -> None:
        self._started = time.perf_counter()
        self.cluster = start()
        self._admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        self._scale = scale

    def figures(self) -> Iterator[tuple[str, float]]:
        self._first_acknowledgement()
        yield "cold start of three brokers", time.perf_counter() - self._started
        yield "memory of three brokers when idle", self._resident_megabytes()
        yield from self.loads()
        yield "memory of three brokers after the load", self._resident_megabytes()
        leaderless_s, silence_s = self._failover()
        yield "failover after kill -9: without a leader", leaderless_s
        yield "failover after kill -9: without an acknowledgement", silence_s

    def loads(self) -> Iterator[tuple[str, float]]:
        """Measures produce throughput and end-to-end latency on new topics; may be repeated."""
        for record_bytes in (100, 1000):
            count = int(300 * MEGABYTE * self._scale) // record_bytes
            topic = self._make_topic()
            before = self._cpu_s()
            elapsed = librdkafka.produce(
                self.cluster.bootstrap, topic, count, record_bytes, partitions=1, acks="all"
            )
            yield f"produce {record_bytes} B to 3 replicas, acks=all", count / elapsed
            cpu_s = (self._cpu_s() - before) / count * 1e6
            yield f"CPU to produce {record_bytes} B to 3 replicas, acks=all", cpu_s
        durations = librdkafka.round_trips(
            self.cluster.bootstrap, self._make_topic(), int(5000 * self._scale), 0.002, acks="all"
        )
        for rank in (0.5, 0.99):
            name = f"end to end, 3 replicas, acks=all, p{rank * 100:g}"
            yield name, percentile(durations, rank) * 1000

    def _first_acknowledgement(self) -> None:
        topic = self._make_topic()
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "linger.ms": 0}
        )
        outcome: list[KafkaError | None] = []
        producer.produce(topic, b"first", on_delivery=lambda error, _: outcome.append(error))
        producer.flush(PATIENCE_S)
        if outcome != [None]:
            raise RuntimeError(f"the first record was not acknowledged: {outcome}")

    def _make_topic(self) -> str:
        """Creates a topic and waits until its replicas are in sync; the cluster may still be
        starting."""
        name = f"benchmark-{uuid.uuid4().hex[:8]}"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._admin.create_topics(
                    [NewTopic(name, 1, BROKERS, config={"min.insync.replicas": "2"})],
                    request_timeout=5,
                )[name].result(5)
                break
            except TimeoutError:
                # The cluster was starting. The next attempt finds out whether this one created the
                # topic.
                continue
            except KafkaException as problem:
                if problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    break
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        while len(self._describe(name).partitions[0].isrs) < BROKERS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the replicas of {name} do not get in sync")
            time.sleep(0.005)
        return name

    def _describe(self, topic: str) -> TopicMetadata:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            described = self._admin.list_topics(topic, 5).topics[topic]
            if described.partitions or time.monotonic() > deadline:
                return described

    def _failover(self) -> tuple[float, float]:
        """Returns the seconds without a leader, and the longest wait for an acknowledgement."""
        topic = self._make_topic()
        leader = self._describe(topic).partitions[0].leader
        addresses = self.cluster.bootstrap.split(",")
        del addresses[leader - 1]
        survivors = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})
        # Connects to the survivors now, so that it does not ask the killed broker later.
        survivors.list_topics(topic, 5)
        acknowledged: list[float] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is None:
                acknowledged.append(time.perf_counter())

        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        killed_at = led_at = 0.0
        deadline = time.perf_counter() + PATIENCE_S
        while not led_at or acknowledged[-1] < led_at:
            producer.produce(topic, b"x" * 100, on_delivery=note)
            producer.poll(0.005)
            if not killed_at and len(acknowledged) >= 100:
                killed_at = time.perf_counter()
                self.cluster.kill(leader)
            elif killed_at and not led_at and _has_another_leader(survivors, topic, leader):
                led_at = time.perf_counter()
            if time.perf_counter() > deadline:
                raise RuntimeError("nobody took over")
        producer.flush(PATIENCE_S)
        return led_at - killed_at, max(later - earlier for earlier, later in pairwise(acknowledged))

    def _resident_megabytes(self) -> float:
        resident: int = sum(one.memory_info().rss for one in self.cluster.processes())
        return resident / MEGABYTE

    def _cpu_s(self) -> float:
        times = [one.cpu_times() for one in self.cluster.processes()]
        used: float = sum(one.user + one.system for one in times)
        return used


def _has_another_leader(admin: AdminClient, topic: str, before: int) -> bool:
    try:
        found = admin.list_topics(topic, 1).topics[topic].partitions
    except KafkaException:
        return False
    return bool(found) and found[0].leader not in (-1, before)


@contextmanager
def measuring(start: Callable[[], Cluster], scale: float) -> Iterator[Measurement]:
    measurement = Measurement(start, scale)
    try:
        yield measurement
    finally:
        measurement.cluster.stop()


def run(rounds: int, scale: float, kafka: ApacheKafka | None, directory: Path) -> Results:
    results = Results()
    for number in range(rounds):
        makers: dict[str, Callable[[Path], Callable[[], Cluster]]] = {OURS: _odradek}
        if kafka is not None:
            makers[THEIRS] = lambda home: _apache(kafka, home)
        names = list(makers) if number % 2 == 0 else list(reversed(makers))
        for name in names:
            home = directory / f"{number}-{name.split()[0]}"
            home.mkdir()
            with measuring(makers[name](home), scale) as measurement:
                for figure, value in measurement.figures():
                    print(f"{name}: {figure}: {value:,.3f}", file=sys.stderr, flush=True)
                    results.add(name, {figure: value})
    return results


def run_together(rounds: int, scale: float, kafka: ApacheKafka, directory: Path) -> Results:
    """Runs both clusters at once. Loads alternate, and the first round is not counted."""
    results = Results()
    homes = {name: directory / name.split()[0] for name in (OURS, THEIRS)}
    for home in homes.values():
        home.mkdir()
    with (
        measuring(_odradek(homes[OURS]), scale) as ours,
        measuring(_apache(kafka, homes[THEIRS]), scale) as theirs,
    ):
        for number in range(rounds + 1):
            pairs = [(OURS, ours), (THEIRS, theirs)]
            for name, measurement in pairs if number % 2 == 0 else reversed(pairs):
                for figure, value in measurement.loads():
                    is_warm = number > 0
                    note = "" if is_warm else " (warming up)"
                    print(f"{name}: {figure}: {value:,.3f}{note}", file=sys.stderr, flush=True)
                    if is_warm:
                        results.add(name, {figure: value})
    return results


def _odradek(home: Path) -> Callable[[], Cluster]:
    return lambda: OdradekCluster(home)


def _apache(kafka: ApacheKafka, home: Path) -> Callable[[], Cluster]:
    nodes = prepare_apache(kafka, home)
    return lambda: ApacheCluster(nodes)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clusters", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load")
    parser.add_argument("--without-kafka", action="store_true", help="measure Odradek alone")
    parser.add_argument(
        "--together", action="store_true", help="both clusters up at once, loads alternate"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value")
    options = parser.parse_args()
    if options.together and options.without_kafka:
        parser.error("--together compares two clusters; leave out --without-kafka")
    kafka = None
    if not options.without_kafka:
        try:
            kafka = ApacheKafka.install()
        except ToolMissing as missing:
            print(f"Apache Kafka cannot be had: {missing}", file=sys.stderr)
            if options.together:
                sys.exit(1)
    scale = 0.1 if options.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="clusters-") as directory:
        if options.together and kafka is not None:
            results = run_together(options.rounds, scale, kafka, Path(directory))
        else:
            results = run(options.rounds, scale, kafka, Path(directory))
    if options.json is not None:
        options.json.write_text(json.dumps(results.values, indent=2))
    print(plain_table(results.compare(OURS, THEIRS)))


if __name__ == "__main__":
    main()
