"""Clients that ask what to push, and push it: which requests are accepted, and the errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.client import Admin, ConfigChange, ConfigOperation, ConfigResource, ConfigType
from odradek.client.connection import Connection
from odradek.protocol.compression import Codec, compress
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from odradek.telemetry.otlp.decoding import Point
from odradek.telemetry.otlp.encoding import encode
from tests.unit.broker.management.running import Running, running

METRIC = "org.apache.kafka.producer.record.send.total"
FAMILY = "org_apache_kafka_producer_record_send_total"
INTERVAL_MS = 3_600_000


def payload(value: float = 2.0) -> bytes:
    return encode([Point(METRIC, "sent", (("topic", "t"),), value, True, True, True)], {}, 1, 2)


class Client:
    """A client that pushes, request by request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.instance_id = NO_TOPIC_ID
        self.subscription_id = 0

    async def ask(self) -> GetTelemetrySubscriptionsResponse:
        answer = await self._connection.request(
            GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id),
            GetTelemetrySubscriptionsResponse,
        )
        if not answer.error_code:
            self.instance_id, self.subscription_id = (
                answer.client_instance_id,
                answer.subscription_id,
            )
        return answer

    async def push(
        self, data: bytes = payload(), *, codec: int = 0, terminating: bool = False
    ) -> ErrorCode:
        answer = await self._connection.request(
            PushTelemetryRequest(
                client_instance_id=self.instance_id,
                subscription_id=self.subscription_id,
                terminating=terminating,
                compression_type=codec,
                metrics=data,
            ),
            PushTelemetryResponse,
        )
        return ErrorCode(answer.error_code)


@asynccontextmanager
async def clients(
    one: Running, *names: str, interval_ms: int = INTERVAL_MS, metrics: str = "*", match: str = ""
) -> AsyncIterator[list[Client]]:
    await subscribe(one, metrics=metrics, match=match, **{"interval.ms": str(interval_ms)})
    host, _, port = one.broker.bootstrap.partition(":")
    connections = [await Connection.open(host, int(port), client_id=name) for name in names]
    try:
        yield [Client(connection) for connection in connections]
    finally:
        for connection in connections:
            connection.close()


async def subscribe(one: Running, name: str = "all", **settings: str) -> None:
    async with Admin(bootstrap_servers=one.broker.bootstrap) as admin:
        changes = [ConfigChange(key, value) for key, value in settings.items() if value]
        resource = ConfigResource(ConfigType.CLIENT_METRICS, name)
        answers = await admin.incremental_alter_configs({resource: changes})
        assert answers == {resource: None}


async def test_a_push_is_served_at_the_management_port() -> None:
    async with asyncio.timeout(30), running() as one, clients(one, "app") as [client]:
        answer = await client.ask()
        assert answer.requested_metrics == ["*"]
        assert answer.push_interval_ms == INTERVAL_MS
        assert answer.telemetry_max_bytes == 1_048_576
        assert answer.delta_temporality
        assert answer.accepted_compression_types == [4, 3, 1, 2]
        assert await client.push() is ErrorCode.NONE
        # The last push of a client comes when it ends, whatever the interval. Sums are added up.
        data = compress(Codec.ZSTD, payload(5.0))
        assert await client.push(data, codec=Codec.ZSTD, terminating=True) is ErrorCode.NONE
        series = await one.series()
        (key,) = [key for key in series if key[0] == FAMILY]
        labels, value = dict(key[1]), series[key]
        assert value == 7.0
        assert (labels["client_id"], labels["topic"]) == ("app", "t")
        assert labels["client_instance_id"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
async def test_each_compression_is_read(codec: Codec) -> None:
    async with asyncio.timeout(30), running() as one, clients(one, "app") as [client]:
        await client.ask()
        assert await client.push(compress(codec, payload()), codec=codec) is ErrorCode.NONE


async def test_clients_that_ask_or_push_too_often_are_throttled() -> None:
    async with asyncio.timeout(30), running() as one, clients(one, "app") as [client]:
        await client.ask()
        assert (await client.ask()).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await client.push() is ErrorCode.NONE
        assert await client.push() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await client.push(terminating=True) is ErrorCode.NONE
        # Nothing comes after the last push.
        assert await client.push(terminating=True) is ErrorCode.INVALID_REQUEST


async def test_another_subscription_makes_clients_ask_again() -> None:
    async with asyncio.timeout(30), running() as one, clients(one, "app") as [client]:
        await client.ask()
        await subscribe(
            one, "other", metrics="org.apache.kafka.consumer", **{"interval.ms": "1000"}
        )
        assert await client.push() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        answer = await client.ask()
        assert (answer.error_code, answer.push_interval_ms) == (0, 1000)
        assert await client.push() is ErrorCode.NONE


async def test_only_clients_that_match_are_asked_for_metrics() -> None:
    match = "client_id=app-.*,client_source_address=127[.]0[.]0[.]1,client_software_name=odradek.*"
    async with (
        asyncio.timeout(30),
        running() as one,
        clients(one, "app-1", "other-app-1", match=match, metrics="a,b") as [meant, other],
    ):
        assert (await meant.ask()).requested_metrics == ["a", "b"]
        answer = await other.ask()
        assert (answer.requested_metrics, answer.push_interval_ms) == ([], 300_000)


async def test_pushes_that_cannot_be_read_are_refused() -> None:
    properties = {"telemetry.max.bytes": "1000"}
    names = ("a", "b", "c", "d", "e")
    async with asyncio.timeout(30), running(properties) as one, clients(one, *names) as found:
        for client in found:
            await client.ask()
        malformed, compressed, large, bomb, unknown = found
        assert await malformed.push(b"\x0a\xff") is ErrorCode.INVALID_RECORD
        assert await compressed.push(b"damaged", codec=Codec.ZSTD) is ErrorCode.INVALID_RECORD
        assert await large.push(bytes(1001)) is ErrorCode.TELEMETRY_TOO_LARGE
        data = compress(Codec.ZSTD, bytes(10_000_000))
        assert len(data) <= 1000
        assert await bomb.push(data, codec=Codec.ZSTD) is ErrorCode.INVALID_RECORD
        assert await unknown.push(codec=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await unknown.ask()).error_code == 0
        unknown.instance_id = TopicId(NO_TOPIC_ID)
        assert await unknown.push() is ErrorCode.INVALID_REQUEST


async def test_a_broker_without_a_place_for_metrics_does_not_offer_the_apis() -> None:
    async with asyncio.timeout(30), running({"management.listener": ""}) as one:
        host, _, port = one.broker.bootstrap.partition(":")
        connection = await Connection.open(host, int(port), client_id="app")
        assert not connection.supports(GetTelemetrySubscriptionsRequest, 0)
        connection.close()


async def test_settings_of_subscriptions_are_checked() -> None:
    async with (
        asyncio.timeout(30),
        running() as one,
        Admin(bootstrap_servers=one.broker.bootstrap) as admin,
    ):
        resource = ConfigResource(ConfigType.CLIENT_METRICS, "all")
        for name, value, word in (
            ("interval.ms", "99", "100 to 3600000"),
            ("match", "client_name=x", "client_instance_id"),
            ("match", "client_id=[", "regular expression"),
            ("metric", "*", "metrics"),
        ):
            changes = {resource: [ConfigChange(name, value)]}
            error = (await admin.incremental_alter_configs(changes))[resource]
            assert error is not None
            assert error.code is ErrorCode.INVALID_CONFIG
            assert word in str(error)
        await subscribe(one, metrics="a")
        appended = ConfigChange("metrics", "b", ConfigOperation.APPEND)
        await admin.incremental_alter_configs({resource: [appended]})
        described = (await admin.describe_configs([resource]))[resource]
        assert isinstance(described, dict)
        assert {entry.name: entry.value for entry in described.values()} == {
            "metrics": "a,b",
            "interval.ms": "300000",
            "match": "",
        }
        assert await admin.list_config_resources([ConfigType.CLIENT_METRICS]) == [resource]
        deleted = ConfigChange("metrics", None, ConfigOperation.DELETE)
        await admin.incremental_alter_configs({resource: [deleted]})
        assert await admin.list_config_resources([ConfigType.CLIENT_METRICS]) == []
