"""Every command line of the documents that people learn Kafka from, as it is printed there.

They run as a reader would type them: with the scripts of `odradek shims` in `bin/` and on the PATH,
against a real cluster. Each is accepted, or answered with what to type. Only the address of the
broker is replaced, because the cluster of a test listens elsewhere; `--zookeeper localhost:2181`
stays as it is printed. A script that is not ours has `odradek` before its name.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.testing import Cluster

TOPIC = "livin_teh_duck_life"
_PLACES = ("broker:6667", "localhost:6667", "localhost:9092")


class Accepted(NamedTuple):
    """It works; `shows` is in its output."""

    shows: str = ""
    stdin: str = ""


class Answered(NamedTuple):
    """It is refused in one line that has these words."""

    words: str


ZOOKEEPER = "--zookeeper localhost:2181"
HERE = f"Topic: {TOPIC}\t"
LINES: list[tuple[str, Accepted | Answered]] = [
    # A Byte's Journey Through Kafka
    (
        f"./kafka-topics.sh --bootstrap-server broker:6667 --topic {TOPIC} --describe",
        Accepted(HERE),
    ),
    (f"./kafka-topics.sh --bootstrap-server broker:6667 --topic {TOPIC} -describe", Accepted(HERE)),
    (
        (
            "./kafka-consumer-groups.sh --bootstrap-server localhost:6667 --group kittys_junk_shop"
            " --describe"
        ),
        Accepted("LOG-END-OFFSET"),
    ),
    # The book: chapters 2 and 3
    (f"bin/kafka-topics.sh {ZOOKEEPER} --list", Accepted(TOPIC)),
    (
        f"kafka-topics.sh {ZOOKEEPER} --create --topic T --partitions 3 --replication-factor 3",
        Accepted("Created topic T."),
    ),
    (f"kafka-topics.sh {ZOOKEEPER} --list", Accepted("T\n")),
    (f"kafka-topics.sh --describe {ZOOKEEPER} --topic T", Accepted("PartitionCount: 3")),
    (
        "kafka-console-producer.sh --broker-list localhost:9092 --topic T",
        Accepted("", stdin="hello\n"),
    ),
    (
        (
            "timeout -s INT 5 kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic T"
            " --from-beginning --max-messages 1"
        ),
        Accepted("hello"),
    ),
    (
        (
            "odradek connect-standalone.sh config/connect-standalone.properties"
            " config/connect-file-source.properties"
        ),
        Answered("odradek pipeline run"),
    ),
    (
        (
            "kafka-console-consumer --bootstrap-server localhost:9092 --from-beginning --topic T"
            " --new-consumer --max-messages 1"
        ),
        Accepted("hello"),
    ),
    ("odradek connect-standalone WORKER SOURCE SINK", Answered("odradek archive")),
    # Chapter 6
    ("zookeeper-shell.sh localhost:2181 ls /brokers/topics", Answered("odradek zookeeper-shell ")),
    ("zookeeper-shell.sh data ls /brokers/topics", Accepted(TOPIC)),
    ("zookeeper-shell.sh data get /controller", Accepted('"brokerid":')),
    ("zookeeper-shell.sh data", Accepted('"brokerid":', stdin="get /controller\nquit\n")),
    ("zookeeper-shell.sh data delete /controller", Accepted("elect a new controller")),
    (
        (
            "odradek kafka-mirror-maker.sh --consumer.config source.properties --producer.config"
            " target.properties --whitelist test-topic"
        ),
        Answered("odradek archive"),
    ),
    (f"kafka-topics.sh {ZOOKEEPER} --describe --under-replicated-partitions", Accepted()),
    # Chapter 7
    ("kafka-topics.sh", Answered("give exactly one of --create, --list")),
    ("kafka-topics.sh --create", Answered("--create needs --topic NAME; odradek topics --help")),
    (
        (
            "kafka-topics.sh --create --bootstrap-server localhost:9092 --topic my_test_topic"
            " --replica-assignment 1:2,1:2 --if-not-exists"
        ),
        Accepted("Created topic"),
    ),
    (
        f"kafka-topics.sh {ZOOKEEPER} --alter --topic my_test_topic --partitions 3",
        Accepted("warning: records with a key go to other partitions"),
    ),
    (f"kafka-topics.sh {ZOOKEEPER} --delete --topic my_test_topic", Accepted("Deleted topic")),
    (
        (
            "kafka-run-class.sh kafka.tools.DumpLogSegments --print-data-log --files"
            " data/broker-1/rolled-0/00000000000000000000.log"
        ),
        Accepted("Log starting offset: 0"),
    ),
    (
        (
            "kafka-run-class.sh kafka.tools.DumpLogSegments --index-sanity-check --files"
            " data/broker-1/rolled-0/00000000000000000000.index"
        ),
        Accepted("00000000000000000000.index"),
    ),
    (
        (
            "kafka-run-class.sh kafka.tools.DumpLogSegments --verify-index-only --deep-iteration"
            " --files data/broker-1/rolled-0/00000000000000000000.index"
        ),
        Accepted("Dumping"),
    ),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --entity-type topics --entity-name T"
            " --add-config segment.ms=60000"
        ),
        Accepted("Completed updating config"),
    ),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --entity-type topics --entity-name T"
            " --delete-config segment.ms"
        ),
        Accepted("Completed updating config"),
    ),
    (
        (
            f"kafka-reassign-partitions.sh {ZOOKEEPER} --generate --topics-to-move-json-file"
            " topics.json --broker-list 1,2,3"
        ),
        Accepted("Proposed partition reassignment configuration"),
    ),
    (
        f"kafka-reassign-partitions.sh {ZOOKEEPER} --execute --reassignment-json-file plan.json",
        Accepted("Successfully started partition reassignment"),
    ),
    (
        f"kafka-reassign-partitions.sh {ZOOKEEPER} --verify --reassignment-json-file plan.json",
        Accepted("Status of partition reassignment"),
    ),
    (f"kafka-preferred-replica-election.sh {ZOOKEEPER}", Accepted()),
    (
        f"kafka-preferred-replica-election.sh {ZOOKEEPER} --path-to-json-file partitions.json",
        Accepted(),
    ),
    (
        (
            f"kafka-topics.sh --create {ZOOKEEPER} --topic compacted --partitions 1"
            " --replication-factor 3 --config cleanup.policy=compact"
        ),
        Accepted("Created topic compacted."),
    ),
    # Chapter 9
    (
        "odradek kafkacat -P -b localhost:9092 -t T",
        Answered("type: odradek console-producer --bootstrap-server"),
    ),
    (
        "odradek kafkacat -C -b localhost:9092 -t T",
        Answered("--topic T --from-beginning"),
    ),
    (
        "odradek kafka-rest-start etc/kafka-rest/kafka-rest.properties",
        Answered("odradek topics --list --json"),
    ),
    (
        (
            "kafka-consumer-groups.sh --bootstrap-server localhost:9092 --describe --group"
            " kittys_junk_shop"
        ),
        Accepted("LAG"),
    ),
    # Chapter 10
    (
        (
            "kafka-console-producer.sh --broker-list localhost:9092 --topic T --producer.config"
            " client.properties"
        ),
        Accepted("", stdin="from a file\n"),
    ),
    (
        (
            "kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic T --from-beginning"
            " --consumer.config client.properties --max-messages 1"
        ),
        Accepted("\n"),
    ),
    (
        (
            "kafka-acls --authorizer-properties zookeeper.connect=localhost:2181 --add"
            " --allow-principal User:Franz --allow-principal User:Hemingway --operation Read"
            " --operation Write --topic clueful_secrets"
        ),
        Accepted("clueful_secrets"),
    ),
    (
        (
            f"kafka-configs.sh {ZOOKEEPER} --alter --add-config"
            " 'producer_byte_rate=1048576,consumer_byte_rate=10485760' --entity-type clients"
            " --entity-name clueful"
        ),
        Answered("not part of this version yet"),
    ),
    (
        f"kafka-configs.sh {ZOOKEEPER} --describe --entity-type clients --entity-name clueful",
        Answered("not part of this version yet"),
    ),
    # Names that the documents mention without a whole line
    ("odradek kafka-schema-registry-start x.properties", Answered("registry")),
    ("odradek schema-registry-start x.properties", Answered("registry")),
    ("odradek ksql", Answered("odradek pipeline run")),
    ("odradek connect-distributed worker.properties", Answered("odradek pipeline run")),
    ("kafka-run-class kafka.tools.GetOffsetShell --topic T --time -1", Accepted("T:0:")),
    ("kafka-get-offsets.sh --topic T --replicas", Accepted("LOG-END-OFFSET")),
]


class Reader:
    """A reader of the documents at a shell, in a directory of a Kafka distribution."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._environment = {
            **os.environ,
            "ODRADEK_BOOTSTRAP": bootstrap,
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        }
        self._environment.pop("ODRADEK_DEBUG", None)

    def types(self, line: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        for place in _PLACES:
            line = line.replace(place, self._bootstrap)
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self._directory / ("bin" if line.startswith("./") else ""),
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    directory = tmp_path_factory.mktemp("a reader")
    shims = [sys.executable, "-m", "odradek.cli", "shims", str(directory / "bin")]
    subprocess.run(shims, check=True, capture_output=True, timeout=60)
    command = directory / "bin" / "odradek"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m odradek.cli "$@"\n')
    command.chmod(0o755)
    (directory / "topics.json").write_text('{"version":1,"topics":[{"topic":"T"}]}')
    (directory / "plan.json").write_text(
        '{"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[2,3,1]}]}'
    )
    (directory / "partitions.json").write_text('{"partitions":[{"topic":"T","partition":0}]}')
    (directory / "client.properties").write_text("client.id=reader\n")
    settings = {
        "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Cluster(brokers=3, data=str(directory / "data"), settings=settings) as cluster:
        reader = Reader(directory, cluster.bootstrap)
        create = f"odradek topics --create --topic {TOPIC} --partitions 2"
        assert reader.types(create).returncode == 0
        read = f"odradek console-consumer --topic {TOPIC} --from-beginning --max-messages 1"
        produce = f"echo quack | odradek console-producer --topic {TOPIC}"
        done = reader.types(f"{produce} && {read} --group kittys_junk_shop")
        assert done.returncode == 0, done.stderr
        roll = "odradek topics --create --topic rolled --partitions 1 --config segment.bytes=100"
        fill = "seq 100 | odradek console-producer --topic rolled --batch-size 1"
        assert reader.types(f"{roll} && {fill}").returncode == 0
        yield reader


@pytest.mark.xdist_group("documents")
@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _ in LINES])
def test_a_line_is_accepted_or_answered(
    reader: Reader, line: str, expected: Accepted | Answered
) -> None:
    stdin = expected.stdin if isinstance(expected, Accepted) else ""
    done = reader.types(line, stdin)
    if isinstance(expected, Accepted):
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert expected.shows in done.stdout + done.stderr
    else:
        assert done.returncode in {1, 2}, (done.stdout, done.stderr)
        assert expected.words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
