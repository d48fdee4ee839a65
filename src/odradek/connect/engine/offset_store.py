"""How far sources were read: a compacted topic in the format of Kafka Connect.

A key is `["connector",{"filename":"/a"}]`, a value `{"position":8}`, and a tombstone removes an
offset. A source task writes the offset in the same transaction as its records, so both are there
or neither. Only committed offsets are read, and a task that starts first reads to the topic's end.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from odradek.connect.connectors.positions import (
    Positions,
    SourceOffset,
    SourcePartition,
    name_of,
)
from odradek.connect.engine.compacted_topic import CompactedTopic

_log = logging.getLogger("odradek.connect")


def offset_key(connector: str, partition: SourcePartition) -> bytes:
    return json.dumps([connector, partition], separators=(",", ":"), ensure_ascii=False).encode()


def offset_value(offset: SourceOffset | None) -> bytes | None:
    if offset is None:
        return None
    return json.dumps(offset, separators=(",", ":"), ensure_ascii=False).encode()


class OffsetStore:
    """The offsets of all sources. `run` reads the topic for as long as the worker lives."""

    def __init__(self, properties: Mapping[str, object], topic: str) -> None:
        self._properties = properties
        self._table = CompactedTopic(properties, topic, self._apply)
        self.topic = topic
        self._offsets: dict[str, dict[str, tuple[SourcePartition, SourceOffset]]] = {}

    def __reduce__(self) -> "tuple[type[OffsetStore], tuple[Mapping[str, object], str]]":
        """In another process it is a store of the same topic that has read nothing yet."""
        return OffsetStore, (self._properties, self.topic)

    async def prepare(
        self,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Makes the topic if there is none. Raises `ConnectError` if it would forget offsets."""
        await self._table.prepare(partitions, replication_factor, configs)

    async def run(self) -> None:
        """Reads the topic, from its beginning on."""
        await self._table.run()

    async def read_to_end(self) -> None:
        """Returns when everything that is committed now has been read."""
        await self._table.read_to_end()

    def of(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        found = self._offsets.get(connector, {}).get(name_of(partition))
        return None if found is None else found[1]

    def all_of(self, connector: str) -> Positions:
        return Positions(self._offsets.get(connector, {}).values())

    def _apply(self, key: Any, value: Any) -> None:
        try:
            connector, partition = json.loads(key)
            offset = None if value is None else json.loads(value)
        except (TypeError, ValueError):
            _log.warning("topic %s has a record that is not an offset; it is skipped", self.topic)
            return
        known = self._offsets.setdefault(str(connector), {})
        if offset is None:
            known.pop(name_of(partition), None)
        else:
            known[name_of(partition)] = partition, offset
