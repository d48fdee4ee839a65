"""Admin calls about transactions and the producers of partitions."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.client import arguments
from odradek.client.admin.channel import by_topic
from odradek.client.admin.coordinators import CoordinatorChannel
from odradek.client.admin.results import Results
from odradek.client.cluster_view import Broker
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType
from odradek.client.leader_requests import Answers, ask_leaders
from odradek.client.producer.transaction_requests import Identity, end_request, end_version
from odradek.protocol.errors import ErrorCode, KafkaError, error_for, raise_for
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.messages.end_txn import EndTxnResponse
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import BrokerId, ProducerEpoch, ProducerId, TopicPartition

_FIRST_VERSION_WITH_DURATION: Final = ListTransactionsRequest.first_version_with("duration_filter")
_FIRST_VERSION_WITH_PATTERN: Final = ListTransactionsRequest.first_version_with(
    "transactional_id_pattern"
)
# No transaction follows the request that fences, so any timeout that brokers accept will do.
_FENCING_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: Broker


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id at its coordinator; `started_ms` is None if no transaction is open."""

    transactional_id: str
    coordinator: Broker
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """An active producer of a partition; -1 or None means that there is no such value."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """The identity that is valid from now on; producers with an older epoch are fenced."""

    producer_id: int
    producer_epoch: int


class TransactionCalls(CoordinatorChannel):
    async def list_transactions(
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
        call = "list_transactions()"
        ids: list[int] = arguments.several(int, producer_ids, call, "producer ids", "[1000]")
        request = ListTransactionsRequest(
            state_filters=arguments.names(states, call, "states"),
            producer_id_filters=ids,
            duration_filter=arguments.milliseconds(longer_than_ms, call, "longer_than_ms"),
            transactional_id_pattern=pattern,
        )
        await self.describe_metadata([])
        brokers = list(self.cluster.view.brokers.values())
        lists = await asyncio.gather(*(self._list(broker, request) for broker in brokers))
        return [listing for listings in lists for listing in listings]

    async def _list(
        self, broker: Broker, request: ListTransactionsRequest
    ) -> list[TransactionListing]:
        async def ask(connection: Connection) -> ListTransactionsResponse:
            for is_asked, version, what in (
                (request.duration_filter >= 0, _FIRST_VERSION_WITH_DURATION, "duration"),
                (request.transactional_id_pattern, _FIRST_VERSION_WITH_PATTERN, "pattern"),
            ):
                if is_asked and not connection.supports(ListTransactionsRequest, version):
                    raise error_for(
                        ErrorCode.UNSUPPORTED_VERSION,
                        f"{connection.address} cannot list transactions by {what}.",
                    )
            response = await connection.request(request, ListTransactionsResponse)
            raise_for(response.error_code)
            return response

        response = await self.ask_broker(broker.id, ask)
        return [
            TransactionListing(
                state.transactional_id, state.producer_id, state.transaction_state, broker
            )
            for state in response.transaction_states
        ]

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, TransactionDescription | KafkaError]:
        """Returns state, producer and partitions of each transactional id, or its error."""

        async def ask(
            connection: Connection, ids: list[str]
        ) -> dict[str, TransactionDescription | KafkaError]:
            response = await connection.request(
                DescribeTransactionsRequest(transactional_ids=ids), DescribeTransactionsResponse
            )
            return {
                state.transactional_id: error_for(state.error_code)
                if state.error_code
                else TransactionDescription(
                    transactional_id=state.transactional_id,
                    coordinator=self.known_coordinator(KeyType.TRANSACTION, state.transactional_id),
                    state=state.transaction_state,
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    timeout_ms=state.transaction_timeout_ms,
                    started_ms=None
                    if state.transaction_start_time_ms < 0
                    else state.transaction_start_time_ms,
                    partitions=tuple(
                        TopicPartition(topic.topic, index)
                        for topic in state.topics
                        for index in topic.partitions
                    ),
                )
                for state in response.transaction_states
            }

        call = "describe_transactions()"
        asked = arguments.names(transactional_ids, call, "transactional ids")
        return Results(call, await self.ask_coordinators(KeyType.TRANSACTION, asked, ask))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Results[TopicPartition, list[PartitionProducer] | KafkaError]:
        """Returns the active producers of partitions, from their leaders or from one broker."""
        call = "describe_producers()"
        requested = arguments.partitions(partitions, call)
        if broker_id is None:
            answers = await ask_leaders(
                self.cluster, requested, _ask_producers, self.settings.default_api_timeout_ms
            )
        else:
            answers = await self.ask_broker(
                BrokerId(broker_id), lambda connection: _ask_producers(connection, requested)
            )
        return Results(call, answers)

    async def abort_transaction(
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
        partition = arguments.partition(partition, "abort_transaction()")
        marker = WritableTxnMarker(
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(producer_epoch),
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(
                    name=partition.topic, partition_indexes=[partition.partition]
                )
            ],
            # A producer that never ended a transaction before has no coordinator epoch yet.
            coordinator_epoch=max(coordinator_epoch, 0),
        )

        async def ask(connection: Connection, _: list[TopicPartition]) -> Answers[bool]:
            response = await connection.request(
                WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            return {
                TopicPartition(topic.name, answer.partition_index): error_for(answer.error_code)
                if answer.error_code
                else True
                for answered in response.markers
                for topic in answered.topics
                for answer in topic.partitions
            }

        answers = await ask_leaders(
            self.cluster, [partition], ask, self.settings.default_api_timeout_ms
        )
        if isinstance(error := answers[partition], KafkaError):
            raise error

    async def end_transactions(
        self, identities: Iterable[Identity], *, is_commit: bool
    ) -> Results[str, bool | KafkaError]:
        """Commits or aborts transactions that their producers have handed over, by id.

        True means that the transaction ended now, or earlier with the same identity. An identity
        that was fenced in the meantime gets an error, and its transaction was aborted.
        """
        call = "end_transactions()"
        given = arguments.several(Identity, identities, call, "identities")
        identities_by_id = {identity.transactional_id: identity for identity in given}

        async def ask(connection: Connection, ids: list[str]) -> dict[str, bool | KafkaError]:
            return {
                transactional_id: await _end(
                    connection, identities_by_id[transactional_id], is_commit
                )
                for transactional_id in ids
            }

        return Results(
            call, await self.ask_coordinators(KeyType.TRANSACTION, identities_by_id, ask)
        )

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, FencedProducer | KafkaError]:
        """Fences the producers with these transactional ids and aborts their open transactions."""

        async def ask(
            connection: Connection, ids: list[str]
        ) -> dict[str, FencedProducer | KafkaError]:
            return {
                transactional_id: await _fence(connection, transactional_id)
                for transactional_id in ids
            }

        call = "fence_producers()"
        fenced = arguments.names(transactional_ids, call, "transactional ids")
        return Results(call, await self.ask_coordinators(KeyType.TRANSACTION, fenced, ask))


async def _fence(connection: Connection, transactional_id: str) -> FencedProducer | KafkaError:
    response = await connection.request(
        InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS
        ),
        InitProducerIdResponse,
    )
    if response.error_code:
        return error_for(response.error_code)
    return FencedProducer(response.producer_id, response.producer_epoch)


async def _end(connection: Connection, who: Identity, is_commit: bool) -> bool | KafkaError:
    response = await connection.request(
        end_request(who, is_commit),
        EndTxnResponse,
        max_version=end_version(connection.features),
    )
    return error_for(response.error_code) if response.error_code else True


async def _ask_producers(
    connection: Connection, partitions: list[TopicPartition]
) -> Answers[list[PartitionProducer]]:
    response = await connection.request(
        DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        ),
        DescribeProducersResponse,
    )
    return {
        TopicPartition(topic.name, answer.partition_index): error_for(
            answer.error_code, answer.error_message
        )
        if answer.error_code
        else [
            PartitionProducer(
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.last_sequence,
                producer.last_timestamp,
                None
                if producer.current_txn_start_offset < 0
                else producer.current_txn_start_offset,
            )
            for producer in answer.active_producers
        ]
        for topic in response.topics
        for answer in topic.partitions
    }
