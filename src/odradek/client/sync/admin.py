"""`odradek.client.Admin` for programs without asyncio."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

from odradek.client.admin.admin import Admin as AsyncAdmin
from odradek.client.admin.broker_types import ClusterDescription, LogDirectory
from odradek.client.admin.channel import R
from odradek.client.admin.config_types import ConfigChange, ConfigEntry, ConfigResource, ConfigType
from odradek.client.admin.partitions import ElectionType, Reassignment
from odradek.client.admin.results import Results
from odradek.client.admin.topic_types import NewPartitions, NewTopic, SettingValue
from odradek.client.api_versions import ApiVersions
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.client.habits import ADMIN, answers, in_admin, names_known, waits
from odradek.client.leader_requests import ListedOffset
from odradek.client.settings import AdminSettings
from odradek.client.sync.access_calls import AccessCalls
from odradek.client.sync.group_calls import GroupCalls
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.create_topics import CreatableTopicResult
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.schema import Request
from odradek.protocol.types import BrokerId, TopicId, TopicPartition

if TYPE_CHECKING:
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import AdminOptions
    from odradek.world import World


T = TypeVar("T")


@names_known
@in_admin
@waits
@answers(ADMIN)
class Admin(GroupCalls, AccessCalls):
    """`odradek.client.Admin`, waiting where that one awaits."""

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
        super().__init__(lambda: AsyncAdmin(settings, world=world, **options))

    @property
    def settings(self) -> AdminSettings:
        """The settings of this client."""
        return self._client.settings

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> Results[str, CreatableTopicResult | KafkaError]:
        """Creates topics; the answer of each is its description or its error.

        A name alone is a topic with the broker's defaults.
        """
        return self._wait(self._client.create_topics(topics, validate_only=validate_only))

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, SettingValue] | None = None,
    ) -> CreatableTopicResult:
        """Creates one topic, or raises the error."""
        return self._wait(self._client.create_topic(name, partitions, replication_factor, configs))

    def delete_topics(self, names: Iterable[str]) -> Results[str, KafkaError | None]:
        """Deletes topics by name; the answer of each is None or its error."""
        return self._wait(self._client.delete_topics(names))

    def delete_topics_by_id(self, ids: Iterable[TopicId]) -> Results[TopicId, KafkaError | None]:
        """Deletes topics by id; the answer of each is None or its error."""
        return self._wait(self._client.delete_topics_by_id(ids))

    def delete_topic(self, name: str) -> None:
        """Deletes one topic, or raises the error."""
        self._wait(self._client.delete_topic(name))

    def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Returns all topics, by name."""
        return self._wait(self._client.list_topics(include_internal=include_internal))

    def describe_topics(self, names: Iterable[str]) -> Results[str, Topic | KafkaError]:
        """Returns partitions, leaders and replicas of each topic, or its error."""
        return self._wait(self._client.describe_topics(names))

    def describe_topic_partitions(
        self, names: Iterable[str], *, page_partitions: int = 2000
    ) -> list[DescribeTopicPartitionsResponseTopic]:
        """Yields topics, with at most `page_partitions` partitions per request.

        A topic that spans several requests is yielded once for each, with the partitions of that
        request. Only this call returns eligible leader replicas.
        """
        return self._wait(
            _listed(self._client.describe_topic_partitions(names, page_partitions=page_partitions))
        )

    def create_partitions(
        self, topics: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> Results[str, KafkaError | None]:
        """Increases the number of partitions; a plain number is the new total."""
        return self._wait(self._client.create_partitions(topics, validate_only=validate_only))

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        names: Sequence[str] | None = None,
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> Results[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """Returns all settings of resources, or only those with the given `names`."""
        return self._wait(
            self._client.describe_configs(
                resources,
                names,
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
        )

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, KafkaError | None]:
        """Changes single settings and leaves the others as they are."""
        return self._wait(
            self._client.incremental_alter_configs(changes, validate_only=validate_only)
        )

    def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, SettingValue]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, KafkaError | None]:
        """Replaces all settings of a resource: a setting that is not named gets its default."""
        return self._wait(self._client.alter_configs(configs, validate_only=validate_only))

    def list_config_resources(self, types: Iterable[ConfigType] = ()) -> list[ConfigResource]:
        """Returns the resources that have settings of their own, of all types or of those named."""
        return self._wait(self._client.list_config_resources(types))

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> Results[TopicPartition, ListedOffset | KafkaError]:
        """Returns offsets by time: a timestamp in ms, or `EARLIEST`, `LATEST`, ... of `leaders`.

        An offset of -1 means that there is no such record.
        """
        return self._wait(self._client.list_offsets(timestamps, read_committed=read_committed))

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> Results[TopicPartition, int | KafkaError]:
        """Deletes the records before an offset (-1: all); returns the new log start offsets."""
        return self._wait(self._client.delete_records(before))

    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Returns the brokers, the controller and the id of the cluster."""
        return self._wait(self._client.describe_cluster(include_fenced=include_fenced))

    def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[BrokerId, list[LogDirectory]]:
        """Returns the log directories of brokers, with all replicas or those of `partitions`."""
        return self._wait(self._client.describe_log_dirs(broker_ids, partitions))

    def api_versions(self) -> dict[BrokerId, ApiVersions | ClientError]:
        """Returns the API versions of each broker, or the error of its connection."""
        return self._wait(self._client.api_versions())

    def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Results[TopicPartition, KafkaError | None]:
        """Elects leaders of some partitions, or of all that need it.

        ELECTION_NOT_NEEDED means that the preferred replica leads already.
        """
        return self._wait(self._client.elect_leaders(election_type, partitions))

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Results[TopicPartition, KafkaError | None]:
        """Starts to move partitions to these brokers, preferred leader first; None stops a move.

        The answer says that the move was accepted, not that it is complete.
        """
        return self._wait(
            self._client.alter_partition_reassignments(
                targets, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    def cancel_partition_reassignments(
        self, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, KafkaError | None]:
        """Stops moves; a partition that is not being moved is not an error."""
        return self._wait(self._client.cancel_partition_reassignments(partitions))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Returns the reassignments under way, of all partitions or of some."""
        return self._wait(self._client.list_partition_reassignments(partitions))

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return self._run(self._client.metrics)

    def request(
        self,
        message: Request,
        response_class: type[R],
        *,
        broker_id: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Sends a request to a given broker or to any broker; connection errors are retried."""
        return self._wait(
            self._client.request(
                message, response_class, broker_id=broker_id, timeout_ms=timeout_ms
            )
        )

    def controller_request(self, message: Request, response_class: type[R]) -> R:
        """Sends a request to the controller if it is known; other brokers forward such requests."""
        return self._wait(self._client.controller_request(message, response_class))

    def describe_metadata(self, names: list[str] | None) -> MetadataResponse:
        """Returns the brokers' own answer about topics, or about all if `names` is None."""
        return self._wait(self._client.describe_metadata(names))


async def _listed(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]
