"""Where the configurations are: in memory, or in a topic that one worker writes, the leader.

    follower --begin: fence earlier leaders, read to the end--> leader --write fenced--> follower

The leader writes each change in a transaction, under a transactional id that all leaders of the
group share. `begin` fences every earlier one: a leader that was stopped and goes on later, or is
cut off from the group, cannot change anything any more. A change is answered when it was read back,
so the answer is true for whoever asks the leader next.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.client import Producer
from odradek.client.errors import ClientError, ProducerFenced
from odradek.connect.engine.compacted_topic import CompactedTopic
from odradek.connect.errors import ConnectError, InvalidConfig
from odradek.connect.worker.config_state import ConfigRecord, ConfigState, Request
from odradek.protocol.errors import ErrorCode, KafkaError

_READ_BACK_S: Final = 15.0
_PARTITION: Final = 0
_MAX_BYTES: Final = 900_000
_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})

OnChange = Callable[[Request | None], None]
"""Is told that the state has changed, and what workers are asked to do, if anything."""


class NotLeader(Exception):
    """Another worker writes, or none does; the change was not made."""


class OutcomeUnknown(ConnectError):
    """The brokers failed while a change was written: it may have been made."""


class ConfigStore(ABC):
    def __init__(self) -> None:
        self.state = ConfigState()
        self.on_change: OnChange = lambda request: None
        self.on_lost: Callable[[], None] = lambda: None
        """Is told that a write was refused."""

    @property
    def position(self) -> int:
        """How far the state has come: it only grows, and is the same for the same state."""
        return 0

    @abstractmethod
    async def begin(self) -> None:
        """Becomes the one writer. Raises `NotLeader`."""

    @abstractmethod
    async def write(self, records: Sequence[ConfigRecord]) -> None:
        """Writes records, all or none, and returns when the state has them. Raises `NotLeader`."""

    @abstractmethod
    async def end(self) -> None:
        """Gives writing up."""

    async def read_to(self, position: int) -> None:
        """Returns when the state has come as far as this."""
        return


class MemoryConfigs(ConfigStore):
    """The connectors of a standalone worker, which come from files."""

    async def begin(self) -> None:
        return

    async def write(self, records: Sequence[ConfigRecord]) -> None:
        requests = [self.state.apply(*record.encoded()) for record in records]
        for request in requests or [None]:
            self.on_change(request)

    async def end(self) -> None:
        return


class TopicConfigs(ConfigStore):
    def __init__(self, properties: Mapping[str, object], topic: str, group_id: str) -> None:
        super().__init__()
        self._properties = dict(properties)
        self.topic = CompactedTopic(properties, topic, self._apply)
        # The name under which Apache Kafka Connect's leaders write, so that they fence each other.
        self._transactional_id = f"connect-cluster-{group_id}"
        self._producer: Producer | None = None
        self._is_loaded = False
        self._writing = asyncio.Lock()

    @property
    def position(self) -> int:
        return self.topic.position

    async def load(self) -> None:
        """Returns when the topic was read to its end. What was asked for before is not done."""
        await self.topic.read_to_end()
        self._is_loaded = True
        self.on_change(None)

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        request = self.state.apply(key, value)
        if self._is_loaded:
            self.on_change(request)

    async def begin(self) -> None:
        await self.end()
        self._producer = Producer(
            {
                **self._properties,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": 10_000,
                "acks": "all",
                "linger.ms": 0,
                "delivery.timeout.ms": 15_000,
                "request.timeout.ms": 10_000,
                "max.block.ms": 15_000,
                "enable.metrics.push": False,
            }
        )
        try:
            await self._producer.init_transactions()
            await self.topic.read_to_end()
        except (ClientError, KafkaError, ConnectError, TimeoutError) as error:
            await self.end()
            raise NotLeader(f"cannot become the leader: {error}") from error

    async def write(self, records: Sequence[ConfigRecord]) -> None:
        if not records:
            return
        encoded = [record.encoded() for record in records]
        for record, (_, value) in zip(records, encoded, strict=True):
            if len(value or b"") > _MAX_BYTES:
                raise InvalidConfig(f"{record.key} is larger than {_MAX_BYTES:,} bytes")
        async with self._writing:
            producer = self._producer
            if producer is None:
                raise NotLeader("this worker does not lead the group")
            try:
                await producer.begin_transaction()
                sent = [
                    await producer.send(self.topic.name, value, key, partition=_PARTITION)
                    for key, value in encoded
                ]
                await producer.commit_transaction()
                offset = int((await sent[-1]).offset)
                async with asyncio.timeout(_READ_BACK_S):
                    await self.topic.read_to(_PARTITION, offset + 1)
            except (ClientError, KafkaError, TimeoutError) as error:
                await self.end()
                self.on_lost()
                if _is_fenced(error):
                    raise NotLeader("another worker leads the group now") from error
                raise OutcomeUnknown(
                    "the brokers failed, and the change may have been made: look, and try again"
                    f" ({str(error) or 'it cannot be read back'})"
                ) from error

    async def end(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(timeout_ms=1_000)

    async def read_to(self, position: int) -> None:
        await self.topic.read_to(_PARTITION, position)


def _is_fenced(error: Exception) -> bool:
    return isinstance(error, ProducerFenced) or (
        isinstance(error, KafkaError) and error.code in _FENCED
    )
