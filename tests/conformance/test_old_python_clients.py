"""Python clients as they were years ago, each in a process of its own beside today's versions."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import ConfluentClient
from tests.conformance.generations.matrix import install_python_client
from tests.conformance.peer import Peer
from tests.conformance.rows import AWKWARD_ROWS, CODECS
from tests.conformance.topics import create_topic
from tests.needs import need

PEER_SOURCE = Path(__file__).resolve().parent / "python_peer.py"
# kafka-python before 2.0.3 does not import on newer Pythons.
RUNS_OLD_KAFKA_PYTHON = sys.version_info < (3, 12)
NEEDS_OLD_PYTHON = pytest.mark.skipif(not RUNS_OLD_KAFKA_PYTHON, reason="needs Python 3.11")

PeerByRequirement = Callable[[str], Peer]


@pytest.fixture(scope="session")
def python_peers() -> Iterator[PeerByRequirement]:
    peers: dict[str, Peer] = {}
    with ExitStack() as running:

        def find(requirement: str) -> Peer:
            if requirement not in peers:
                directory = need(lambda: install_python_client(requirement))
                library = "confluent" if requirement.startswith("confluent") else "kafka-python"
                command = [sys.executable, str(PEER_SOURCE), library]
                environment = {**os.environ, "PYTHONPATH": str(directory)}
                peers[requirement] = running.enter_context(Peer(requirement, command, environment))
            return peers[requirement]

        yield find


@pytest.mark.parametrize(
    ("requirement", "codecs"),
    [
        pytest.param("kafka-python==1.4.7", CODECS[:-1], marks=NEEDS_OLD_PYTHON),
        pytest.param("kafka-python==2.0.2", CODECS, marks=NEEDS_OLD_PYTHON),
        ("confluent-kafka==2.0.2", CODECS),
    ],
)
def test_an_old_client_and_a_new_one_read_each_other(
    any_broker: BrokerProcess,
    python_peers: PeerByRequirement,
    requirement: str,
    codecs: tuple[str, ...],
) -> None:
    old, new = python_peers(requirement), ConfluentClient()
    rows = [row for row in AWKWARD_ROWS if all(value is not None for _, value in row.headers)]
    for codec in codecs:
        for writer, reader in ((old, new), (new, old), (old, old)):
            topic = create_topic(any_broker)
            writer.produce(any_broker.bootstrap, topic, codec, rows)
            read = reader.consume(any_broker.bootstrap, topic, len(rows))
            assert read == rows, f"{codec}: {writer.name} to {reader.name}"
