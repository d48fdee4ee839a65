"""Writes records that a sink could not handle to its dead-letter topic, as Kafka Connect does."""

import traceback
from collections.abc import Mapping
from typing import Final

from odradek.client import Producer
from odradek.connect.engine.failures import FailedAt
from odradek.connect.errors import DataError
from odradek.connect.records import Record, SinkRecord

HEADER: Final = "__connect.errors."
_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"


class DeadLetters:
    """A record goes there with its key, value and headers as they were read, and if the connector
    asks for it with headers that say where it is from and why it failed."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        *,
        connector: str,
        task: int,
        has_context: bool,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._connector = connector
        self._task = task
        self._has_context = has_context

    async def write(self, record: Record, error: DataError) -> None:
        assert isinstance(record, SinkRecord)
        headers = list(record.raw_headers)
        if self._has_context:
            headers += [
                (f"{HEADER}{name}", text.encode("utf-8", "replace"))
                for name, text in self._context(record, error).items()
            ]
        await self._producer.send_and_wait(
            self._topic,
            record.value,
            record.key,
            headers=headers,
            timestamp_ms=record.timestamp_ms,
        )

    def _context(self, record: SinkRecord, error: DataError) -> Mapping[str, str]:
        where = {}
        if isinstance(error, FailedAt):
            where = {"stage": error.place.stage.value, "class.name": error.place.class_name}
        return {
            "topic": record.original_topic,
            "partition": str(record.original_partition),
            "offset": str(record.offset),
            "connector.name": self._connector,
            "task.id": str(self._task),
            **where,
            "exception.class.name": _EXCEPTION,
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
