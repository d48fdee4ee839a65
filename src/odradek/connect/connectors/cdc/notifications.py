"""What a connector tells of its snapshots: `notification.enabled.channels`.

    log    a line in the log of the connector
    sink   a record in the topic `notification.sink.topic.name`, in Debezium's form

Notifications follow from the progress of a snapshot before a step and after it. So they are stored
in the same transaction as the rows of the step, and come once, wherever a task was killed.
"""

import json
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc.chunks import INITIAL, Progress
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, map_of, struct
from odradek.connect.records import SourceRecord

LOG: Final = "log"
SINK: Final = "sink"
_NAME: Final = "io.debezium.connector.common.Notification"
_KEY: Final = replace(struct(Field("id", schemas.STRING), name=f"{_NAME}Key"), version=1)
_VALUE: Final = replace(
    struct(
        Field("id", schemas.STRING),
        Field("type", schemas.STRING),
        Field("aggregate_type", schemas.STRING),
        Field("additional_data", map_of(schemas.STRING, schemas.STRING, is_optional=True)),
        Field("timestamp", schemas.INT64),
        name=_NAME,
    ),
    version=1,
)
_log = logging.getLogger("odradek.connect")


class Notification(NamedTuple):
    type: str
    aggregate_type: str
    data: dict[str, str]


def notifications(
    before: Progress | None, after: Progress | None, rows: Mapping[str, int]
) -> list[Notification]:
    """Returns what has happened to a snapshot. `rows` counts the rows that were read of tables."""
    one = after or before
    if one is None or before == after:
        return []
    aggregate = "Initial Snapshot" if one.kind == INITIAL else "Incremental Snapshot"
    waiting = [] if after is None else [table.name for table in after.tables]
    known = [] if before is None else [table.name for table in before.tables]
    everything = ",".join(dict.fromkeys([*known, *waiting]))
    found: list[Notification] = []
    if before is None:
        found.append(Notification("STARTED", aggregate, {}))

    def begun(name: str) -> Notification:
        data = {"current_collection_in_progress": name, "data_collections": everything}
        return Notification("IN_PROGRESS", aggregate, data)

    for index, name in enumerate(known):
        if name in waiting:
            continue
        if index:
            found.append(begun(name))  # It was begun and ended in this step.
        data = {
            "scanned_collection": name,
            "data_collections": everything,
            "total_rows_scanned": str(rows.get(name, 0)),
            "status": "SUCCEEDED",
        }
        found.append(Notification("TABLE_SCAN_COMPLETED", aggregate, data))
    if waiting and waiting[:1] != known[:1]:
        found.append(begun(waiting[0]))
    if not waiting:
        found.append(Notification("COMPLETED", aggregate, {}))
    return found


class Notifier:
    """`channels` and `topic` are those of the settings; `connector` is the name that Debezium gives
    it, `topic.prefix`."""

    def __init__(self, channels: tuple[str, ...], topic: str, connector: str) -> None:
        self._channels = channels
        self._topic = topic
        self._connector = connector

    def records(
        self,
        found: list[Notification],
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
    ) -> list[SourceRecord]:
        """Tells what has happened; returns the records of it."""
        records = []
        for notification in found if self._channels else ():
            data = {**notification.data, "connector_name": self._connector}
            value = {
                "id": str(uuid.uuid4()),
                "type": notification.type,
                "aggregate_type": notification.aggregate_type,
                "additional_data": data,
                "timestamp": time.time_ns() // 1_000_000,
            }
            if LOG in self._channels:
                _log.info("%s: notification %s", self._connector, json.dumps(value))
            if SINK in self._channels:
                records.append(
                    SourceRecord(
                        self._topic,
                        {"id": value["id"]},
                        value,
                        _KEY,
                        _VALUE,
                        source_partition=partition,
                        source_offset=offset,
                    )
                )
        return records
