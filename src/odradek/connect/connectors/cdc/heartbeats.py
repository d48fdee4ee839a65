"""Records that say that a connector is alive, and how far it has read.

They are written at an interval when no other record moved the offset, so that a database may forget
its log although nothing changes in the captured tables.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, struct
from odradek.connect.records import SourceRecord

_KEY: Final = replace(
    struct(Field("serverName", schemas.STRING), name="io.debezium.connector.common.ServerNameKey"),
    version=1,
)
_VALUE: Final = replace(
    struct(Field("ts_ms", schemas.INT64), name="io.debezium.connector.common.Heartbeat"), version=1
)


class Heartbeats:
    """`interval_ms` 0 is none."""

    def __init__(self, interval_ms: int, topic: str, server: str) -> None:
        self._interval_s = interval_ms / 1000
        self._topic = topic
        self._server = server
        self._last = time.monotonic()

    @property
    def is_due(self) -> bool:
        return self._interval_s > 0 and time.monotonic() - self._last >= self._interval_s

    def beat(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> SourceRecord:
        """Returns a record, and begins a new interval."""
        self._last = time.monotonic()
        return SourceRecord(
            self._topic,
            {"serverName": self._server},
            {"ts_ms": time.time_ns() // 1_000_000},
            _KEY,
            _VALUE,
            source_partition=partition,
            source_offset=offset,
        )
