"""The records that say where the transactions of a source begin and end, and the block that says
which change of a transaction a record is (`provide.transaction.metadata`)."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, struct
from odradek.connect.records import SourceRecord

_NAME: Final = "io.debezium.connector.common.TransactionMetadata"
_KEY: Final = replace(struct(Field("id", schemas.STRING), name=f"{_NAME}Key"), version=1)
_COUNT: Final = replace(
    struct(
        Field("data_collection", schemas.STRING),
        Field("event_count", schemas.INT64),
        name="event.collection",
        is_optional=True,
    ),
    version=1,
)
_VALUE: Final = replace(
    struct(
        Field("status", schemas.STRING),
        Field("id", schemas.STRING),
        Field("event_count", schemas.INT64.optional()),
        Field("data_collections", schemas.array(_COUNT, is_optional=True)),
        Field("ts_ms", schemas.INT64),
        name=f"{_NAME}Value",
    ),
    version=1,
)


class Transactions:
    """Counts the changes of the transaction that is being read. A transaction that is read again
    from its beginning gets the same numbers."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._id = ""
        self._counts: dict[str, int] = {}
        self._total = 0

    def begin(
        self,
        transaction: str,
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
        ts_ms: int | None,
    ) -> SourceRecord:
        self._id = transaction
        self._counts = {}
        self._total = 0
        value = {
            "status": "BEGIN",
            "id": transaction,
            "event_count": None,
            "data_collections": None,
        }
        return self._record(value, partition, offset, ts_ms)

    def change(self, table: str) -> dict[str, Any]:
        """Returns the block for the next change, which is one of this table."""
        self._total += 1
        self._counts[table] = self._counts.get(table, 0) + 1
        return {
            "id": self._id,
            "total_order": self._total,
            "data_collection_order": self._counts[table],
        }

    def end(
        self, partition: Mapping[str, Any], offset: Mapping[str, Any], ts_ms: int | None
    ) -> SourceRecord:
        counts = [
            {"data_collection": table, "event_count": count}
            for table, count in self._counts.items()
        ]
        value = {
            "status": "END",
            "id": self._id,
            "event_count": self._total,
            "data_collections": counts,
        }
        return self._record(value, partition, offset, ts_ms)

    def _record(
        self,
        value: dict[str, Any],
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
        ts_ms: int | None,
    ) -> SourceRecord:
        value["ts_ms"] = time.time_ns() // 1_000_000 if ts_ms is None else ts_ms
        return SourceRecord(
            self._topic,
            {"id": self._id},
            value,
            _KEY,
            _VALUE,
            source_partition=partition,
            source_offset=offset,
        )
