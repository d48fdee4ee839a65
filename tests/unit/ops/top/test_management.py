"""The management ports: finding them, and reading what they serve."""

import pytest

from odradek.client.settings.shared import AdminSettings
from odradek.local.management_ports import management_listeners
from odradek.ops.top import management
from odradek.ops.top.management import ManagementPorts, SeriesParser, address_of
from odradek.ops.top.monitor import MonitorAdmin
from odradek.ops.top.sampling import take_cluster_sample
from odradek.telemetry.catalogue import ALL
from odradek.testing import Cluster
from odradek.world.clock import SystemClock


def test_every_series_that_is_read_is_declared() -> None:
    declared = {metric.name for metric in ALL.values()}
    assert management.NAMES - declared == set()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_labels_are_read_as_they_are_written(size: int) -> None:
    text = f"""\
# HELP {management.LAG_SECONDS} something
{management.LAG_SECONDS}{{consumergroup="a \\"b\\", \\\\n=\\n"}} 1.5
{management.CPU} 2
kafka_brokers 3
"""
    parser = SeriesParser()
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size].encode())
    assert parser.end() == {
        management.LAG_SECONDS: {(("consumergroup", 'a "b", \\n=\n'),): 1.5},
        management.CPU: {(): 2.0},
    }


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://10.0.0.5:9192", ("10.0.0.5", 9192)),
        ("http://0.0.0.0:9192/", ("host", 9192)),
        ("http://:9192", ("host", 9192)),
        ("http://[::1]:9192", ("::1", 9192)),
        ("host2:9192", ("host2", 9192)),
        ("http://host:0", None),
        ("http://host", None),
        ("", None),
    ],
)
def test_addresses(url: str, address: tuple[str, int] | None) -> None:
    assert address_of(url, "host") == address


async def test_a_broker_tells_its_port_and_the_port_must_be_of_that_broker() -> None:
    clock = SystemClock()
    url = management_listeners([0])[0]
    with Cluster(settings={management.SETTING: url}) as cluster:
        settings = AdminSettings.from_properties({"bootstrap.servers": cluster.bootstrap})
        async with MonitorAdmin(settings) as admin:
            sample = await take_cluster_sample(admin, clock)
            (broker,) = sample.brokers
            ports = ManagementPorts()
            read = await ports.read(admin, sample.cluster_id, sample.brokers, clock.monotonic_s())
            assert read[broker].now.state == "running"
            assert read[broker].rate(management.CPU) is None
            await admin.describe_metadata(None)
            again = await ports.read(admin, sample.cluster_id, sample.brokers, clock.monotonic_s())
            assert (again[broker].rate(management.REQUESTS) or 0) > 0
            # A port of another cluster or broker does not count.
            assert await ManagementPorts().read(admin, "another", sample.brokers, 0) == {}
            address = address_of(url)
            assert address is not None
            given = ManagementPorts([address, ("127.0.0.1", 1)])
            assert set(await given.read(admin, sample.cluster_id, sample.brokers, 0)) == {broker}
            assert given.unanswered() == ["http://127.0.0.1:1"]
            nowhere = ManagementPorts([("127.0.0.1", 1)])
            assert await nowhere.read(admin, sample.cluster_id, sample.brokers, 0) == {}


async def test_a_broker_without_a_port_is_shown_by_the_protocol_alone() -> None:
    clock = SystemClock()
    with Cluster() as cluster:
        settings = AdminSettings.from_properties({"bootstrap.servers": cluster.bootstrap})
        async with MonitorAdmin(settings) as admin:
            sample = await take_cluster_sample(admin, clock)
            assert sample.notes == ()
            assert await ManagementPorts().read(admin, sample.cluster_id, sample.brokers, 0) == {}
