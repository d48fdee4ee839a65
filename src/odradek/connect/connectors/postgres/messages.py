"""The records of messages that programs write into the log with `pg_logical_emit_message`."""

import time
from dataclasses import replace
from typing import Any, Final

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.connectors.postgres.pgoutput import Message
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.tables import SOURCE
from odradek.connect.connectors.postgres.types import binary_schema, binary_writer
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, struct
from odradek.connect.records import SourceRecord

_NAME: Final = "io.debezium.connector.postgresql."
_KEY: Final = replace(
    struct(Field("prefix", schemas.OPTIONAL_STRING), name=f"{_NAME}MessageKey"), version=1
)


class MessageRecords:
    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._topic = settings.topic_of("message")
        self._write = binary_writer(settings.binary_handling_mode)
        content = binary_schema(settings.binary_handling_mode).optional()
        block = replace(
            struct(
                Field("prefix", schemas.OPTIONAL_STRING),
                Field("content", content),
                name=f"{_NAME}Message",
            ),
            version=1,
        )
        self._schema = replace(
            struct(
                Field("op", schemas.STRING),
                Field("ts_ms", schemas.INT64.optional()),
                Field("source", SOURCE),
                Field("transaction", envelope.TRANSACTION_BLOCK),
                Field("message", block),
                name=f"{_NAME}MessageValue",
            ),
            version=1,
        )

    def selects(self, message: Message) -> bool:
        return self._settings.message_prefixes.selects(message.prefix)

    def source(
        self, transaction: dict[str, Any], message: Message, lsn: int, sequence: str
    ) -> dict[str, Any]:
        """Returns the block `source`. A message outside of transactions has none."""
        times = envelope.source_times(time.time_ns() // 1000)
        own = {} if message.is_transactional else {**times, "txId": None}
        return {
            "version": envelope.VERSION,
            "connector": "postgresql",
            "name": self._settings.topic_prefix,
            "db": self._settings.database_dbname,
            "snapshot": envelope.SNAPSHOT_FALSE,
            **transaction,
            **own,
            "sequence": sequence,
            "schema": "",
            "table": "",
            "lsn": lsn,
        }

    def record(self, message: Message, origin: Origin) -> SourceRecord:
        value = {
            "op": envelope.MESSAGE,
            "ts_ms": origin.source["ts_ms"],
            "source": origin.source,
            "transaction": origin.transaction,
            "message": {"prefix": message.prefix, "content": self._write(message.content)},
        }
        return SourceRecord(
            self._topic,
            {"prefix": message.prefix},
            value,
            _KEY,
            self._schema,
            source_partition=origin.partition,
            source_offset=origin.offset,
        )
