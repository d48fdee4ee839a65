"""Where the states of connectors and tasks are: in memory, or in a topic that all workers write.

A worker's own words count for it at once, and are written in the background: a status that could
not be written must not hold up the task it is about. They are written again when the brokers are
back, in their order, and only the last ones for each key.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from odradek.client import Producer
from odradek.client.errors import ClientError
from odradek.connect.engine.compacted_topic import CompactedTopic
from odradek.connect.worker.status_state import StatusRecord, StatusState
from odradek.protocol.errors import KafkaError

_log = logging.getLogger("odradek.connect")

_RETRY_S: Final = 1.0
_LAST_S: Final = 2.0


class StatusStore:
    """The states in memory."""

    def __init__(self) -> None:
        self.state = StatusState()

    def put(self, records: Sequence[StatusRecord]) -> None:
        for record in records:
            self.state.apply(*record)

    async def run(self) -> None:
        """Writes what was put, until it is cancelled."""
        return


class TopicStatuses(StatusStore):
    def __init__(self, properties: Mapping[str, object], topic: str) -> None:
        super().__init__()
        self._properties = {**properties, "enable.metrics.push": False}
        # Read back, own records say what the state has already, or what it had a moment ago.
        self.topic = CompactedTopic(properties, topic, self._apply)
        self._waiting: dict[bytes, bytes | None] = {}
        self._wake = asyncio.Event()

    def put(self, records: Sequence[StatusRecord]) -> None:
        super().put(records)
        for key, value in records:
            self._waiting.pop(key, None)
            self._waiting[key] = value
        self._wake.set()

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        if key is not None and bytes(key) in self._waiting:
            return  # This worker has newer words about it.
        self.state.apply(key, value)

    async def run(self) -> None:
        options = {**self._properties, "linger.ms": 0, "acks": "all"}
        async with Producer(options) as producer:
            try:
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    await self._write(producer)
            finally:
                with suppress(ClientError, KafkaError, TimeoutError):
                    async with asyncio.timeout(_LAST_S):
                        await self._write_once(producer)

    async def _write(self, producer: Producer) -> None:
        while self._waiting:
            try:
                await self._write_once(producer)
            except (ClientError, KafkaError) as error:
                _log.warning("states are not written to %s yet: %s", self.topic.name, error)
                await asyncio.sleep(_RETRY_S)

    async def _write_once(self, producer: Producer) -> None:
        waiting = dict(self._waiting)
        sent = [await producer.send(self.topic.name, value, key) for key, value in waiting.items()]
        await asyncio.gather(*sent)
        for key, value in waiting.items():
            if self._waiting.get(key, b"-") == value:
                del self._waiting[key]
