"""The topic that has all statements which change the catalogue, in one order for all servers.

A server checks a statement against its catalogue, writes it, and carries it out when it reads it
back; so do all others. Of two servers that create the same stream at once, the one whose statement
comes first in the topic creates it, and the other one's caller gets the error. The topic has one
partition and keeps everything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from odradek.client.admin.admin import Admin
from odradek.client.admin.topic_types import NewTopic
from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.streams.process.runner import create_topic

_log = logging.getLogger("odradek.sql")
_POLL_MS: Final = 500
_TIMEOUT_S: Final = 30.0
_CATCH_UP_S: Final = 5.0
_RETRY_S: Final = 1.0


def command_topic(service_id: str) -> str:
    """Returns the name of the topic. Who may write to it may change streams, tables and queries."""
    return f"_odradek_sql_{service_id}_commands"


class Command(NamedTuple):
    """A statement with the properties that it is carried out with. `start` has the offsets at which
    a new query begins to read, of the topics that it reads from their end: they are fixed before
    the statement is written, so that its caller's next record counts. `number` is its offset."""

    statement: str
    properties: dict[str, str]
    start: dict[str, list[int]]
    number: int = -1


Apply = Callable[[Command], Awaitable[Any]]


class CommandLog:
    """Writes commands, and has each of them applied, in order."""

    is_open = True
    """Whether statements can be written at all."""

    def __init__(
        self, topic: str, client: Mapping[str, Any], apply: Apply, replication_factor: int = -1
    ) -> None:
        self.topic = topic
        self.applied = -1
        """The number of the last command that was applied."""
        self._client = dict(client)
        self._apply = apply
        self._replication_factor = replication_factor
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._early: dict[int, Any] = {}
        self._producer: Producer | None = None
        self._loaded = asyncio.Event()
        self.is_reading = False
        self._moved = asyncio.Event()

    async def wait_until_loaded(self) -> None:
        await self._loaded.wait()

    async def wait_for(self, number: int) -> None:
        """Waits until a command is applied. Raises `TimeoutError` after 5 s."""
        async with asyncio.timeout(_CATCH_UP_S):
            while self.applied < number:
                self._moved.clear()
                await self._moved.wait()

    async def prepare(self) -> None:
        """Makes the topic, if there is none."""
        configs: dict[str, str | int | float | None] = {
            "cleanup.policy": "delete",
            "retention.ms": -1,
            "retention.bytes": -1,
        }
        wanted = NewTopic(self.topic, 1, self._replication_factor, configs=configs)
        async with Admin(self._client) as admin:
            await create_topic(admin, wanted)

    async def write(self, command: Command) -> Any:
        """Writes a command, and returns what applying it returned. Raises what that raised."""
        if self._producer is None:
            settings = {**self._client, "acks": "all", "enable.idempotence": True}
            self._producer = await Producer(settings).start()
        data = msgspec.json.encode(
            {
                "statement": command.statement,
                "properties": command.properties,
                "start": command.start,
            }
        )
        written = await self._producer.send_and_wait(self.topic, data, partition=0)
        number = int(written.offset)
        if number in self._early:
            outcome = self._early.pop(number)
        else:
            self._waiting[number] = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(_TIMEOUT_S):
                outcome = await self._waiting[number]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def run(self) -> None:
        """Reads and applies until it is cancelled."""
        while True:
            try:
                await self._read()
            except (ClientError, KafkaError, OSError) as error:
                self.is_reading = False
                _log.warning("commands cannot be read, which is tried again: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _read(self) -> None:
        settings = {**self._client, "auto.offset.reset": "earliest"}
        partition = TopicPartition(self.topic, 0)
        async with Consumer(settings) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, self.applied + 1)
            end = (await consumer.end_offsets([partition]))[partition]
            self.is_reading = True
            while True:
                if self.applied + 1 >= end:
                    self._loaded.set()
                for records in (await consumer.poll(_POLL_MS)).values():
                    for record in records:
                        await self._take(int(record.offset), record.value)

    async def _take(self, number: int, data: bytes) -> None:
        outcome: Any
        try:
            found = msgspec.json.decode(data)
            # Statements of earlier versions have no offsets.
            start = found.get("start", {})
            command = Command(found["statement"], found["properties"], start, number)
            outcome = await self._apply(command)
        except Exception as error:  # noqa: BLE001 - whoever wrote it is told; it must not stop others
            outcome = error
            _log.info("command %d failed: %s", number, error)
        self.applied = number
        self._moved.set()
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            self._early[number] = outcome
            self._early.pop(number - 1000, None)
        elif not waiting.done():
            waiting.set_result(outcome)

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
