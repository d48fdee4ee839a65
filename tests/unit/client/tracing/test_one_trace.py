"""One trace from the program that sends through the broker to the program that reads, as a real
collector receives it."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from odradek.client import Consumer, Producer, ProducerRecord, TopicPartition
from odradek.client.tracing import (
    ConsumerTracing,
    ProducerTracing,
    context_of,
    contexts,
    process_span,
    row_span,
    trace_headers,
)
from odradek.testing import Cluster
from odradek.world.installing import install_line
from tests.otlp_receiver import Receiver, otlp_receiver

PRODUCER, CONSUMER, SERVER = 4, 5, 2
Compression = Literal["none", "zstd"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(receiver: Receiver) -> Iterator[Cluster]:
    settings = {
        "odradek.tracing.otlp.endpoint": receiver.url,
        "odradek.tracing.slow.ms": "0",
    }
    with Cluster(settings=settings) as made:
        yield made


@pytest.fixture
def provider(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    """A provider of this test alone: that of a process can be set only once."""
    made = TracerProvider(resource=Resource.create({"service.name": "program"}))
    exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces")
    made.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    monkeypatch.setattr(contexts, "tracer", lambda: made.get_tracer("test"))
    monkeypatch.setattr(
        "odradek.client.tracing.interceptors.tracer", lambda: made.get_tracer("test")
    )
    yield made
    made.shutdown()


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_producer_broker_and_consumer_share_a_trace(
    cluster: Cluster, receiver: Receiver, provider: TracerProvider, compression: Compression
) -> None:
    topic = cluster.create_topic()
    with provider.get_tracer("test").start_as_current_span("order") as order:
        async with Producer(
            bootstrap_servers=cluster.bootstrap,
            compression_type=compression,
            client_id=f"shop-{compression}",
            interceptors=[ProducerTracing()],
        ) as producer:
            where = await producer.send_and_wait(topic, b"x" * 500, headers=[("h", b"1")])
    async with Consumer(
        bootstrap_servers=cluster.bootstrap, interceptors=[ConsumerTracing()]
    ) as consumer:
        partition = TopicPartition(topic, where.partition)
        consumer.assign([partition])
        consumer.seek(partition, where.offset)
        record = await anext(consumer)
        with process_span(record):
            pass
    assert record.headers[0] == ("h", b"1")
    trace_id = f"{order.get_span_context().trace_id:032x}"
    mine = receiver.wait_for(
        lambda spans: (
            [one for one in spans if one.trace_id == trace_id]
            if {"Produce", f"send {topic}", f"receive {topic}", f"process {topic}"}
            <= {one.name for one in spans if one.trace_id == trace_id}
            else None
        )
    )
    joined = {one.name: one for one in mine if one.trace_id == trace_id}
    sent, received = joined[f"send {topic}"], joined[f"receive {topic}"]
    broker, processed = joined["Produce"], joined[f"process {topic}"]
    assert (sent.kind, broker.kind, received.kind) == (PRODUCER, SERVER, CONSUMER)
    assert sent.parent_id == f"{order.get_span_context().span_id:016x}"
    assert {broker.parent_id, received.parent_id, processed.parent_id} == {sent.span_id}
    assert (broker.service, sent.service) == ("odradek", "program")
    assert broker.attributes["messaging.client.id"] == f"shop-{compression}"
    assert sent.attributes["messaging.kafka.offset"] == where.offset
    assert broker.begin_ns <= broker.end_ns


async def test_requests_without_a_trace_begin_their_own(
    cluster: Cluster, receiver: Receiver
) -> None:
    topic = cluster.create_topic()
    async with Producer(bootstrap_servers=cluster.bootstrap, client_id="plain") as producer:
        await producer.send_and_wait(topic, b"x")
    receiver.wait_for(
        lambda spans: any(
            one.name == "Produce" and one.attributes["messaging.client.id"] == "plain"
            for one in spans
        )
    )
    (span,) = [
        one for one in receiver.named("Produce") if one.attributes["messaging.client.id"] == "plain"
    ]
    assert span.parent_id == ""
    assert span.trace_id.strip("0")
    assert span.attributes["odradek.request.remote_ms"] >= 0


async def test_a_batch_of_many_traces_is_linked_to_the_others(
    cluster: Cluster, receiver: Receiver
) -> None:
    topic = cluster.create_topic()
    parents = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2, 3)]
    parents.append(f"00-{4:032x}-{4:016x}-00")  # It is not recorded, so it is left out.
    async with Producer(
        bootstrap_servers=cluster.bootstrap, linger_ms=200, client_id="many"
    ) as producer:
        for parent in parents:
            await producer.send(topic, b"x", headers=[("traceparent", parent.encode())])
        await producer.flush()
    receiver.wait_for(
        lambda spans: any(
            one.attributes.get("messaging.client.id") == "many" and one.links for one in spans
        )
    )
    (span,) = [one for one in receiver.spans if one.links and one.name == "Produce"]
    assert (span.trace_id, span.parent_id) == (f"{1:032x}", f"{1:016x}")
    assert span.links == [(f"{2:032x}", f"{2:016x}"), (f"{3:032x}", f"{3:016x}")]


def test_a_send_that_fails_is_an_error(receiver: Receiver, provider: TracerProvider) -> None:
    tracing = ProducerTracing()
    record = tracing.on_send(ProducerRecord("lost-topic", b"x"))
    tracing.on_acknowledgement(None, ValueError("too large"), record)
    tracing.on_acknowledgement(None, None, record)  # nothing happens twice
    open_ = tracing.on_send(ProducerRecord("open-topic", b"x"))
    assert open_.headers
    tracing.close()
    provider.force_flush()
    receiver.wait_for(lambda spans: any(one.name == "send open-topic" for one in spans))
    (failed,) = receiver.named("send lost-topic")
    assert failed.error == "too large"


def test_a_row_of_spark_joins_the_trace(receiver: Receiver, provider: TracerProvider) -> None:
    parent = f"00-{'c' * 32}-{'d' * 16}-01"
    row = {
        "topic": "orders",
        "partition": 1,
        "offset": 7,
        "headers": [{"key": "traceparent", "value": bytearray(parent.encode())}],
    }
    with row_span(row, "score") as span:
        onwards = trace_headers([("kept", b"1"), ("traceparent", b"old")])
    assert onwards[0] == ("kept", b"1")
    assert onwards[1:] == [
        ("traceparent", f"00-{'c' * 32}-{span.get_span_context().span_id:016x}-01".encode())
    ]
    provider.force_flush()
    receiver.wait_for(lambda spans: any(one.name == "score" for one in spans))
    (scored,) = receiver.named("score")
    assert (scored.trace_id, scored.parent_id) == ("c" * 32, "d" * 16)
    assert scored.attributes["messaging.kafka.offset"] == 7


def test_headers_that_carry_no_trace() -> None:
    for headers in (None, [], [("traceparent", None)], [("traceparent", b"nonsense")]):
        found = trace.get_current_span(context_of(headers)).get_span_context()
        assert not found.is_valid


def test_nothing_of_it_is_loaded_unless_asked_for() -> None:
    program = (
        "import sys, odradek.client.producer.producer, odradek.client.consumer.consumer,"
        " odradek.broker.broker, odradek.client.tracing\n"
        "print([one for one in sys.modules if one.startswith(('opentelemetry',"
        " 'odradek.broker.tracing', 'odradek.telemetry.tracing'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from odradek.client.settings import ProducerSettings\n"
        "try:\n"
        "    ProducerSettings.from_properties({'bootstrap.servers': 'h:1',"
        " 'interceptor.classes': 'odradek.client.tracing:ProducerTracing'})\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert install_line("tracing") in done.stdout
