"""The calls of `Admin` about groups, their offsets, and transactions."""

from collections.abc import Iterable, Mapping

from odradek.client.admin.admin import Admin as AsyncAdmin
from odradek.client.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupOffset,
    MemberToRemove,
)
from odradek.client.admin.results import Results
from odradek.client.admin.transactions import (
    FencedProducer,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.producer.transaction_requests import Identity
from odradek.client.sync.waiting import WaitingClient
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition


class GroupCalls(WaitingClient[AsyncAdmin]):
    """Passes them on to the asyncio client and waits."""

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
