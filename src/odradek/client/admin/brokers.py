"""Admin calls about brokers."""

from collections.abc import Iterable

from odradek.client import arguments
from odradek.client.admin.broker_types import ClusterDescription, LogDirectory
from odradek.client.admin.channel import AdminChannel
from odradek.client.api_versions import ApiVersions
from odradek.client.cluster_view import Broker
from odradek.client.errors import ClientError, UnsupportedVersion
from odradek.protocol.errors import raise_for
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.types import BrokerId, TopicPartition


class BrokerCalls(AdminChannel):
    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Returns the brokers, the controller and the id of the cluster."""
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
        try:
            response = await self.request(request, DescribeClusterResponse)
        except UnsupportedVersion:
            return await self._describe_old_cluster()
        raise_for(response.error_code, response.error_message)
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller=BrokerId(response.controller_id),
            brokers=tuple(
                Broker(
                    BrokerId(described.broker_id), described.host, described.port, described.rack
                )
                for described in response.brokers
            ),
            fenced=frozenset(
                BrokerId(described.broker_id)
                for described in response.brokers
                if described.is_fenced
            ),
        )

    async def _describe_old_cluster(self) -> ClusterDescription:
        response = await self.describe_metadata([])
        return ClusterDescription(
            cluster_id=response.cluster_id or "",
            controller=BrokerId(response.controller_id),
            brokers=tuple(self.cluster.view.brokers.values()),
            fenced=frozenset(),
        )

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[BrokerId, list[LogDirectory]]:
        """Returns the log directories of brokers, with all replicas or those of `partitions`."""
        call = "describe_log_dirs()"
        if broker_ids is None:
            broker_ids = [broker.id for broker in (await self.describe_cluster()).brokers]
        asked = arguments.broker_ids(broker_ids, call)
        topics: dict[str, DescribableLogDirTopic] | None = None
        if partitions is not None:
            topics = {}
            for partition in arguments.partitions(partitions, call):
                topic = topics.setdefault(
                    partition.topic, DescribableLogDirTopic(topic=partition.topic)
                )
                topic.partitions.append(partition.partition)
        request = DescribeLogDirsRequest(topics=None if topics is None else list(topics.values()))
        answers = {}
        for broker_id in asked:
            response = await self.request(request, DescribeLogDirsResponse, broker_id=broker_id)
            raise_for(response.error_code)
            answers[BrokerId(broker_id)] = [
                LogDirectory.from_answer(result) for result in response.results
            ]
        return answers

    async def api_versions(self) -> dict[BrokerId, ApiVersions | ClientError]:
        """Returns the API versions of each broker, or the error of its connection."""
        answers: dict[BrokerId, ApiVersions | ClientError] = {}
        for broker in (await self.describe_cluster()).brokers:
            try:
                connection = await self.connection(broker.id)
                answers[broker.id] = connection.api_versions
            except ClientError as error:
                answers[broker.id] = error
        return answers
