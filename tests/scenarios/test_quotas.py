"""Quotas with a real broker and real clients, for some seconds each: no client exceeds its limit.

`python -m tests.scenarios.quotas` measures for longer, and from below too.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker_process import odradek_broker
from tests.needs import need
from tests.scenarios.quotas import NAMES, QuotaScenario

SECONDS = 5.0
# A window's worth may be used at once, and a response of half a window more. So what is worth five
# seconds is read in three and a half.
MOST = SECONDS / (SECONDS - 1.5)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuotaScenario]:
    with odradek_broker(tmp_path_factory.mktemp("quotas")) as broker:
        yield QuotaScenario(broker, SECONDS, 500_000)


@pytest.mark.parametrize("name", NAMES)
def test_no_client_exceeds_its_quota(scenario: QuotaScenario, name: str) -> None:
    if name.endswith("java"):
        need(ApacheKafka.install)
    measured = scenario.measure(name)
    assert 0 < measured.reached <= MOST * measured.limit, str(measured)


def test_kafkas_own_tool_sets_and_shows_quotas(tmp_path: Path) -> None:
    kafka = need(ApacheKafka.install)
    with odradek_broker(tmp_path) as broker:
        flags = ["--bootstrap-server", broker.bootstrap]
        whose = ["--entity-type", "users", "--entity-name", "ada", "--entity-type", "clients",
                 "--entity-default"]  # fmt: skip
        kafka.run_tool(
            "configs", *flags, "--alter", *whose, "--add-config",
            "producer_byte_rate=1024,request_percentage=12.5",
        )  # fmt: skip
        shown = kafka.run_tool("configs", *flags, "--describe", *whose)
        assert "user-principal 'ada', the default client-id" in shown
        assert "producer_byte_rate=1024.0" in shown
        assert "request_percentage=12.5" in shown
        kafka.run_tool("configs", *flags, "--alter", *whose, "--delete-config",
                       "producer_byte_rate,request_percentage")  # fmt: skip
        assert "producer_byte_rate" not in kafka.run_tool("configs", *flags, "--describe", *whose)
