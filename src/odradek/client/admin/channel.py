"""Sends admin requests: to any broker, to a given broker, or to the controller.

Every class of admin calls builds on `AdminChannel`; `admin` puts the classes together.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import NO_BROKER
from odradek.client.connection import Connection
from odradek.client.errors import ClientClosed, ClientError
from odradek.client.habits import ADMIN, answers
from odradek.client.metrics.client_metrics import ClientMetrics
from odradek.client.retry import needs_metadata
from odradek.client.settings.shared import AdminSettings, settings_from
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.world.randomness import Randomness

if TYPE_CHECKING:
    from odradek.client.metrics.figures import Reading
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import AdminOptions
    from odradek.world import World

R = TypeVar("R", bound=Response)


@answers(ADMIN)
class AdminChannel:
    """Use it with `async with`, or `close` it yourself."""

    def __init__(
        self,
        settings: AdminSettings | Mapping[str, object] | None = None,
        /,
        *,
        world: "World | None" = None,
        **options: "Unpack[AdminOptions]",
    ) -> None:
        """No broker is contacted before the first call.

        Settings are keyword arguments, an `AdminSettings`, or a dict with Kafka's names. All are
        described in docs/reference/client-settings.md.
        """
        self.settings = settings_from(AdminSettings, settings, options, "Admin")
        self._randomness = Randomness() if world is None else world.randomness
        self._known: Cluster | None = None
        self._metrics: ClientMetrics | None = None
        self._closed = False
        # Whether the names of all topics were asked for, to say which one a missing one may be.
        self._has_compared = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> Self:
        """Does nothing yet: the first call connects. aiokafka's admin client has it."""
        return self

    async def close(self) -> None:
        """Closes the connections."""
        self._closed = True
        if self._known is not None:
            await self._known.close()

    async def stop(self) -> None:
        """The same as `close`, by the name of aiokafka's other clients."""
        await self.close()

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return {} if self._metrics is None else self._metrics.metrics()

    @property
    def cluster(self) -> Cluster:
        """The metadata and connections of this client, made at the first use."""
        if self._closed:
            raise ClientClosed("the admin client is closed")
        if self._known is None:
            self._known = known = Cluster(self.settings, self._randomness)
            self._metrics = ClientMetrics("admin", known, lambda now_s: _read(known, now_s))
        self._known.check_loop("admin client")
        return self._known

    async def request(
        self,
        message: Request,
        response_class: type[R],
        *,
        broker_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Sends a request to a given broker or to any broker; connection errors are retried."""
        return await self._request(message, response_class, lambda: broker_id, timeout_ms)

    async def _request(
        self,
        message: Request,
        response_class: type[R],
        receiver: Callable[[], int | None],
        timeout_ms: int | None = None,
    ) -> R:
        """Sends a request to the broker that `receiver` names, or to any if it names none.

        It is asked before each attempt. After an attempt that failed because the metadata may be
        out of date, the metadata is refreshed first: another broker may be the controller then.
        """
        is_stale = False

        async def attempt() -> R:
            nonlocal is_stale
            if is_stale:
                await self.cluster.refresh()
                is_stale = False
            broker_id = receiver()
            try:
                connection = await self.connection(broker_id)
                return await connection.request(message, response_class)
            except (ClientError, KafkaError) as error:
                is_stale = broker_id is not None and needs_metadata(error)
                raise

        name = type(message).__name__.removesuffix("Request")
        return await self.cluster.retry.run_within(
            timeout_ms or self.settings.default_api_timeout_ms,
            f"{name} got no answer",
            attempt,
            max_retries=self.settings.retries,
        )

    async def connection(self, broker_id: int | None) -> Connection:
        """Returns a connection to a given broker or to any broker."""
        cluster = self.cluster
        if broker_id is None:
            return await cluster.any_connection()
        if BrokerId(broker_id) not in cluster.view.brokers:
            await cluster.refresh()
        return await cluster.connection(broker_id)

    async def controller_request(self, message: Request, response_class: type[R]) -> R:
        """Sends a request to the controller if it is known; other brokers forward such requests."""
        cluster = self.cluster
        if not cluster.view.brokers:
            await self.describe_metadata([])

        def controller() -> int | None:
            broker_id = cluster.view.controller
            return None if broker_id == NO_BROKER else broker_id

        return await self._request(message, response_class, controller)

    async def describe_metadata(self, names: list[str] | None) -> MetadataResponse:
        """Returns the brokers' own answer about topics, or about all if `names` is None."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response = await self.request(
            MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse
        )
        self.cluster.view.update(response, names)
        return response


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Groups partitions as requests do: the indexes of each topic."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def _read(cluster: Cluster, now_s: float) -> "Reading":
    from odradek.client.metrics.figures import read_network  # noqa: PLC0415 - when asked for

    return read_network(cluster, now_s)


def error_or_none(code: int, message: str | None) -> KafkaError | None:
    return error_for(code, message) if code else None
