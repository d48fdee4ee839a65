"""The admin client: topics, settings, offsets, records, brokers, log directories.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("clicks", partitions=3)
        print(await admin.describe_topics(["clicks"]))

A call about several things answers a dict; what failed has its `KafkaError` as the value, so one
fault does not hide the other answers. Calls about one thing raise. Everything is tried again
within `default.api.timeout.ms` when a broker goes away or asks for patience.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Self, TypeVar

from odradek.client.admin_types import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigType,
    LogDirectory,
    NewPartitions,
    NewTopic,
)
from odradek.client.cluster import NO_BROKER, Broker, Cluster, Topic, topic_from
from odradek.client.connection import ApiVersions, Connection
from odradek.client.errors import ClientClosed, ClientError, RequestTimedOut, is_retriable
from odradek.client.leaders import Answers, ListedOffset, ask_leaders, list_offsets
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import ErrorCode, KafkaError, error_for, raise_for
from odradek.protocol.messages.alter_configs import (
    AlterableConfig as ReplacingConfig,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)
from odradek.protocol.messages.alter_configs import (
    AlterConfigsResource as ReplacingResource,
)
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId, TopicId, TopicPartition
from odradek.world import World

R = TypeVar("R", bound=Response)


class Admin:
    """Use it with `async with`, or `close` it yourself."""

    def __init__(
        self,
        settings: AdminSettings | None = None,
        /,
        *,
        world: World | None = None,
        **options: object,
    ) -> None:
        """`options` are the settings by name (see `AdminSettings`), if none were given."""
        if settings is None:
            settings = AdminSettings.from_options(options)
        elif options:
            raise TypeError("give either settings or options, not both")
        self.settings = settings
        self._world = world or World()
        self._known: Cluster | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        if self._known is not None:
            await self._known.close()

    @property
    def _cluster(self) -> Cluster:
        if self._closed:
            raise ClientClosed("the admin client is closed")
        if self._known is None:
            self._known = Cluster(self.settings, self._world.randomness)
        return self._known

    # How requests travel

    async def request(
        self,
        message: Request,
        response_class: type[R],
        *,
        broker_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Any request, to a broker of choice or to whichever answers; connections are retried."""
        timeout_ms = timeout_ms or self.settings.default_api_timeout_ms
        failures = 0
        reason: BaseException | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        connection = await self._connection(broker_id)
                        return await connection.request(message, response_class)
                    except (ClientError, KafkaError) as error:
                        if not is_retriable(error) or failures >= self.settings.retries:
                            raise
                        reason = error
                    failures += 1
                    await asyncio.sleep(self._cluster.retry_backoff.delay_s(failures))
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            name = type(message).__name__.removesuffix("Request")
            raise RequestTimedOut(
                f"{name} got no answer within {timeout_ms} ms: {reason or 'the broker is silent'}"
            ) from reason

    async def _connection(self, broker_id: int | None) -> Connection:
        cluster = self._cluster
        if broker_id is None:
            return await cluster.any_connection()
        if BrokerId(broker_id) not in cluster.view.brokers:
            await cluster.refresh()
        return await cluster.connection(broker_id)

    async def _controller_request(self, message: Request, response_class: type[R]) -> R:
        """To the controller, if one is known; brokers that are not it pass such requests on."""
        cluster = self._cluster
        if not cluster.view.brokers:
            await self._describe([])
        controller = cluster.view.controller
        broker_id = None if controller == NO_BROKER else controller
        return await self.request(message, response_class, broker_id=broker_id)

    # Topics

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatableTopicResult | KafkaError]:
        response = await self._controller_request(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic.name,
                        num_partitions=-1 if topic.assignments else topic.partitions,
                        replication_factor=-1 if topic.assignments else topic.replication_factor,
                        assignments=[
                            CreatableReplicaAssignment(
                                partition_index=index, broker_ids=list(replicas)
                            )
                            for index, replicas in topic.assignments.items()
                        ],
                        configs=[
                            CreatableTopicConfig(name=name, value=value)
                            for name, value in topic.configs.items()
                        ],
                    )
                    for topic in topics
                ],
                timeout_ms=self.settings.request_timeout_ms,
                validate_only=validate_only,
            ),
            CreateTopicsResponse,
        )
        return {
            result.name: error_for(result.error_code, result.error_message)
            if result.error_code
            else result
            for result in response.topics
        }

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
    ) -> CreatableTopicResult:
        """Makes one topic, or raises why not."""
        topic = NewTopic(name, partitions, replication_factor, configs=configs or {})
        return _only(await self.create_topics([topic]))

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        wanted = list(names)
        response = await self._controller_request(
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in wanted],
                topic_names=wanted,
                timeout_ms=self.settings.request_timeout_ms,
            ),
            DeleteTopicsResponse,
        )
        return {
            result.name or "": _error_or_none(result.error_code, result.error_message)
            for result in response.responses
        }

    async def delete_topics_by_id(self, ids: Iterable[TopicId]) -> dict[TopicId, KafkaError | None]:
        response = await self._controller_request(
            DeleteTopicsRequest(
                topics=[DeleteTopicState(topic_id=topic_id) for topic_id in ids],
                timeout_ms=self.settings.request_timeout_ms,
            ),
            DeleteTopicsResponse,
        )
        return {
            result.topic_id: _error_or_none(result.error_code, result.error_message)
            for result in response.responses
        }

    async def delete_topic(self, name: str) -> None:
        """Deletes one topic, or raises why not."""
        _only(await self.delete_topics([name]))

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Every topic there is, by name."""
        response = await self._describe(None)
        found = (topic_from(one, None) for one in response.topics if not one.error_code)
        return {
            topic.name: topic
            for topic in sorted(found, key=lambda topic: topic.name)
            if include_internal or not topic.is_internal
        }

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Topic | KafkaError]:
        response = await self._describe(list(names))
        return {
            one.name or "": error_for(one.error_code) if one.error_code else topic_from(one, None)
            for one in response.topics
        }

    async def _describe(self, names: list[str] | None) -> MetadataResponse:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response = await self.request(
            MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse
        )
        self._cluster.view.update(response, names)
        return response

    async def describe_topic_partitions(
        self, names: Iterable[str], *, page_partitions: int = 2000
    ) -> AsyncIterator[DescribeTopicPartitionsResponseTopic]:
        """Topics with at most `page_partitions` partitions a request.

        A topic that spans pages comes once for each, with the partitions of that page. Eligible
        leader replicas are in this answer alone.
        """
        topics = [TopicRequest(name=name) for name in sorted(set(names))]
        cursor: Cursor | None = None
        while True:
            response = await self.request(
                DescribeTopicPartitionsRequest(
                    topics=topics, response_partition_limit=page_partitions, cursor=cursor
                ),
                DescribeTopicPartitionsResponse,
            )
            for topic in response.topics:
                yield topic
            cursor = response.next_cursor
            if cursor is None:
                return

    async def create_partitions(
        self, topics: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Raises the number of partitions; a plain number is the new total."""
        wanted = []
        for name, new in topics.items():
            partitions = NewPartitions(new) if isinstance(new, int) else new
            assignments = partitions.assignments
            wanted.append(
                CreatePartitionsTopic(
                    name=name,
                    count=partitions.total,
                    assignments=None
                    if assignments is None
                    else [
                        CreatePartitionsAssignment(broker_ids=list(replicas))
                        for replicas in assignments
                    ],
                )
            )
        response = await self._controller_request(
            CreatePartitionsRequest(
                topics=wanted,
                timeout_ms=self.settings.request_timeout_ms,
                validate_only=validate_only,
            ),
            CreatePartitionsResponse,
        )
        return {
            result.name: _error_or_none(result.error_code, result.error_message)
            for result in response.results
        }

    # Settings

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        names: Sequence[str] | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """All settings of resources, or only those of the given `names`."""
        answers: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for broker_id, group in _by_broker(resources).items():
            response = await self.request(
                DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=resource.type,
                            resource_name=resource.name,
                            configuration_keys=None if names is None else list(names),
                        )
                        for resource in group
                    ],
                    include_synonyms=include_synonyms,
                    include_documentation=include_documentation,
                ),
                DescribeConfigsResponse,
                broker_id=broker_id,
            )
            for result in response.results:
                resource = ConfigResource(ConfigType(result.resource_type), result.resource_name)
                answers[resource] = (
                    error_for(result.error_code, result.error_message)
                    if result.error_code
                    else {one.name: ConfigEntry.from_answer(one) for one in result.configs}
                )
        return answers

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Changes single settings and leaves the others as they are."""
        answers: dict[ConfigResource, KafkaError | None] = {}
        for broker_id, group in _by_broker(changes).items():
            response = await self._config_request(
                IncrementalAlterConfigsRequest(
                    resources=[
                        AlterConfigsResource(
                            resource_type=resource.type,
                            resource_name=resource.name,
                            configs=[
                                AlterableConfig(
                                    name=change.name,
                                    config_operation=change.operation,
                                    value=change.value,
                                )
                                for change in changes[resource]
                            ],
                        )
                        for resource in group
                    ],
                    validate_only=validate_only,
                ),
                IncrementalAlterConfigsResponse,
                broker_id,
            )
            answers |= {
                ConfigResource(ConfigType(one.resource_type), one.resource_name): _error_or_none(
                    one.error_code, one.error_message
                )
                for one in response.responses
            }
        return answers

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replaces all settings of a resource: what is not named goes back to its default."""
        answers: dict[ConfigResource, KafkaError | None] = {}
        for broker_id, group in _by_broker(configs).items():
            response = await self._config_request(
                AlterConfigsRequest(
                    resources=[
                        ReplacingResource(
                            resource_type=resource.type,
                            resource_name=resource.name,
                            configs=[
                                ReplacingConfig(name=name, value=value)
                                for name, value in configs[resource].items()
                            ],
                        )
                        for resource in group
                    ],
                    validate_only=validate_only,
                ),
                AlterConfigsResponse,
                broker_id,
            )
            answers |= {
                ConfigResource(ConfigType(one.resource_type), one.resource_name): _error_or_none(
                    one.error_code, one.error_message
                )
                for one in response.responses
            }
        return answers

    async def _config_request(
        self, message: Request, response_class: type[R], broker_id: int | None
    ) -> R:
        if broker_id is None:
            return await self._controller_request(message, response_class)
        return await self.request(message, response_class, broker_id=broker_id)

    async def list_config_resources(self, types: Iterable[ConfigType] = ()) -> list[ConfigResource]:
        """The resources that have settings of their own; of all types unless some are named."""
        response = await self.request(
            ListConfigResourcesRequest(resource_types=list(types)), ListConfigResourcesResponse
        )
        raise_for(response.error_code)
        return [
            ConfigResource(ConfigType(one.resource_type), one.resource_name)
            for one in response.config_resources
        ]

    # Offsets and records

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Answers[ListedOffset]:
        """Offsets by time: a timestamp in milliseconds, or `EARLIEST`, `LATEST`, ... of `leaders`.

        An offset of -1 says that there is no such record.
        """
        return await list_offsets(
            self._cluster,
            wanted,
            read_committed=read_committed,
            timeout_ms=self.settings.default_api_timeout_ms,
        )

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> Answers[int]:
        """Deletes what lies before an offset (-1: all there is); answers the new first offset."""

        async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[int]:
            topics: dict[str, DeleteRecordsTopic] = {}
            for one in partitions:
                topic = topics.setdefault(one.topic, DeleteRecordsTopic(name=one.topic))
                topic.partitions.append(
                    DeleteRecordsPartition(partition_index=one.partition, offset=before[one])
                )
            response = await connection.request(
                DeleteRecordsRequest(
                    topics=list(topics.values()), timeout_ms=self.settings.request_timeout_ms
                ),
                DeleteRecordsResponse,
            )
            return {
                TopicPartition(answered.name, one.partition_index): error_for(one.error_code)
                if one.error_code
                else one.low_watermark
                for answered in response.topics
                for one in answered.partitions
            }

        return await ask_leaders(self._cluster, before, ask, self.settings.default_api_timeout_ms)

    # Brokers

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        connection = await self._connection(None)
        if not connection.supports(DescribeClusterRequest):
            return await self._describe_old_cluster()
        response = await self.request(
            DescribeClusterRequest(include_fenced_brokers=include_fenced), DescribeClusterResponse
        )
        raise_for(response.error_code, response.error_message)
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller=BrokerId(response.controller_id),
            brokers=tuple(
                Broker(BrokerId(one.broker_id), one.host, one.port, one.rack)
                for one in response.brokers
            ),
            fenced=frozenset(BrokerId(one.broker_id) for one in response.brokers if one.is_fenced),
        )

    async def _describe_old_cluster(self) -> ClusterDescription:
        response = await self._describe([])
        return ClusterDescription(
            cluster_id=response.cluster_id or "",
            controller=BrokerId(response.controller_id),
            brokers=tuple(self._cluster.view.brokers.values()),
            fenced=frozenset(),
        )

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[BrokerId, list[LogDirectory]]:
        """The log directories of brokers, with all replicas or only those of `partitions`."""
        if broker_ids is None:
            broker_ids = [broker.id for broker in (await self.describe_cluster()).brokers]
        topics: dict[str, DescribableLogDirTopic] | None = None
        if partitions is not None:
            topics = {}
            for one in partitions:
                topic = topics.setdefault(one.topic, DescribableLogDirTopic(topic=one.topic))
                topic.partitions.append(one.partition)
        asked = DescribeLogDirsRequest(topics=None if topics is None else list(topics.values()))
        answers = {}
        for broker_id in broker_ids:
            response = await self.request(asked, DescribeLogDirsResponse, broker_id=broker_id)
            raise_for(response.error_code)
            answers[BrokerId(broker_id)] = [
                LogDirectory.from_answer(one) for one in response.results
            ]
        return answers

    async def api_versions(self) -> dict[BrokerId, ApiVersions | ClientError]:
        """What each broker speaks, or why it could not be asked."""
        answers: dict[BrokerId, ApiVersions | ClientError] = {}
        for broker in (await self.describe_cluster()).brokers:
            try:
                connection = await self._connection(broker.id)
                answers[broker.id] = connection.api_versions
            except ClientError as error:
                answers[broker.id] = error
        return answers


T = TypeVar("T")


def _only(answers: Mapping[str, T | KafkaError]) -> T:
    """The single answer, raised if it is an error."""
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer
        return answer
    raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker did not answer")


def _error_or_none(code: int, message: str | None) -> KafkaError | None:
    return error_for(code, message) if code else None


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Settings of a broker are that broker's to know; the rest any broker answers."""
    groups: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in (ConfigType.BROKER, ConfigType.BROKER_LOGGER) and resource.name
        groups.setdefault(int(resource.name) if own else None, []).append(resource)
    return groups
