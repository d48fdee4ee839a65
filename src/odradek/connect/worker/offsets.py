"""How far connectors have come, seen and set by users (KIP-875).

The offsets of sources stand in the worker's topic, those of sinks are the committed offsets of the
group `connect-NAME`. They may be set while the connector is stopped. Before those of a source are
written, its producers are fenced: a task that hangs, or that runs on a worker which was cut off,
cannot commit over them.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from odradek.client import Producer
from odradek.client.admin.admin import Admin
from odradek.client.admin.group_types import GroupOffset
from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.context import connector_of, is_source
from odradek.connect.engine.offset_store import OffsetStore, offset_key, offset_value
from odradek.connect.engine.task_thread import TaskThread
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.worker.fencing import Fencing
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
_CHECK_S: Final = 20.0
_LEAVE_S: Final = 15.0
_LOOK_AGAIN_S: Final = 0.1

Entry = tuple[Mapping[str, Any], Mapping[str, Any] | None]
GivenEntry = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""What a caller sent: a partition is missing where it was left out."""
"""A partition of a source or a topic, and how far it was read; None removes that."""


class Offsets:
    def __init__(
        self,
        store: OffsetStore,
        worker: Mapping[str, object],
        clients: ConnectorClients,
        fencing: Fencing,
    ) -> None:
        """`worker` are the properties of the worker's own clients."""
        self._store = store
        self._worker = dict(worker)
        self._clients = clients
        self._fencing = fencing

    async def of(self, name: str, properties: Mapping[str, str]) -> list[Entry]:
        """Returns what is committed."""
        if is_source(properties):
            await self._store.read_to_end()
            return list(self._store.all_of(name))
        async with Admin(self._clients.admin(properties)) as admin:
            try:
                found = await admin.list_group_offsets(_group(name, properties))
            except KafkaError as error:
                if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                    return []
                raise
        return [
            ({TOPIC: tp.topic, PARTITION: tp.partition}, {OFFSET: at.offset})
            for tp, at in sorted(found.items())
            if isinstance(at, GroupOffset) and at.offset >= 0
        ]

    async def change(
        self,
        name: str,
        properties: Mapping[str, str],
        entries: Sequence[Entry],
        former_tasks: int,
    ) -> None:
        """Sets offsets. `former_tasks` is how many tasks a source had when it ran last. Raises
        `DataError` for offsets that the connector could not read from."""
        if is_source(properties):
            await self._check(properties, entries)
            await self._store.read_to_end()
            await self._write(name, properties, entries, former_tasks)
        else:
            await self._commit(name, properties, entries)

    async def reset(self, name: str, properties: Mapping[str, str], former_tasks: int) -> None:
        """Removes all offsets of a connector."""
        known = await self.of(name, properties)
        if is_source(properties):
            nothing = [(partition, None) for partition, _ in known]
            await self._write(name, properties, nothing, former_tasks)
            return
        async with Admin(self._clients.admin(properties)) as admin:
            group = _group(name, properties)
            await _until_empty(admin, group)
            answer = (await admin.delete_groups([group]))[group]
            if isinstance(answer, KafkaError) and answer.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise ConnectError(f"the offsets of group {group} cannot be removed: {answer}")

    @staticmethod
    async def _check(properties: Mapping[str, str], entries: Iterable[Entry]) -> None:
        def check() -> None:
            connector: SourceConnector = connector_of(properties)
            for partition, offset in entries:
                connector.check_offset(partition, offset)

        thread = TaskThread("offsets")
        try:
            async with asyncio.timeout(_CHECK_S):
                await thread.call(check)
        finally:
            thread.close()

    async def _write(
        self,
        name: str,
        properties: Mapping[str, str],
        entries: Iterable[Entry],
        former_tasks: int,
    ) -> None:
        # Where no record says how many tasks there were, it was at most what is allowed now.
        await self._fencing.fence(
            name, properties, former_tasks or int(properties.get("tasks.max") or 1)
        )
        known = self._store.all_of(name)
        async with Producer({**self._worker, "acks": "all", "linger.ms": 0}) as producer:
            sent = [
                await producer.send(
                    self._store.topic,
                    offset_value(offset),
                    offset_key(name, known.as_known(partition)),
                )
                for partition, offset in entries
            ]
            await asyncio.gather(*sent)
        await self._store.read_to_end()

    async def _commit(
        self, name: str, properties: Mapping[str, str], entries: Iterable[Entry]
    ) -> None:
        wanted: dict[TopicPartition, GroupOffset] = {}
        removed: list[TopicPartition] = []
        for partition, offset in entries:
            tp = _topic_partition(partition)
            if offset is None:
                removed.append(tp)
            else:
                wanted[tp] = GroupOffset(_number(offset, OFFSET))
        group = _group(name, properties)
        async with Admin(self._clients.admin(properties)) as admin:
            await _until_empty(admin, group)
            answers: dict[TopicPartition, Any] = {}
            if wanted:
                answers.update(await admin.alter_group_offsets(group, wanted, may_create=True))
            if removed:
                answers.update(await admin.delete_group_offsets(group, removed))
        for tp, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise DataError(f"the offset of {tp.topic}-{tp.partition} is refused: {answer}")


async def _until_empty(admin: Admin, group: str) -> None:
    """Returns when the tasks of a sink that was stopped have left its group."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _LEAVE_S
    while True:
        found = (await admin.describe_groups([group]))[group]
        if isinstance(found, KafkaError) or not found.members:
            return
        if loop.time() > deadline_s:
            raise ConnectError(
                f"group {group} still has {counted(len(found.members), 'member')}: its offsets can"
                " be set when they have left; try again"
            )
        await asyncio.sleep(_LOOK_AGAIN_S)


def _group(name: str, properties: Mapping[str, str]) -> str:
    return properties.get("consumer.override.group.id") or f"connect-{name}"


def _topic_partition(partition: Mapping[str, Any]) -> TopicPartition:
    topic = partition.get(TOPIC)
    if partition.keys() != {TOPIC, PARTITION} or not isinstance(topic, str) or not topic:
        raise DataError(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and"
            f" '{PARTITION}', and no others"
        )
    return TopicPartition(topic, _number(partition, PARTITION))


def _number(given: Mapping[str, Any], name: str) -> int:
    if name == OFFSET and given.keys() != {OFFSET}:
        raise DataError(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}',"
            " and no others"
        )
    value = given.get(name)
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(value)
        number = int(value)
    except ValueError:
        word = "offset" if name == OFFSET else "partition"
        raise DataError(
            f"Failed to parse the following Kafka {word} value in the provided offsets: '{value}'."
            f" {word.capitalize()} values for sink connectors need to be integers."
        ) from None
    if number < 0:
        raise DataError(f"{name} must not be negative, and is {number}")
    return number
