"""How spans are sent: in batches, bounded, and without anybody who waits."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from odradek.broker.tracing import exporter as module
from odradek.broker.tracing.exporter import MAX_QUEUED, SpanExporter
from odradek.config.tracing_settings import Endpoint, parse_endpoint
from odradek.config.values import InvalidValue
from odradek.telemetry.tracing.spans import Span, SpanKind
from odradek.world.clock import SystemClock
from odradek.world.workers import ThreadWorkers
from tests.otlp_receiver import otlp_receiver


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the exporter tells nobody when it has sent
            await asyncio.sleep(0.02)


def span(number: int) -> Span:
    return Span(f"s{number}", SpanKind.SERVER, b"\x01" * 16, b"\x02" * 8, 1, 2)


@asynccontextmanager
async def exporting(url: str) -> AsyncIterator[SpanExporter]:
    endpoint = parse_endpoint(url)
    assert endpoint is not None
    workers = ThreadWorkers()
    exporter = SpanExporter(endpoint, {"service.name": "b"}, workers, SystemClock())
    task = asyncio.create_task(exporter.run())
    try:
        yield exporter
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        workers.close()


async def test_all_spans_arrive_in_their_order() -> None:
    with otlp_receiver() as receiver:
        async with exporting(receiver.url) as exporter:
            for number in range(250):
                exporter.offer(partial(span, number))
            await until(lambda: exporter.exported == 250)
        assert [one.name for one in receiver.spans] == [f"s{number}" for number in range(250)]
        assert receiver.requests == 3


async def test_what_does_not_fit_is_dropped_and_counted() -> None:
    exporter = SpanExporter(
        Endpoint(False, "127.0.0.1", 1, "/v1/traces"), {}, ThreadWorkers(), SystemClock()
    )
    for number in range(MAX_QUEUED + 7):
        exporter.offer(partial(span, number))
    assert exporter.dropped == 7


async def test_a_collector_that_refuses_is_told_of_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    with otlp_receiver() as receiver, caplog.at_level(logging.WARNING, "odradek.server"):
        receiver.status = 503
        async with exporting(receiver.url) as exporter:
            for wanted in (1, 2):
                exporter.offer(lambda: span(1))
                await until(partial(lambda count: exporter.dropped == count, wanted))
            receiver.status = 200
            exporter.offer(lambda: span(2))
            await until(lambda: exporter.exported == 1)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"spans cannot be sent to {receiver.url}/v1/traces: it answers 503; 1 are lost so far"
    ]


async def test_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "odradek.server"):
        async with exporting("http://127.0.0.1:1") as exporter:
            exporter.offer(lambda: span(1))
            await until(lambda: exporter.dropped == 1)
    assert "spans cannot be sent to http://127.0.0.1:1/v1/traces" in caplog.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://host", "http://host:4318/v1/traces"),
        ("https://host:443/otlp/traces", "https://host:443/otlp/traces"),
        ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
        ("http://[::1]", "http://[::1]:4318/v1/traces"),
    ],
)
def test_endpoints(text: str, shown: str) -> None:
    assert str(parse_endpoint(text)) == shown


@pytest.mark.parametrize("text", ["host:4318", "grpc://host:4317", "http://", "http://host:99999"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"write it as http://127\.0\.0\.1:4318"):
        parse_endpoint(text)
    assert parse_endpoint(" ") is None
