"""`odradek.client.Admin` for programs without asyncio."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

from odradek.client.admin.acls import ANY_ACL
from odradek.client.admin.admin import Admin as AsyncAdmin
from odradek.client.admin.broker_types import ClusterDescription, LogDirectory
from odradek.client.admin.channel import R
from odradek.client.admin.config_types import ConfigChange, ConfigEntry, ConfigResource, ConfigType
from odradek.client.admin.delegation_tokens import DelegationToken
from odradek.client.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupOffset,
    MemberToRemove,
)
from odradek.client.admin.partitions import ElectionType, Reassignment
from odradek.client.admin.quotas import ANY_ENTITY
from odradek.client.admin.results import Results
from odradek.client.admin.roles import AccessExplanation
from odradek.client.admin.topic_types import NewPartitions, NewTopic, SettingValue
from odradek.client.admin.transactions import (
    FencedProducer,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.admin.users import ScramDeletion, ScramUpsertion
from odradek.client.api_versions import ApiVersions
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.client.habits import ADMIN, answers, in_admin, names_known, waits
from odradek.client.leader_requests import ListedOffset
from odradek.client.producer.transaction_requests import Identity
from odradek.client.settings import AdminSettings
from odradek.client.sync.waiting import WaitingClient
from odradek.protocol.acls import Acl, AclFilter, Operation, ResourcePattern
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.create_topics import CreatableTopicResult
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.roles import RoleBinding
from odradek.protocol.schema import Request
from odradek.protocol.types import BrokerId, TopicId, TopicPartition
from odradek.security.quotas.entities import QuotaEntity
from odradek.security.scram import ScramMechanism

if TYPE_CHECKING:
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import AdminOptions
    from odradek.world import World


T = TypeVar("T")


@names_known
@in_admin
@waits
@answers(ADMIN)
class Admin(WaitingClient[AsyncAdmin]):
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

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """Returns the groups of all brokers, or those in these states and of these types."""
        return self._wait(self._client.list_groups(states=states, types=types))

    def describe_groups(
        self, group_ids: Iterable[str]
    ) -> Results[str, GroupDescription | KafkaError]:
        """Returns state, members and assignments of groups of both protocols.

        A group that does not exist has the error GROUP_ID_NOT_FOUND.
        """
        return self._wait(self._client.describe_groups(group_ids))

    def delete_groups(self, group_ids: Iterable[str]) -> Results[str, bool | KafkaError]:
        """Deletes groups without members, and their offsets. True means that a group is deleted."""
        return self._wait(self._client.delete_groups(group_ids))

    def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str = "removed by an administrator",
    ) -> Results[MemberToRemove, bool | KafkaError]:
        """Removes members from a group, all of them if none are named."""
        return self._wait(self._client.remove_members(group_id, members, reason=reason))

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> Results[TopicPartition, GroupOffset | KafkaError]:
        """Returns what a group has committed, in all partitions or in these; others are left out.

        `require_stable` refuses partitions that an open transaction is about to change.
        """
        return self._wait(
            self._client.list_group_offsets(group_id, partitions, require_stable=require_stable)
        )

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset | int],
        *,
        may_create: bool | None = None,
    ) -> Results[TopicPartition, bool | KafkaError]:
        """Sets offsets of a group without members; a group with members gives UNKNOWN_MEMBER_ID.

        A group that does not exist is made by that, and a warning says so, because the name may be
        misspelt. `may_create=True` means it; `may_create=False` raises GROUP_ID_NOT_FOUND instead.
        """
        return self._wait(
            self._client.alter_group_offsets(group_id, offsets, may_create=may_create)
        )

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, bool | KafkaError]:
        """Deletes offsets; partitions of topics that members subscribe to are refused."""
        return self._wait(self._client.delete_group_offsets(group_id, partitions))

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return self._run(self._client.metrics)

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Returns transactional ids of all brokers, or those that pass every filter.

        `longer_than_ms` keeps those whose transaction is open for longer, `pattern` is a
        regular expression for the whole id.
        """
        return self._wait(
            self._client.list_transactions(
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=longer_than_ms,
                pattern=pattern,
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, TransactionDescription | KafkaError]:
        """Returns state, producer and partitions of each transactional id, or its error."""
        return self._wait(self._client.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Results[TopicPartition, list[PartitionProducer] | KafkaError]:
        """Returns the active producers of partitions, from their leaders or from one broker."""
        return self._wait(self._client.describe_producers(partitions, broker_id=broker_id))

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
    ) -> None:
        """Ends a transaction in one partition whose coordinator has forgotten it.

        `describe_producers` returns the three numbers. For a transaction that its coordinator
        still knows use `fence_producers`, which aborts it in all partitions.
        """
        self._wait(
            self._client.abort_transaction(
                partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        )

    def end_transactions(
        self, identities: Iterable[Identity], *, is_commit: bool
    ) -> Results[str, bool | KafkaError]:
        """Commits or aborts transactions that their producers have handed over, by id.

        True means that the transaction ended now, or earlier with the same identity. An identity
        that was fenced in the meantime gets an error, and its transaction was aborted.
        """
        return self._wait(self._client.end_transactions(identities, is_commit=is_commit))

    def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, FencedProducer | KafkaError]:
        """Fences the producers with these transactional ids and aborts their open transactions."""
        return self._wait(self._client.fence_producers(transactional_ids))

    def describe_acls(self, filter_: AclFilter = ANY_ACL) -> list[Acl]:
        """Returns the rules that match a filter, or all of them."""
        return self._wait(self._client.describe_acls(filter_))

    def create_acls(self, acls: Iterable[Acl]) -> Results[Acl, KafkaError | None]:
        """Adds rules; a rule that exists already stays as it is."""
        return self._wait(self._client.create_acls(acls))

    def delete_acls(
        self, filters: Iterable[AclFilter]
    ) -> Results[AclFilter, list[Acl] | KafkaError]:
        """Removes the rules that match filters, and returns them by filter."""
        return self._wait(self._client.delete_acls(filters))

    def describe_client_quotas(
        self, entity: QuotaEntity = ANY_ENTITY, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Returns the quotas of the entities that match, or of all of them.

        A part of `entity` is a name, `DEFAULT` (an empty name) for the default, or `ANY_NAME` for
        both. Entities with further parts match too, unless `strict`.
        """
        return self._wait(self._client.describe_client_quotas(entity, strict=strict))

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> Results[QuotaEntity, KafkaError | None]:
        """Sets quotas by name; None removes one. The quotas of an entity change together."""
        return self._wait(self._client.alter_client_quotas(changes, validate_only=validate_only))

    def describe_roles(self, principal: str | None = None) -> list[RoleBinding]:
        """Returns the roles of a principal, as in `User:ada`, or all of them."""
        return self._wait(self._client.describe_roles(principal))

    def grant_roles(self, bindings: Iterable[RoleBinding]) -> dict[RoleBinding, KafkaError | None]:
        """Grants roles; one that the principal has already stays as it is."""
        return self._wait(self._client.grant_roles(bindings))

    def revoke_roles(self, bindings: Iterable[RoleBinding]) -> dict[RoleBinding, KafkaError | None]:
        """Revokes roles."""
        return self._wait(self._client.revoke_roles(bindings))

    def explain_access(
        self,
        principal: str,
        operation: Operation,
        resource: ResourcePattern,
        *,
        host: str = "*",
        groups: Iterable[str] = (),
    ) -> AccessExplanation:
        """Returns whether a principal may do an operation on a resource, what decides, and what
        would have to be added. `groups` are those that it is in, as in `Group:shop`."""
        return self._wait(
            self._client.explain_access(principal, operation, resource, host=host, groups=groups)
        )

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> Results[str, dict[ScramMechanism, int] | KafkaError]:
        """Returns the mechanisms of each user with their iterations; of all users if none is
        named."""
        return self._wait(self._client.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, KafkaError | None]:
        """Gives users passwords, or takes them away; a user may be named once."""
        return self._wait(self._client.alter_user_scram_credentials(changes))

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        """Creates a token for whoever this client has logged in as, or for another `owner`, as in
        `User:ada`. `renewers` may renew and end it, as its owner may. It can be renewed for
        `max_lifetime_ms`; -1 is as long as the brokers allow."""
        return self._wait(
            self._client.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
            )
        )

    def renew_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Lets a token, or the one with this HMAC, end `period_ms` from now, if its maximum and the
        brokers allow it; -1 is as late as the brokers allow. Returns when it ends, in ms."""
        return self._wait(self._client.renew_delegation_token(token, period_ms))

    def expire_delegation_token(self, token: DelegationToken | bytes, period_ms: int = -1) -> int:
        """Lets a token, or the one with this HMAC, end `period_ms` from now, or at once. Returns
        when it ends, in ms. Connections that have logged in with it stay as they are."""
        return self._wait(self._client.expire_delegation_token(token, period_ms))

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Returns the tokens that these owners, requesters or renewers have, as in `User:ada`, or
        all that this client may see."""
        return self._wait(self._client.describe_delegation_tokens(owners))

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
