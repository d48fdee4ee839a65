"""Reads every commit of all groups from the topic of offsets, as Burrow does.

A sample shows the newest commit of a group, and not when it was made. `__consumer_offsets` has all
of them with their times, those that repeat an offset too. `odradek lag serve` reads it from its end
on. It needs the permission to read that topic; without it the samples alone are used.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import ClientError
from odradek.client.settings.consumer import ConsumerSettings
from odradek.groups.records import OFFSET, OLD_OFFSET, kind_of, read_offset, read_offset_key
from odradek.ops.lag.history import LagHistory
from odradek.ops.lag.notifications import Say
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.protocol.internal_topics import GROUPS
from odradek.protocol.types import TopicPartition

_POLL_MS: Final = 1_000
_AGAIN_S: Final = 5.0


class CommitReader:
    """Tells a history of each commit. While it cannot, the history goes by its samples."""

    def __init__(self, properties: Mapping[str, str], history: LagHistory, say: Say) -> None:
        """`properties` are those of the connection."""
        self._properties = {
            **properties,
            "enable.auto.commit": "false",
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
        }
        self._history = history
        self._say = say
        self._failure: str | None = None

    async def run(self) -> None:
        """Reads until it is cancelled. What keeps it from reading is told once."""
        while True:
            try:
                await self._read()
            except (KafkaError, ClientError, OSError) as error:
                if self._failure is None:
                    self._say(f"{GROUPS} cannot be read, commits are sampled instead: {error}")
                self._failure = str(error)
            finally:
                self._history.stop_reading()
            await asyncio.sleep(_AGAIN_S)

    async def _read(self) -> None:
        settings = ConsumerSettings.from_properties(self._properties)
        async with Consumer(settings) as consumer:
            numbers = await consumer.partitions_for(GROUPS)
            if not numbers:
                return  # The first group creates it.
            consumer.assign([TopicPartition(GROUPS, number) for number in numbers])
            consumer.seek_to_end()
            while True:
                polled = await consumer.poll(timeout_ms=_POLL_MS)
                self._history.begin_reading()
                self._failure = None
                for records in polled.values():
                    take_commits(records, self._history)


def take_commits(records: Iterable[ConsumerRecord], history: LagHistory) -> None:
    """Tells the history of the commits among the records. Records of other kinds, deletions and
    records that cannot be read are skipped."""
    for record in records:
        if record.key is None or record.value is None:
            continue
        try:
            if kind_of(record.key) not in (OLD_OFFSET, OFFSET):
                continue
            group, partition = read_offset_key(record.key)
            committed = read_offset(record.value, record.offset)
        except MalformedMessage:
            continue
        history.commit(group, partition, committed.offset, committed.commit_timestamp_ms)
