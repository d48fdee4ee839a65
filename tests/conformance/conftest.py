"""Real brokers for tests with real clients.

``apache_kafka`` is the reference, ``odradek_broker`` is ours, ``any_broker`` is each in turn: what
a test says of a client must hold for Apache Kafka first. Both are real processes on loopback,
started when a test first asks and once a worker.

A tool that is missing (Java, mvn, kcat) skips the test by name on a user's machine and fails it
where ``CI=true``: ``tests/needs.py`` decides.
"""

from collections.abc import Iterator

import pytest

from benchmarks.apache_kafka import ApacheKafka, java_program, require_program
from benchmarks.broker_process import BrokerProcess
from benchmarks.broker_process import odradek_broker as running_odradek
from tests.conformance.peer import Peer, java_peer
from tests.needs import need


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what shares a broker on one worker (--dist loadgroup), so each broker starts once."""
    for item in items:
        if "tests/conformance" not in item.path.as_posix() or "xdist_group" in item.keywords:
            continue
        names = set(getattr(item, "fixturenames", ()))
        uses_apache = "apache_kafka" in names or "[apache" in item.name
        item.add_marker(pytest.mark.xdist_group("apache-kafka" if uses_apache else "odradek"))


@pytest.fixture(scope="session")
def java() -> str:
    return need(java_program)


@pytest.fixture(scope="session")
def kcat() -> str:
    return need(lambda: require_program("kcat", "kcat", "kcat"))


@pytest.fixture(scope="session")
def kafka_home(java: str) -> ApacheKafka:
    """Apache Kafka's jars and tools; no broker."""
    return need(ApacheKafka.install)


@pytest.fixture(scope="session")
def apache_kafka(
    kafka_home: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A running Apache Kafka."""
    with kafka_home.broker(tmp_path_factory.mktemp("apache-kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def odradek_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running ``odradek up``."""
    with running_odradek(tmp_path_factory.mktemp("odradek")) as broker:
        yield broker


@pytest.fixture(
    scope="session", params=["apache_kafka", "odradek_broker"], ids=["apache", "odradek"]
)
def any_broker(request: pytest.FixtureRequest) -> BrokerProcess:
    broker: BrokerProcess = request.getfixturevalue(request.param)
    return broker


@pytest.fixture(scope="session")
def java_client(kafka_home: ApacheKafka) -> Iterator[Peer]:
    """The newest Java client, in one JVM for all tests."""
    with need(lambda: java_peer(kafka_home.libraries, "java")) as peer:
        yield peer
