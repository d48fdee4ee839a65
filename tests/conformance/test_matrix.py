"""Every producer with every consumer and every codec, on records that are awkward on purpose."""

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.conformance.clients import (
    AiokafkaClient,
    Client,
    ConfluentClient,
    KafkaPythonClient,
    KcatClient,
    OdradekClient,
)
from tests.conformance.rows import AWKWARD_ROWS, CODECS, Row
from tests.conformance.topics import create_topic

CLIENTS = ("confluent", "kafka-python", "aiokafka", "kcat", "java", "odradek.client")


class Market:
    """Where clients meet: each producer writes each codec once a broker, all consumers read it."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        plain: list[Client] = [ConfluentClient(), KafkaPythonClient(), AiokafkaClient()]
        plain.append(OdradekClient())
        self._clients = {client.name: client for client in plain}
        self._topics: dict[tuple[int, str, str], str] = {}

    def client(self, name: str) -> Client:
        """A client by name; a tool is asked for only when a test wants it."""
        if name not in self._clients:
            self._clients[name] = self._request.getfixturevalue(f"{name}_client")
        return self._clients[name]

    def topic(self, broker: BrokerProcess, producer: Client, codec: str) -> str:
        wanted = (broker.port, producer.name, codec)
        if wanted not in self._topics:
            topic = create_topic(broker)
            producer.produce(broker.bootstrap, topic, codec, AWKWARD_ROWS)
            self._topics[wanted] = topic
        return self._topics[wanted]


@pytest.fixture(scope="session")
def kcat_client(kcat: str) -> Client:
    return KcatClient(kcat)


@pytest.fixture(scope="session")
def market(request: pytest.FixtureRequest) -> Market:
    return Market(request)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("consumer_name", CLIENTS)
@pytest.mark.parametrize("producer_name", CLIENTS)
def test_each_consumer_reads_what_each_producer_wrote(
    any_broker: BrokerProcess, market: Market, producer_name: str, consumer_name: str, codec: str
) -> None:
    producer, consumer = market.client(producer_name), market.client(consumer_name)
    topic = market.topic(any_broker, producer, codec)

    def comparable(row: Row) -> Row:
        return consumer.promise(producer.promise(row))

    rows = consumer.consume(any_broker.bootstrap, topic, len(AWKWARD_ROWS))
    assert [comparable(row) for row in rows] == [comparable(row) for row in AWKWARD_ROWS]
