"""Our tools for groups and transactions beside Apache Kafka's own, on the same brokers.

Groups of both protocols and open transactions are made by real clients on Apache Kafka and on
Odradek; then both tools look at each, and at the files of the internal topics that each left.
Kafka's tools print rows in the order of a hash table, so rows are compared without order.
"""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import BrokerProcess
from benchmarks.broker_process import odradek_broker as running_odradek
from tests.scenarios.hanging_transaction import leave_hanging

TOOLS = {
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
}
RESET = "consumer-groups --reset-offsets --group idle"
COMMANDS = [
    "consumer-groups --list --state --type",
    "consumer-groups --describe --all-groups",
    "consumer-groups --describe --all-groups --verbose",
    "consumer-groups --describe --all-groups --members",
    "consumer-groups --describe --all-groups --members --verbose",
    "consumer-groups --describe --all-groups --state --verbose",
    f"{RESET} --topic orders:1 --topic payments --to-latest --dry-run",
    f"{RESET} --all-topics --shift-by -1 --dry-run --export",
    "groups --list",
    "groups --list --group-type consumer",
    "transactions list",
    "transactions describe-producers --topic orders --partition 0",
    "transactions find-hanging --topic orders",
]
FIRST_SEGMENT = "00000000000000000000.log"
DUMPS = [
    f"dump-log --offsets-decoder --files __consumer_offsets-0/{FIRST_SEGMENT}",
    f"dump-log --transaction-log-decoder --files __transaction_state-0/{FIRST_SEGMENT}",
]
# All groups in one file, all transactions in another.
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Lets a transaction hang.
    "transaction.partition.verification.enable": "false",
}
HANGING = "transactions find-hanging --topic payments"
ABORTED = f"{HANGING} # once it was aborted"


class Said(NamedTuple):
    rows: list[str]
    complaints: str


class Pair(NamedTuple):
    theirs: Said
    ours: Said


def said(command: list[str], directory: Path) -> Said:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=directory
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    # Kafka ends an export with an empty line, which programs that read CSV do not need.
    return Said(sorted(filter(None, done.stdout.split("\n"))), done.stderr)


def ask_both(kafka_home: ApacheKafka, line: str, *more: str, directory: Path) -> Pair:
    tool, *flags = line.split()
    java = kafka_home.java_command(TOOLS[tool])
    java.insert(1, "-Dstdout.encoding=UTF-8")
    ours = [sys.executable, "-m", "odradek.cli", tool]
    with ThreadPoolExecutor() as both:
        theirs = both.submit(said, [*java, *more, *flags], directory)
        return Pair(ours=said([*ours, *more, *flags], directory), theirs=theirs.result())


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic("orders", 2, 1), NewTopic("payments", 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    producer.produce("payments", b"x")
    assert producer.flush(60) == 0


def join(bootstrap: str, group: str, settings: dict[str, str]) -> confluent_kafka.Consumer:
    """A member that has read and committed everything."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe(["orders", "payments"])
    read = 0
    while read < 11:
        read += len(consumer.consume(11, 1))
    consumer.commit(asynchronous=False)
    return consumer


def begin(bootstrap: str, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"in a transaction", partition=0)
    assert producer.flush(60) == 0
    return producer


def look_while_it_runs(kafka_home: ApacheKafka, broker: BrokerProcess) -> dict[str, Pair]:
    bootstrap = broker.bootstrap
    make_topics(bootstrap)
    members = [
        join(bootstrap, "grüße", {"group.instance.id": "one"}),
        join(bootstrap, "modern", {"group.protocol": "consumer"}),
    ]
    join(bootstrap, "left", {"partition.assignment.strategy": "cooperative-sticky"}).close()
    idle = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "idle"})
    idle.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 2)], asynchronous=False)
    idle.close()
    begin(bootstrap, "committed").commit_transaction(60)
    pending = begin(bootstrap, "pending")
    where = ("--bootstrap-server", bootstrap)
    seen = {
        line: ask_both(kafka_home, line, *where, directory=broker.data_directory)
        for line in COMMANDS
    }
    pending.abort_transaction(60)
    asyncio.run(leave_hanging(bootstrap, "payments", timestamp_ms=1_700_000_000_000))
    seen[HANGING] = ask_both(kafka_home, HANGING, *where, directory=broker.data_directory)
    abort = ["abort", "--topic", "payments", "--partition", "0", "--start-offset", "1"]
    ours = [sys.executable, "-m", "odradek.cli", "transactions"]
    said([*ours, *where, *abort], broker.data_directory)
    seen[ABORTED] = ask_both(kafka_home, HANGING, *where, directory=broker.data_directory)
    for member in members:
        member.close()
    return seen


@pytest.fixture(scope="module", params=["apache", "odradek"])
def seen(
    request: pytest.FixtureRequest,
    kafka_home: ApacheKafka,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Pair]:
    """What both tools said of a broker while it ran, and of its files once it had ended."""
    directory = tmp_path_factory.mktemp(request.param)
    start = kafka_home.broker if request.param == "apache" else running_odradek
    with start(directory, SETTINGS) as broker:
        pairs = look_while_it_runs(kafka_home, broker)
    for line in DUMPS:
        pairs[line] = ask_both(kafka_home, line, directory=broker.data_directory)
    return pairs


@pytest.mark.parametrize("line", [*COMMANDS, *DUMPS])
def test_both_tools_say_the_same(seen: dict[str, Pair], line: str) -> None:
    theirs, ours = seen[line]
    assert ours.rows == theirs.rows
    assert ours.complaints == theirs.complaints
    assert ours.rows


def test_a_hanging_transaction_is_found_and_then_gone(seen: dict[str, Pair]) -> None:
    for theirs, ours in (seen[HANGING], seen[ABORTED]):
        # The last cell is how many minutes ago, and the two tools ran one after the other.
        cells = [[row.split("\t")[:-2] for row in said.rows] for said in (theirs, ours)]
        assert cells[0] == cells[1]
    assert [len(seen[line].ours.rows) for line in (HANGING, ABORTED)] == [2, 1]
