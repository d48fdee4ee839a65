"""Where audit events are written: a file that is rolled when it is full, or a topic.

`write` takes lines without line ends and returns whether they are in the log for good. The topic is
retried until the lines are there, because it is away for a while whenever its leader changes; a
file that cannot be written is given up at once, and tried again with the next lines. In both cases
the audit log goes on to collect events, and drops what does not fit into its buffer.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

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
from odradek.protocol.records import BatchBuilder
from odradek.replication.peers import Peers, PeerUnreachable
from odradek.telemetry.log_files import RollingFile
from odradek.world import World

logger = logging.getLogger("odradek.server")

_RETRY_S: Final = 0.5
_PRODUCE_TIMEOUT_MS: Final = 10_000
_ALL_REPLICAS: Final = -1


class Sink(Protocol):
    @property
    def description(self) -> str:
        """Where it writes, for the operator."""
        ...

    async def write(self, lines: Sequence[bytes]) -> bool: ...

    def close(self) -> None: ...


class FileSink:
    """A file with its backups, as the application logs have them. Its calls run in a thread: a disk
    that stalls does not stall requests."""

    def __init__(self, world: World, path: str, *, max_bytes: int, max_backups: int) -> None:
        self.description = path
        self._workers = world.workers
        self._file = RollingFile(
            world.disk,
            world.clock,
            path,
            _log_error,
            max_bytes=max_bytes,
            max_backups=max_backups,
        )

    async def write(self, lines: Sequence[bytes]) -> bool:
        lost = self._file.lost
        # The audit log tells by itself which events are missing.
        write = partial(self._file.write, b"\n".join((*lines, b"")), lambda _: b"")
        await self._workers.run_blocking(write)
        return self._file.lost == lost

    def close(self) -> None:
        self._file.close()


def _log_error(complaint: str) -> None:
    logger.error("%s", complaint)


class TopicSink:
    """A topic of this cluster, which is created if it does not exist. The broker sends the records
    to the leader as a client would, over the connections between brokers; so the principal of the
    brokers needs Write on the topic, which a super user has."""

    def __init__(
        self, topic: str, topics: Topics, cache: MetadataCache, peers: Peers, world: World
    ) -> None:
        self.description = f"topic {topic}"
        self._topic = topic
        self._topics = topics
        self._cache = cache
        self._peers = peers
        self._clock = world.clock
        self._next_partition = 0
        self._complaint = ""

    async def write(self, lines: Sequence[bytes]) -> bool:
        builder, now_ms = BatchBuilder(), self._clock.now_ms()
        for line in lines:
            builder.append(None, line, timestamp_ms=now_ms)
        records = builder.build()
        while True:
            complaint = await self._send(records)
            if complaint is None:
                if self._complaint:
                    logger.info("audit events are written to topic %s again", self._topic)
                self._complaint = ""
                return True
            if complaint != self._complaint:
                self._complaint = complaint
                logger.warning(
                    "audit events wait for topic %s: %s; this is tried again and again",
                    self._topic,
                    complaint,
                )
            await asyncio.sleep(_RETRY_S)

    async def _send(self, records: bytes) -> str | None:
        """Sends a batch to the next partition. Returns why it was not written, or None."""
        topic = self._cache.image.topics.get(self._topic)
        if topic is None:
            return await self._create()
        count = len(topic.partitions)
        index = self._next_partition = (self._next_partition + 1) % count
        leader = self._cache.image.live_leader(topic.partitions[index])
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    topic_id=topic.topic_id,
                    partition_data=[PartitionProduceData(index=index, records=records)],
                )
            ],
        )
        try:
            connection = await self._peers.connection(leader, "audit")
            response = await connection.request(request, ProduceResponse)
        except (PeerUnreachable, ClientError, KafkaError) as error:
            return str(error) or type(error).__name__
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        return None if code is ErrorCode.NONE else f"{code.name}: {code.message}"

    async def _create(self) -> str | None:
        try:
            await self._topics.create(NewTopic(self._topic))
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                return str(error)
        await self._cache.catch_up()
        return "it is being created"

    def close(self) -> None:
        """The connection is one of the broker's, which closes it."""
