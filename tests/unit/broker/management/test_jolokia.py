import asyncio
from typing import Any, cast

import pytest

from odradek.broker.management.jolokia import ObjectName, split_path
from odradek.broker.management.rates import Rates
from odradek.telemetry.catalogue import topics
from odradek.telemetry.declarations import Collected
from tests.unit.broker.management.running import running


@pytest.mark.parametrize(
    ("pattern", "is_match"),
    [
        ("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t", True),
        # The order of the keys does not matter.
        ("kafka.server:topic=t,name=BytesInPerSec,type=BrokerTopicMetrics", True),
        ("kafka.server:type=BrokerTopicMetrics,*", True),
        ("kafka.*:name=Bytes*,type=*,topic=*", True),
        # Without `,*` every key must be named.
        ("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec", False),
        ("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=u", False),
        ("kafka.log:type=*,*", False),
    ],
)
def test_patterns(pattern: str, is_match: bool) -> None:
    name = ObjectName.parse("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t")
    assert ObjectName.parse(pattern).matches(name) is is_match


def test_a_slash_inside_a_name_is_escaped() -> None:
    path = "/read/kafka.log:type=LogManager,logDirectory=!/data!/a!!/Value"
    assert split_path(path) == ["read", "kafka.log:type=LogManager,logDirectory=/data/a!", "Value"]


async def test_mbeans_are_read_listed_and_searched() -> None:
    async with asyncio.timeout(30), running() as one:
        name = "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"
        read = await one.json(f"/jolokia/read/{name}/Value")
        assert (read["status"], read["value"]) == (200, 0)
        assert read["request"] == {"type": "read", "mbean": name, "attribute": "Value"}
        whole = await one.json(
            "/jolokia/read/kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
        )
        assert set(cast("dict[str, Any]", whole["value"])) == {
            "Count",
            "MeanRate",
            "OneMinuteRate",
            "FiveMinuteRate",
            "FifteenMinuteRate",
        }
        found = await one.json("/jolokia/search/kafka.controller:type=KafkaController,*")
        assert "kafka.controller:type=KafkaController,name=ActiveControllerCount" in cast(
            "list[str]", found["value"]
        )
        listed = cast("dict[str, Any]", (await one.json("/jolokia/list"))["value"])
        assert "type=KafkaServer,name=BrokerState" in listed["kafka.server"]
        assert "OpenFileDescriptorCount" in listed["java.lang"]["type=OperatingSystem"]["attr"]


async def test_what_is_not_there_is_said() -> None:
    async with asyncio.timeout(30), running() as one:
        missing = await one.json("/jolokia/read/kafka.server:type=Nothing,name=Here")
        assert missing["status"] == 404
        assert "there is no MBean kafka.server:type=Nothing" in str(missing["error"])
        attribute = await one.json("/jolokia/read/kafka.server:type=KafkaServer,name=BrokerState/X")
        assert "has no X; it has Value" in str(attribute["error"])
        assert (await one.json("/jolokia/read/nonsense"))["status"] == 400
        assert (await one.json("/jolokia/exec/a:b=c"))["status"] == 400


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.now_s


def test_rates_are_of_their_minutes() -> None:
    clock = ManualClock()
    rates = Rates(clock)
    for minute in range(1, 11):
        clock.now_s = 60.0 * minute
        collected = Collected()
        # 60 bytes in each of the first nine minutes, 600 in the tenth.
        collected.add(topics.BYTES_IN, 60 * minute + (540 if minute == 10 else 0), "")
        collected.add(topics.BYTES_IN, 1, "orders")
        rates.note(collected)
    found = rates.attributes(topics.BYTES_IN, ("",), 1140)
    assert found["OneMinuteRate"] == 10.0
    assert found["FiveMinuteRate"] == pytest.approx((4 * 60 + 600) / 300)
    assert found["MeanRate"] == pytest.approx(1140 / 600)
    assert set(rates.attributes(topics.BYTES_IN, ("orders",), 1)) == {"MeanRate"}
