"""Burrow's HTTP API, asked without a network."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from odradek.ops.lag.api import BurrowApi
from odradek.ops.lag.history import LagHistory, Position, Sample
from odradek.ops.lag.sampling import LagAdmin
from odradek.ops.lag.service import LagService
from odradek.protocol.types import TopicPartition
from odradek.web.application import application
from odradek.web.guards import Policy

ORDERS = TopicPartition("orders", 1)


class Clock:
    def now_ms(self) -> int:
        return 30_000

    def monotonic_s(self) -> float:
        return 30.0


def service() -> LagService:
    history = LagHistory()
    for at_ms in (0, 10_000, 20_000, 30_000):
        groups: Mapping[str, Mapping[TopicPartition, Position]] = {
            "stuck": {ORDERS: Position(5, "host", "c")},
            "fine": {ORDERS: Position(100, "host", "c")},
        }
        history.add(Sample(at_ms, groups, {ORDERS: 100}))
    return LagService(cast(LagAdmin, None), Clock(), history, "local", say=print)


def ask(path: str, method: str = "GET") -> tuple[int, Any]:
    app = application("lag", "1", BurrowApi(service()).endpoints(), Policy())
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"host", b"localhost")], "scheme": "http",
        "server": ("localhost", 80), "client": ("localhost", 1), "http_version": "1.1",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    is_json = b"application/json" in dict(sent[0]["headers"]).values()
    return sent[0]["status"], msgspec.json.decode(body) if is_json else body.decode()


def test_clusters_topics_and_groups_are_listed() -> None:
    assert ask("/v3/kafka")[1]["clusters"] == ["local"]
    assert ask("/v3/kafka/local/consumer")[1]["consumers"] == ["fine", "stuck"]
    assert ask("/v3/kafka/local/topic")[1]["topics"] == ["orders"]
    assert ask("/v3/kafka/local/topic/orders")[1]["offsets"] == [0, 100]
    assert ask("/v3/kafka/local/topic/orders/consumers")[1]["consumers"] == ["fine", "stuck"]


def test_status_shows_what_is_wrong_and_lag_shows_all() -> None:
    code, answer = ask("/v3/kafka/local/consumer/stuck/status")
    assert (code, answer["error"]) == (200, False)
    assert answer["status"]["status"] == "ERR"
    assert answer["status"]["partitions"][0]["status"] == "STALL"
    assert answer["request"]["url"] == "/v3/kafka/local/consumer/stuck/status"
    assert ask("/v3/kafka/local/consumer/fine/status")[1]["status"]["partitions"] == []
    assert len(ask("/v3/kafka/local/consumer/fine/lag")[1]["status"]["partitions"]) == 1


def test_a_window_has_empty_places_first() -> None:
    topics = ask("/v3/kafka/local/consumer/stuck")[1]["topics"]
    absent, window = topics["orders"]
    assert absent is None
    assert window["offsets"][:6] == [None] * 6
    assert [commit["lag"] for commit in window["offsets"][6:]] == [95] * 4
    assert window["current-lag"] == 95


def test_what_is_not_there_is_404() -> None:
    for path in ("other/consumer", "local/consumer/nobody/status", "local/topic/none", "other"):
        code, answer = ask(f"/v3/kafka/{path}")
        assert (code, answer["error"]) == (404, True)


def test_health_and_forgetting() -> None:
    assert ask("/burrow/admin") == (200, "GOOD")
    assert ask("/burrow/admin/ready") == (200, "READY")
    assert ask("/v3/kafka/local/consumer/stuck", "DELETE")[0] == 200


def test_metrics_have_the_names_of_burrow() -> None:
    text = ask("/metrics")[1]
    labels = 'cluster="local",consumer_group="stuck"'
    assert f"burrow_kafka_consumer_status{{{labels}}} 3\n" in text
    where = f'{labels},topic="orders",partition="1"'
    assert f"burrow_kafka_topic_partition_status{{{where}}} 5\n" in text
