"""Admin calls that the controller answers find it again after it has moved."""

from odradek.client.admin.admin import Admin
from odradek.client.settings import AdminSettings
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from odradek.protocol.schema import Request
from odradek.protocol.types import BrokerId
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation


def deleted(_: Request) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[DeletableTopicResult(name="t")])


@in_simulation(brokers=2)
async def test_a_controller_that_is_gone_is_replaced_by_the_next(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.served |= {20: (1, 6)}
    cluster.fail_next(DeleteTopicsRequest, deleted, deleted)
    settings = AdminSettings.from_options({"bootstrap_servers": cluster.bootstrap})
    async with Admin(settings) as admin:
        assert await admin.delete_topics(["t"]) == {"t": None}
        cluster.kill(1)
        cluster.controller = BrokerId(2)
        assert await admin.delete_topics(["t"]) == {"t": None}
    asked = [node for node, one, _ in cluster.requests if isinstance(one, DeleteTopicsRequest)]
    assert asked == [1, 2]
