"""Writes batches of the broker's own to a topic of its cluster: audit events and dead letters.

The broker sends them to the leader as a client would, over the connections between brokers; so the
principal of the brokers needs Write on the topic, which a super user has.
"""

from typing import Final, NamedTuple

from odradek.client.errors import ClientError
from odradek.cluster.topics import NewTopic, Topics
from odradek.metadata import MetadataCache
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.replication.peers import Peers, PeerUnreachable

_PRODUCE_TIMEOUT_MS: Final = 10_000
_ALL_REPLICAS: Final = -1


class NotWritten(NamedTuple):
    """Why a batch was not written. If it is `final`, another try would end the same way."""

    reason: str
    is_final: bool = False


class ClusterProducer:
    """Writes to one topic, which it creates if it does not exist. Nothing is retried here."""

    def __init__(
        self, topic: str, topics: Topics, cache: MetadataCache, peers: Peers, purpose: str
    ) -> None:
        """Requests of one `purpose` share a connection and are answered in order."""
        self.topic = topic
        self._topics = topics
        self._cache = cache
        self._peers = peers
        self._purpose = purpose

    async def send(self, records: bytes, index: int) -> NotWritten | None:
        """Sends a batch to a partition, which is counted from the first one again if the topic has
        fewer partitions. Returns None when all in-sync replicas have it."""
        topic = self._cache.image.topics.get(self.topic)
        if topic is None:
            return await self._create()
        index %= len(topic.partitions)
        leader = self._cache.image.live_leader(topic.partitions[index])
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=self.topic,
                    topic_id=topic.topic_id,
                    partition_data=[PartitionProduceData(index=index, records=records)],
                )
            ],
        )
        try:
            connection = await self._peers.connection(leader, self._purpose)
            response = await connection.request(request, ProduceResponse)
        except (PeerUnreachable, ClientError, KafkaError) as error:
            return NotWritten(str(error) or type(error).__name__)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            return None
        return NotWritten(f"{code.name}: {code.message}", is_final=not code.retriable)

    async def _create(self) -> NotWritten:
        try:
            await self._topics.create(NewTopic(self.topic))
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                return NotWritten(str(error))
        await self._cache.catch_up()
        return NotWritten("it is being created")
