"""PRINT: the records of a topic, each as a line."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, Final

from odradek.client.consumer.consumer import Consumer
from odradek.config.spelling import did_you_mean
from odradek.protocol.acls import Operation
from odradek.protocol.types import TopicPartition
from odradek.schemas.registry_client import RegistryClient
from odradek.sql.engine.access import Access
from odradek.sql.errors import Invalid
from odradek.sql.formats.printing import Shown
from odradek.sql.language.statements import PrintTopic

_POLL_MS: Final = 250


async def printed(
    access: Access, statement: PrintTopic, registry: RegistryClient | None
) -> AsyncGenerator[bytes]:
    """Returns the lines of a topic; what has a schema in the registry is JSON. Raises `Invalid` if
    there is no such topic: a stream that has begun could not say so."""
    topics = await access.admin.list_topics(include_internal=True)
    if statement.topic not in topics:
        near = did_you_mean(statement.topic, topics) or "; SHOW TOPICS; lists what there is"
        raise Invalid(f"Could not find topic '{statement.topic}'{near}", statement.place)
    await access.require(Operation.READ, [statement.topic], f"print {statement.topic}")
    return _lines(access, statement, registry)


async def _lines(
    access: Access, statement: PrintTopic, registry: RegistryClient | None
) -> AsyncGenerator[bytes]:
    """Yields a line for each record, or for every n-th with INTERVAL, until LIMIT."""
    settings = {**access.consumer_properties(), "auto.offset.reset": "earliest"}
    settings.pop("group.id", None)
    seen = given = 0
    keys, values = Shown(registry, "key"), Shown(registry, "value")
    async with Consumer(settings) as consumer:
        numbers = await consumer.partitions_for(statement.topic)
        partitions = [TopicPartition(statement.topic, number) for number in numbers]
        consumer.assign(partitions)
        if statement.from_beginning:
            consumer.seek_to_beginning()
        else:
            consumer.seek_to_end()
            for partition in partitions:
                await consumer.position(partition)
        while statement.limit is None or given < statement.limit:
            for records in (await consumer.poll(_POLL_MS)).values():
                for record in records:
                    seen += 1
                    if (seen - 1) % (statement.interval or 1):
                        continue
                    yield _line(
                        record, await _shown(record.key, keys), await _shown(record.value, values)
                    )
                    given += 1
                    if statement.limit is not None and given >= statement.limit:
                        return


def _line(record: Any, key: str, value: str) -> bytes:
    moment = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    rowtime = f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03} Z"
    line = f"rowtime: {rowtime}, key: {key}, value: {value}, partition: {record.partition}\n"
    return line.encode()


async def _shown(data: bytes | None, registered: Shown) -> str:
    if data is None:
        return "<null>"
    found = await registered.text(data)
    if found is not None:
        return found
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return text
    if len(data) in (4, 8):
        return str(int.from_bytes(data, "big", signed=True))
    return data.hex()
