"""The rows of streams and tables in memory, for pull queries that ask for more than keys.

A view reads its topic to the end when it is first asked, and on when it is asked again. It reads
with the log-in of the server; whoever asks has been asked whether they may read the topic.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from odradek.client.consumer.consumer import Consumer
from odradek.protocol.types import TopicPartition
from odradek.sql.planning.sources import (
    DataSource,
    MakeCodec,
    flat_row,
    key_codec,
    timestamp_reader,
    value_codec,
)
from odradek.streams.plan.records import RecordContext
from odradek.world.blocking_calls import without_blocking

_POLL_MS: Final = 250
_MOST_RECORDS: Final = 200_000
_LOOK_AGAIN_S: Final = 60.0


class Rows:
    """Makes flat rows of records of one stream or table."""

    def __init__(self, source: DataSource, make: MakeCodec) -> None:
        self._keys = key_codec(source, make)
        self._values = value_codec(source, make)
        self._flatten = flat_row(source)
        self._timestamp_of = timestamp_reader(source)

    def encode_key(self, key: tuple[Any, ...]) -> bytes | None:
        return self._keys.encode(key)

    def of(self, record: Any) -> tuple[Any, Any]:
        """Returns the key of a record, and its row or None for a deletion. Raises what the formats
        raise for a record that they cannot read."""
        context = RecordContext()
        context.partition, context.offset = record.partition, record.offset
        context.timestamp_ms, context.headers = record.timestamp_ms, tuple(record.headers)
        key, value = self._keys.decode(record.key), self._values.decode(record.value)
        if self._timestamp_of is not None and value is not None:
            context.timestamp_ms = self._timestamp_of(key, value, context)
        return key, self._flatten(key, value, context)


UNREADABLE: Final = (ValueError, ArithmeticError, LookupError, TypeError)
"""What a record can make the formats raise. Such a record is skipped, as queries do."""


class View:
    """The rows of a topic, as flat rows: of a table the newest of each key, of a stream all."""

    def __init__(self, source: DataSource, client: Mapping[str, Any], make: MakeCodec) -> None:
        self._source = source
        self._client = client
        self._reader = Rows(source, make)
        self._consumer: Consumer | None = None
        self._lock = asyncio.Lock()
        self.rows: dict[Any, Any] = {}

    async def refresh(self) -> None:
        """Reads on to the end that the topic has now."""
        async with self._lock:
            if self._consumer is None:
                self._consumer = await self._opened()
            consumer = self._consumer
            ends = await consumer.end_offsets(consumer.assignment())
            while await _is_behind(consumer, ends):
                for records in (await consumer.poll(_POLL_MS)).values():
                    for record in records:
                        await without_blocking(self._take, record)

    async def _opened(self) -> Consumer:
        consumer = await Consumer(
            {**self._client, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        ).start()
        try:
            numbers = await consumer.partitions_for(self._source.topic)
            consumer.assign([TopicPartition(self._source.topic, number) for number in numbers])
            consumer.seek_to_beginning()
        except BaseException:
            await consumer.close()
            raise
        return consumer

    def _take(self, record: Any) -> None:
        try:
            key, row = self._reader.of(record)
        except OSError:
            # A registry does not answer: nothing is wrong with the record.
            raise
        except UNREADABLE:
            return
        if not self._source.is_table:
            key = (record.partition, record.offset)
        elif key is None:
            return
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()


async def _is_behind(consumer: Consumer, ends: Mapping[TopicPartition, Any]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return True
    return False


class Views:
    """The views of this server. A view is dropped with its stream or table."""

    def __init__(self, client: Mapping[str, Any], make: MakeCodec) -> None:
        self._client = client
        self._make = make
        self._views: dict[str, View] = {}
        self._large: dict[str, tuple[bool, float]] = {}

    async def is_large(self, source: DataSource, reader: Consumer) -> bool:
        """Returns whether a topic has so many records that a view of it, of which there is none
        yet, would take long to read; as it was a minute ago."""
        if source.name in self._views:
            return False
        now_s = asyncio.get_running_loop().time()
        is_large, until_s = self._large.get(source.name, (False, 0.0))
        if now_s >= until_s:
            partitions = [
                TopicPartition(source.topic, number)
                for number in await reader.partitions_for(source.topic)
            ]
            begins = await reader.beginning_offsets(partitions)
            ends = await reader.end_offsets(partitions)
            records = sum(ends[partition] - begins[partition] for partition in partitions)
            is_large = records > _MOST_RECORDS
            self._large[source.name] = is_large, now_s + _LOOK_AGAIN_S
        return is_large

    async def of(self, source: DataSource) -> View:
        """Returns the view of a source, read up to now."""
        view = self._views.get(source.name)
        if view is None:
            view = self._views[source.name] = View(source, self._client, self._make)
        await view.refresh()
        return view

    async def drop(self, name: str) -> None:
        self._large.pop(name, None)
        view = self._views.pop(name, None)
        if view is not None:
            await view.close()

    async def close(self) -> None:
        for name in list(self._views):
            await self.drop(name)
