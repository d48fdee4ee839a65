"""The topic `_schemas`: checks it, reads it, and writes to it as the one primary.

Reading. Every instance reads the whole topic, from its beginning on and then for ever, and applies
each record to the state. It reads committed records only, so no instance ever shows a schema whose
registration may still fail.

Writing. Only the primary writes, in transactions of one transactional id:

1. `begin` makes a producer with the id. The transaction coordinator bumps the epoch of the id, and
   from then on refuses every write of an earlier primary, whatever it believes: one that was
   stopped for minutes, or is cut off from the other instances but not from Kafka.
2. It writes a record and reads up to it. So the state has everything that earlier primaries wrote.
   The record also keeps the highest ids, those of aborted transactions included (`_aborted_ids`):
   Confluent's registry reads uncommitted records, and would take an id for what it first saw.
3. `write` commits the records of a batch and returns when they have been read back. The state is
   always a prefix of the topic: there is nothing to take back when a write fails.

What would break it: another writer that has no transactional id, such as Confluent's registry with
the same topic at the same time.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from odradek.client import Consumer, Producer
from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.errors import ClientError, ProducerFenced
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.registry.records import NOOP_KEY, id_in, max_ids
from odradek.registry.state import RegistryState
from odradek.services.start import Say
from odradek.statemachine.machine import LogRecord
from odradek.wording import counted
from odradek.world import World

_log = logging.getLogger("odradek.registry")

_PARTITION: Final = 0
_POLL_MS: Final = 1_000
_MAX_POLL_RECORDS: Final = 2_000
_TRANSACTION_TIMEOUT_MS: Final = 10_000
_PROGRESS_EVERY: Final = 50_000
_SHOWN_PROBLEMS: Final = 20
_ADMIN_TIMEOUT_MS: Final = 5_000
_READ_BACK_S: Final = 20.0
_FENCED: Final = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}


class UnusableTopic(Exception):
    """The topic cannot hold schemas; the message says what to change."""


class WriteFailed(Exception):
    """A write did not happen, or it is not known whether it did: begin again."""


class Fenced(WriteFailed):
    """Another instance has become the writer."""


class SchemaLog(Protocol):
    """What a registry needs of the topic."""

    @property
    def applied(self) -> int:
        """The offset up to which records have been applied."""
        ...

    async def wait_until(self, offset: int) -> None:
        """Returns when the record at `offset` has been applied."""
        ...

    async def begin(self) -> None: ...

    async def write(self, changes: Sequence[LogRecord]) -> int:
        """Writes all changes or none, and returns the offset of the last one, which is applied."""
        ...

    async def end(self) -> None:
        """Gives the role of the writer up."""
        ...

    async def conclude(self) -> None:
        """Gives the role up in order, when the instance stops."""
        ...


class KafkaSchemaLog:
    def __init__(
        self,
        properties: Mapping[str, object],
        topic: str,
        transactional_id: str,
        state: RegistryState,
        world: World,
    ) -> None:
        """`properties` are those of a client: bootstrap servers and security."""
        self._properties = dict(properties)
        self._topic = topic
        self._transactional_id = transactional_id
        self._state = state
        self._world = world
        self._tp = TopicPartition(topic, _PARTITION)
        self._applied = 0
        self._last_noop = 0
        self._loaded_to: int | None = None
        self._moved = asyncio.Condition()
        self._producer: Producer | None = None
        self.problems = 0
        self.failure: str | None = None
        """Why the topic cannot be read at the moment."""

    # The topic

    async def prepare(self, replication_factor: int, say: Say) -> None:
        """Creates the topic, or checks the one that is there."""
        limits = {"default.api.timeout.ms": _ADMIN_TIMEOUT_MS, "request.timeout.ms": 4_000}
        async with Admin({**self._properties, **limits}, world=self._world) as admin:
            try:
                await self._create(admin, replication_factor, say)
            except KafkaError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            await self._check(admin, say)

    async def _create(self, admin: Admin, replication_factor: int, say: Say) -> None:
        known = await admin.describe_topics([self._topic])
        if not isinstance(known[self._topic], KafkaError):
            return
        brokers = len((await admin.describe_metadata([])).brokers)
        factor = max(1, min(replication_factor, brokers))
        await admin.create_topic(self._topic, 1, factor, {"cleanup.policy": "compact"})
        if factor < replication_factor:
            say(
                f"topic {self._topic} has {counted(factor, 'replica')}, not {replication_factor}:"
                f" there is {counted(brokers, 'broker')}; add brokers and then replicas before you"
                " rely on it"
            )

    async def _check(self, admin: Admin, say: Say) -> None:
        described = (await admin.describe_topics([self._topic]))[self._topic]
        if isinstance(described, KafkaError):
            raise described
        partitions = described.partitions
        if len(partitions) != 1:
            raise UnusableTopic(
                f"topic {self._topic} has {counted(len(partitions), 'partition')} and must have"
                " one, because the order of all records matters; name another with kafkastore.topic"
            )
        resource = ConfigResource(ConfigType.TOPIC, self._topic)
        entries = (await admin.describe_configs([resource], ["cleanup.policy"]))[resource]
        if isinstance(entries, KafkaError):
            # Not every user may read settings; then the topic is taken as it is.
            say(f"the settings of topic {self._topic} cannot be read: {entries}")
            return
        policy = entries["cleanup.policy"].value
        if policy != "compact":
            raise UnusableTopic(
                f"topic {self._topic} has cleanup.policy={policy}, by which Kafka deletes schemas"
                f" that are old; run: odradek configs --alter --entity-type topics --entity-name"
                f" {self._topic} --add-config cleanup.policy=compact"
            )

    # Reading

    @property
    def applied(self) -> int:
        return self._applied

    @property
    def is_loaded(self) -> bool:
        """Whether everything that was there at the start has been read."""
        return self._loaded_to is not None and self._applied >= self._loaded_to

    async def read(self, say: Say) -> None:
        """Reads the topic for ever, and applies its records."""
        async with Consumer(
            {
                **self._properties,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "max.poll.records": _MAX_POLL_RECORDS,
                "fetch.max.wait.ms": 500,
                "enable.auto.commit": False,
                "enable.metrics.push": False,
            },
            world=self._world,
        ) as consumer:
            consumer.assign([self._tp])
            consumer.seek_to_beginning([self._tp])
            end = (await consumer.end_offsets([self._tp]))[self._tp]
            self._loaded_to = int(end)
            while True:
                await self._read_some(consumer, say)

    async def _read_some(self, consumer: Consumer, say: Say) -> None:
        try:
            polled = await consumer.poll(_POLL_MS)
        except (ClientError, KafkaError) as error:
            self.failure = str(error)
            _log.warning("topic %s cannot be read: %s", self._topic, error)
            await asyncio.sleep(1)
            return
        self.failure = None
        for records in polled.values():
            for record in records:
                if record.offset < self._applied:
                    continue
                if record.key == NOOP_KEY:
                    self._last_noop = record.offset
                problem = self._state.apply(record.key, record.value, record.timestamp_ms)
                if problem is not None:
                    self._note_problem(record.offset, problem)
                if record.offset and record.offset % _PROGRESS_EVERY == 0 and not self.is_loaded:
                    say(f"read {record.offset:,} of {self._loaded_to:,} records of {self._topic}")
                self._applied = record.offset + 1
        # The position passes the control records that end transactions, which poll() leaves out.
        position = int(await consumer.position(self._tp))
        if position < self._applied:
            raise UnusableTopic(
                f"topic {self._topic} was deleted, or lost records: this instance had read it up to"
                f" offset {self._applied:,}, and now it ends before. Restore it, then start again"
            )
        async with self._moved:
            self._applied = max(self._applied, position)
            self._moved.notify_all()

    def _note_problem(self, offset: int, problem: str) -> None:
        self.problems += 1
        if self.problems <= _SHOWN_PROBLEMS:
            _log.warning(
                "the record at offset %d of topic %s is skipped: %s",
                offset, self._topic, problem,
            )  # fmt: skip

    async def wait_until_loaded(self) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self.is_loaded)

    async def wait_until(self, offset: int) -> None:
        if self._applied > offset:
            return
        async with self._moved:
            await self._moved.wait_for(lambda: self._applied > offset)

    # Writing

    async def begin(self) -> None:
        """Becomes the one writer, and waits until the state has all that others wrote."""
        await self.end()
        producer = Producer(
            {
                **self._properties,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "acks": "all",
                "linger.ms": 0,
                "delivery.timeout.ms": 15_000,
                "request.timeout.ms": 10_000,
                "max.block.ms": 15_000,
                "enable.metrics.push": False,
            },
            world=self._world,
        )
        self._producer = producer
        await producer.init_transactions()
        # Now nobody else can write. All that was written is before this record.
        highest = self._state.max_ids()
        for context, schema_id in (await self._aborted_ids()).items():
            highest[context] = max(highest.get(context, 0), schema_id)
        await self.write([max_ids(highest)])

    async def _aborted_ids(self) -> dict[str, int]:
        """Returns the highest id of each context in the records since a primary last wrote the
        highest ids, whether their transactions were committed or aborted."""
        highest: dict[str, int] = {}
        settings = {"isolation.level": "read_uncommitted", "enable.metrics.push": False}
        async with Consumer({**self._properties, **settings}, world=self._world) as consumer:
            consumer.assign([self._tp])
            end = int((await consumer.end_offsets([self._tp]))[self._tp])
            consumer.seek(self._tp, min(self._last_noop, end))
            while await consumer.position(self._tp) < end:
                for records in (await consumer.poll(_POLL_MS)).values():
                    for record in records:
                        found = id_in(record.key, record.value)
                        if found is not None:
                            context, schema_id = found
                            highest[context] = max(highest.get(context, 0), schema_id)
        return highest

    async def write(self, changes: Sequence[LogRecord]) -> int:
        producer = self._producer
        if producer is None:
            raise WriteFailed("this instance is not the primary any more")
        try:
            await producer.begin_transaction()
            sent = [
                await producer.send(self._topic, change.value, change.key, partition=_PARTITION)
                for change in changes
            ]
            await producer.commit_transaction()
            offset = int((await sent[-1]).offset)
            async with asyncio.timeout(_READ_BACK_S):
                await self.wait_until(offset)
        except ProducerFenced as error:
            raise Fenced(str(error)) from error
        except TimeoutError:
            raise WriteFailed("what was written cannot be read back") from None
        except (ClientError, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code in _FENCED:
                raise Fenced(str(error)) from error
            raise WriteFailed(str(error)) from error
        return offset

    async def end(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(timeout_ms=1_000)

    async def conclude(self) -> None:
        """Gives the role up, and writes a last record that is in no transaction.

        Karapace takes a topic for read when it has the record at its last offset. A transaction
        ends with a marker, which no consumer is given, so Karapace would wait for ever.
        """
        await self.end()
        record = max_ids(self._state.max_ids())
        settings = {"delivery.timeout.ms": 3_000, "request.timeout.ms": 2_000, "linger.ms": 0}
        quiet = {"max.block.ms": 3_000, "enable.metrics.push": False}
        try:
            async with Producer(
                {**self._properties, **settings, **quiet}, world=self._world
            ) as producer:
                await producer.send_and_wait(
                    self._topic, record.value, record.key, partition=_PARTITION
                )
        except (ClientError, KafkaError) as error:
            _log.info("the last record was not written: %s", error)
