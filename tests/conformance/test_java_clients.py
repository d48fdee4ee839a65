"""Java clients of three ages: the first with record batches of today, a middle one, the newest."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchmarks.apache_kafka import KAFKA_VERSION, Artifact, install_jars
from benchmarks.broker_process import BrokerProcess
from tests.conformance.peer import Peer, java_peer
from tests.conformance.rows import AWKWARD_ROWS, CODECS, numbered_rows
from tests.conformance.topics import create_topic
from tests.needs import need

VERSIONS = ("0.11.0.0", "2.1.0", KAFKA_VERSION)

PeerByVersion = Callable[[str], Peer]


@pytest.fixture(scope="session")
def java_peers(java: str) -> Iterator[PeerByVersion]:
    """A peer for each version of kafka-clients, started when a test first asks for it."""
    peers: dict[str, Peer] = {}
    with ExitStack() as running:

        def find(version: str) -> Peer:
            if version not in peers:
                clients = Artifact("org.apache.kafka", "kafka-clients", version)
                libraries = need(lambda: install_jars(f"kafka-clients-{version}", [clients]))
                peer = need(lambda: java_peer(libraries, f"java {version}"))
                peers[version] = running.enter_context(peer)
            return peers[version]

        yield find


def codecs_of(version: str) -> tuple[str, ...]:
    """zstd came with 2.1."""
    return CODECS if version != "0.11.0.0" else CODECS[:-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_it_reads_what_it_wrote(
    any_broker: BrokerProcess, java_peers: PeerByVersion, version: str
) -> None:
    peer = java_peers(version)
    for codec in codecs_of(version):
        topic = create_topic(any_broker)
        peer.produce(any_broker.bootstrap, topic, codec, AWKWARD_ROWS)
        rows = peer.consume(any_broker.bootstrap, topic, len(AWKWARD_ROWS))
        assert rows == list(AWKWARD_ROWS), codec


@pytest.mark.parametrize("writer", VERSIONS)
@pytest.mark.parametrize("reader", VERSIONS)
def test_versions_read_one_another(
    any_broker: BrokerProcess, java_peers: PeerByVersion, writer: str, reader: str
) -> None:
    """Ten thousand records without idempotence; the reader may be older than the writer."""
    topic = create_topic(any_broker)
    rows = numbered_rows(10_000, value_bytes=100)
    java_peers(writer).produce(any_broker.bootstrap, topic, "lz4", rows, idempotent=False)
    assert java_peers(reader).consume(any_broker.bootstrap, topic, len(rows)) == rows
