"""A compacted topic that is read from its beginning on, and kept up with: offsets, configurations
and states are such topics.

Only committed records are read. `read_to_end` waits until everything that is committed now has been
applied. Brokers that are away only delay it: reading goes on where it was.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from odradek.client import Consumer
from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.errors import ClientError
from odradek.connect.errors import ConnectError
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

_log = logging.getLogger("odradek.connect")
_POLL_MS: Final = 500
# More than a minute, after which brokers abort a transaction whose producer is gone.
_READ_S: Final = 90.0
_RETRY_S: Final = 0.5

Apply = Callable[[bytes | None, bytes | None], object]
"""Is given the key and the value of each record, in the order of its partition."""


class CompactedTopic:
    def __init__(self, properties: Mapping[str, object], topic: str, apply: Apply) -> None:
        """`properties` are those of a client: bootstrap servers and security."""
        self._properties = dict(properties)
        self.name = topic
        self._apply = apply
        self._positions: dict[int, int] = {}
        self._moved = asyncio.Condition()
        self.failure: str | None = None
        """Why the topic cannot be read at the moment."""

    async def prepare(
        self,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Makes the topic if there is none. Raises `ConnectError` if it would forget records."""
        async with Admin(self._properties) as admin:
            found = (await admin.describe_topics([self.name]))[self.name]
            if isinstance(found, KafkaError):
                if found.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise ConnectError(f"topic {self.name}: {found}")
                await self._create(admin, partitions, replication_factor, configs or {})
                return
            if partitions == 1 and len(found.partitions) != 1:
                raise ConnectError(
                    f"topic {self.name} has {counted(len(found.partitions), 'partition')} and must"
                    " have one, because the order of all records matters; name another one in the"
                    " worker's file: offset.storage.topic for a standalone worker, which cannot"
                    " share that of distributed ones, else config.storage.topic"
                )
            await self._check_policy(admin)

    async def _create(
        self, admin: Admin, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        brokers = len((await admin.describe_metadata([])).brokers)
        factor = replication_factor
        if factor > brokers:
            factor = brokers
            _log.warning(
                "topic %s gets %s, not %d: there is %s; add brokers and then replicas before you"
                " rely on it",
                self.name, counted(factor, "replica"), replication_factor,
                counted(brokers, "broker"),
            )  # fmt: skip
        try:
            await admin.create_topic(
                self.name, partitions, factor, {**configs, "cleanup.policy": "compact"}
            )
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise ConnectError(f"topic {self.name} cannot be made: {error}") from error

    async def _check_policy(self, admin: Admin) -> None:
        resource = ConfigResource(ConfigType.TOPIC, self.name)
        entries = (await admin.describe_configs([resource], ["cleanup.policy"]))[resource]
        if isinstance(entries, KafkaError):
            # Not every user may read settings; then the topic is taken as it is.
            _log.info("the settings of topic %s cannot be read: %s", self.name, entries)
            return
        policy = entries["cleanup.policy"].value
        if policy != "compact":
            raise ConnectError(
                f"topic {self.name} has cleanup.policy={policy}, by which Kafka forgets what was"
                f" written long ago; run: odradek configs --alter --entity-type topics"
                f" --entity-name {self.name} --add-config cleanup.policy=compact"
            )

    async def run(self) -> None:
        """Reads the topic, from its beginning on, until it is cancelled."""
        options = {
            **self._properties,
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "enable.metrics.push": "false",
        }
        async with Consumer(options) as consumer:
            partitions = await self._partitions(consumer)
            consumer.assign(partitions)
            while True:
                try:
                    polled = await consumer.poll(timeout_ms=_POLL_MS)
                except (ClientError, KafkaError) as error:
                    self._note_failure(error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                self.failure = None
                for records in polled.values():
                    for record in records:
                        self._apply(record.key, record.value)
                async with self._moved:
                    for partition in partitions:
                        # It passes control records, which poll() leaves out.
                        self._positions[partition.partition] = await consumer.position(partition)
                    self._moved.notify_all()

    def _note_failure(self, error: Exception) -> None:
        if str(error) != self.failure:
            _log.warning("topic %s cannot be read: %s", self.name, error)
        self.failure = str(error)

    async def _partitions(self, consumer: Consumer) -> list[TopicPartition]:
        while True:
            try:
                found = await consumer.partitions_for(self.name)
            except (ClientError, KafkaError) as error:
                self._note_failure(error)
                await asyncio.sleep(_RETRY_S)
            else:
                return [TopicPartition(self.name, index) for index in found]

    async def read_to_end(self) -> None:
        """Returns when everything that is committed now has been applied.

        It waits for the transactions that are open now, because a reader of committed records sees
        nothing after the first of them. So the end is the high watermark: the last stable offset
        would leave out what was committed after a transaction that a killed worker left open.
        """
        options = {**self._properties, "isolation.level": "read_uncommitted"}
        async with Consumer(options) as consumer:
            partitions = [
                TopicPartition(self.name, index)
                for index in await consumer.partitions_for(self.name)
            ]
            ends = await consumer.end_offsets(partitions)
        try:
            async with asyncio.timeout(_READ_S):
                for partition, end in ends.items():
                    await self.read_to(partition.partition, int(end))
        except TimeoutError as error:
            raise ConnectError(
                f"topic {self.name} was not read to its end within {_READ_S:g} s:"
                f" {self.failure or 'a transaction in it is still open; try again'}"
            ) from error

    async def read_to(self, partition: int, position: int) -> None:
        """Returns when everything before a position has been applied."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._positions.get(partition, -1) >= position)

    @property
    def position(self) -> int:
        """How far the first partition was read."""
        return self._positions.get(0, 0)
