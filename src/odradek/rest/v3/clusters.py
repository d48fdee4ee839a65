"""Version 3: the cluster, its brokers, and the replicas of a broker."""

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.broker_types import ClusterDescription
from odradek.client.cluster_view import NO_BROKER, Broker
from odradek.rest.links import Json, Links
from odradek.rest.v3.partitions import replica_json
from odradek.rest.v3.resources import (
    CLUSTER,
    NOT_FOUND,
    OK,
    SERVER,
    Resources,
    require_broker,
)
from odradek.web.endpoints import Endpoint
from odradek.web.problems import json_response

_BROKER = f"{CLUSTER}/brokers/{{broker_id:int}}"


class Clusters(Resources):
    def endpoints(self) -> list[Endpoint]:
        answers = {**OK, **NOT_FOUND, **SERVER}
        return [
            Endpoint("GET", "/v3/clusters", self._list, "Clusters: one.", responses=answers),
            Endpoint("GET", CLUSTER, self._get, "The cluster.", responses=answers),
            Endpoint("GET", f"{CLUSTER}/brokers", self._brokers, "Brokers.", responses=answers),
            Endpoint("GET", _BROKER, self._broker, "A broker.", responses=answers),
            Endpoint(
                "GET", f"{_BROKER}/partition-replicas", self._replicas,
                "The replicas on a broker.", responses=answers,
            ),
        ]  # fmt: skip

    async def _list(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            described = await asked.admin.describe_cluster()
            data = [cluster_json(asked.links, described)]
            answer = {
                "kind": "KafkaClusterList",
                "metadata": {"self": f"{asked.links.base}/v3/clusters", "next": None},
                "data": data,
            }
            return json_response(answer)

    async def _get(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            return json_response(cluster_json(asked.links, await asked.admin.describe_cluster()))

    async def _brokers(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            described = await asked.admin.describe_cluster()
            brokers = [broker_json(asked.links, broker) for broker in described.brokers]
            return json_response(asked.links.collection("Broker", ("brokers",), brokers))

    async def _broker(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            return json_response(broker_json(asked.links, await require_broker(asked)))

    async def _replicas(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            broker_id = asked.path["broker_id"]
            await require_broker(asked)
            topics = await asked.admin.list_topics(include_internal=True)
            found = [
                replica_json(asked.links, topic.name, partition, broker_id)
                for topic in topics.values()
                for partition in topic.partitions.values()
                if broker_id in partition.replicas
            ]
            segments = ("brokers", broker_id, "partition-replicas")
            return json_response(asked.links.collection("Replica", segments, found))


def cluster_json(links: Links, described: ClusterDescription) -> Json:
    controller: Json = {}
    if described.controller != NO_BROKER:
        controller = {"controller": links.related("brokers", described.controller)}
    return links.resource(
        "Cluster", (), {}, **controller,
        acls=links.related("acls"),
        brokers=links.related("brokers"),
        broker_configs=links.related("broker-configs"),
        consumer_groups=links.related("consumer-groups"),
        topics=links.related("topics"),
        partition_reassignments=links.related("topics", "-", "partitions", "-", "reassignment"),
    )  # fmt: skip


def broker_json(links: Links, broker: Broker) -> Json:
    return links.resource(
        "Broker", ("brokers", broker.id), {"broker": broker.id},
        broker_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack,
        configs=links.related("brokers", broker.id, "configs"),
        partition_replicas=links.related("brokers", broker.id, "partition-replicas"),
    )  # fmt: skip
