"""What the resources of version 3 have in common: who asks, and which cluster it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from odradek.client.admin.admin import Admin
from odradek.client.cluster_view import Broker, Partition, Topic
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.rest.links import Links, base_url
from odradek.services.client_pool import CallerClients
from odradek.services.kafka_problems import PARTITION_NOT_FOUND
from odradek.services.running import Service
from odradek.web.problems import Problem

CLUSTER: Final = "/v3/clusters/{cluster_id}"
NOT_FOUND: Final = {404: "There is no such resource."}
OK: Final = {200: "The resource."}
NO_CONTENT: Final = {204: "It is done."}
SERVER: Final = {500: "The brokers returned an error that the caller cannot correct."}


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """One request of version 3: the caller's Kafka clients, the parameters of the path, and the
    links for the response."""

    clients: CallerClients
    links: Links
    path: dict[str, Any]

    @property
    def admin(self) -> Admin:
        return self.clients.admin

    async def topic(self, name: str) -> Topic:
        """Returns a topic. Raises the error of the brokers, which becomes 404 if there is no such
        topic."""
        found = (await self.admin.describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def partition(self, name: str, index: int) -> Partition:
        found = (await self.topic(name)).partitions.get(index)
        if found is None:
            raise Problem(404, f"topic {name} has no partition {index}", code=PARTITION_NOT_FOUND)
        return found


class ClusterId:
    """The id of the service's cluster, which is fetched once. It may be kept for all callers,
    because brokers tell it to every client."""

    def __init__(self) -> None:
        self._known: str | None = None

    async def of(self, clients: CallerClients) -> str:
        if self._known is None:
            self._known = (await clients.admin.describe_cluster()).cluster_id
        return self._known


class Resources:
    """A group of endpoints of version 3."""

    def __init__(self, service: Service, cluster: ClusterId) -> None:
        self._service = service
        self._cluster = cluster

    @asynccontextmanager
    async def asked(self, request: Request) -> AsyncIterator[ResourceRequest]:
        """Provides what an endpoint needs. Raises 404 if the path names another cluster."""
        async with self._service.clients(request) as clients:
            cluster_id = await self._cluster.of(clients)
            given = request.path_params.get("cluster_id", cluster_id)
            if given != cluster_id:
                raise Problem(
                    404, f"there is no cluster {given} here; GET /v3/clusters says which there is"
                )
            links = Links(base_url(request, self._service.settings), cluster_id)
            yield ResourceRequest(clients, links, request.path_params)


async def require_broker(asked: ResourceRequest) -> Broker:
    """Returns the broker that the path names, or raises 404."""
    for broker in (await asked.admin.describe_cluster()).brokers:
        if broker.id == asked.path["broker_id"]:
            return broker
    raise missing(f"there is no broker {asked.path['broker_id']}")


def missing(words: str) -> Problem:
    return Problem(404, words, code=404)


def is_unknown(error: object) -> bool:
    return isinstance(error, KafkaError) and error.code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
