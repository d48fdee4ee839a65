"""The meter between connections and dispatcher: what it counts, and which requests it times."""

import asyncio
from types import MappingProxyType

from odradek.broker.management.sources import LoopIdle
from odradek.broker.network.traffic import Traffic, error_name
from odradek.client.connection import Connection
from odradek.metadata import ClusterImage, TopicImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.types import BrokerId, Offset, TopicId
from tests.unit.broker.harness import batch
from tests.unit.broker.management.running import running, value

ORDERS = TopicId(b"o" * 16)


def traffic(*names: str) -> Traffic:
    topics = {name: TopicImage(name, TopicId(name[:1].encode() * 16), (), {}, 0) for name in names}
    image = ClusterImage(
        topics=MappingProxyType(topics),
        topics_by_id=MappingProxyType({topic.topic_id: topic for topic in topics.values()}),
    )
    return Traffic(lambda: image)


def produce(*sizes: int) -> ProduceRequest:
    data = [
        PartitionProduceData(index=index, records=batch(*[b"v"] * size))
        for index, size in enumerate(sizes)
    ]
    return ProduceRequest(topic_data=[TopicProduceData(topic_id=ORDERS, partition_data=data)])


def answered(*codes: int) -> ProduceResponse:
    answers = [
        PartitionProduceResponse(index=index, error_code=code) for index, code in enumerate(codes)
    ]
    return ProduceResponse(
        responses=[TopicProduceResponse(topic_id=ORDERS, partition_responses=answers)]
    )


def test_records_and_bytes_of_what_was_accepted_and_refused() -> None:
    counted = traffic("orders")
    refused = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert counted.produced(produce(3, 2), answered(0, refused)) == [refused]
    orders = counted.topics["orders"]
    assert (orders.messages_in, orders.produces, orders.failed_produces) == (3, 2, 1)
    assert orders.bytes_in == len(batch(*[b"v"] * 3))
    assert orders.bytes_rejected == len(batch(*[b"v"] * 2))
    # Without acknowledgements there is no response.
    assert counted.produced(produce(1), None) == []
    assert orders.messages_in == 4


def test_denied_topics_stand_behind_the_others() -> None:
    counted = traffic("orders", "secret")
    response = answered(0)
    denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    response.responses.append(
        TopicProduceResponse(
            name="secret",
            partition_responses=[PartitionProduceResponse(index=0, error_code=denied)],
        )
    )
    assert counted.produced(produce(1), response) == [denied]
    assert counted.topics["secret"].failed_produces == 1
    assert counted.topics["orders"].failed_produces == 0


def fetched(records: bytes, error_code: int = 0) -> FetchResponse:
    data = PartitionData(
        partition_index=0, error_code=error_code, high_watermark=Offset(0), records=records
    )
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=ORDERS, partitions=[data])])


def test_consumers_and_followers_are_counted_apart() -> None:
    counted = traffic("orders")
    assert counted.fetched(FetchRequest(), fetched(b"12345")) == []
    follower = FetchRequest(replica_state=ReplicaState(replica_id=BrokerId(2)))
    assert counted.fetched(follower, fetched(b"123")) == []
    out_of_range = int(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert counted.fetched(FetchRequest(), fetched(b"", out_of_range)) == [out_of_range]
    orders = counted.topics["orders"]
    assert (orders.bytes_out, orders.replication_bytes_out) == (5, 3)
    assert (orders.fetches, orders.failed_fetches) == (2, 1)


def test_topics_that_do_not_exist_are_counted_in_the_sum_alone() -> None:
    counted = traffic()
    counted.produced(produce(1), answered(0))
    assert counted.topics == {}
    assert counted.total().messages_in == 1


def test_errors_have_kafkas_names() -> None:
    assert error_name(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(9999) == "9999"


async def test_large_requests_and_unknown_apis_are_counted() -> None:
    async with asyncio.timeout(30), running({"auto.create.topics.enable": "false"}) as one:
        host, _, port = one.broker.bootstrap.partition(":")
        connection = await Connection.open(host, int(port), client_id="test")
        # So many topics that the request is decoded in steps.
        topics = [MetadataRequestTopic(name=f"{'t' * 60}-{number}") for number in range(3000)]
        await connection.request(MetadataRequest(topics=topics), MetadataResponse)
        connection.close()
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\1\xff\xff")
        await writer.drain()

        async def unknown() -> float:
            found = await one.series()
            labels = frozenset({("request", "Unknown"), ("version", "-1")})
            return found.get(("kafka_network_requestmetrics_requests_total", labels), 0.0)

        while not await unknown():
            pass
        writer.close()
        errors = "kafka_network_requestmetrics_errors_total"
        missing = "UNKNOWN_TOPIC_OR_PARTITION"
        # The first thousand error codes are looked at.
        assert value(await one.series(), errors, request="Metadata", error=missing) == 1000


class SteppedClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.now_s


def test_the_idle_time_of_the_loop_is_what_its_thread_does_not_use() -> None:
    clock, used_s = SteppedClock(), [0.0]
    idle = LoopIdle(clock, lambda: used_s[0])
    assert idle.fraction() == 1.0
    clock.now_s, used_s[0] = 10.0, 2.5
    assert idle.fraction() == 0.75
    # Soon after it is still the same figure.
    clock.now_s, used_s[0] = 11.0, 3.5
    assert idle.fraction() == 0.75


async def test_clients_are_counted_by_id_up_to_the_limit() -> None:
    properties = {"odradek.metrics.max.client.ids": "1"}
    async with asyncio.timeout(30), running(properties) as one:
        host, _, port = one.broker.bootstrap.partition(":")
        for name in ("first", "second", "first"):
            connection = await Connection.open(host, int(port), client_id=name)
            await connection.request(MetadataRequest(topics=None), MetadataResponse)
            connection.close()
        series = await one.series()
        # Two connections, each with ApiVersions and Metadata.
        assert value(series, "odradek_client_requests_total", client_id="first") == 4
        assert value(series, "odradek_client_requests_total") == 2
        for name in ("odradek_client_request_bytes_total", "odradek_client_response_bytes_total"):
            assert value(series, name, client_id="first") > 40
        requests = "kafka_network_requestmetrics_requests_total"
        (version,) = [
            dict(labels)["version"] for name, labels in series
            if name == requests and ("request", "Metadata") in labels
        ]  # fmt: skip
        assert value(series, requests, request="Metadata", version=version) == 3


async def test_requests_of_a_client_that_sends_few_are_all_measured() -> None:
    async with asyncio.timeout(30), running() as one:
        host, _, port = one.broker.bootstrap.partition(":")
        connection = await Connection.open(host, int(port), client_id="test")
        for _ in range(3):
            await connection.request(MetadataRequest(topics=None), MetadataResponse)
            await asyncio.sleep(0.01)  # It is due again.
        connection.close()
        times = "kafka_network_requestmetrics_totaltimems"
        assert value(await one.series(), f"{times}_count", request="Metadata") == 3
