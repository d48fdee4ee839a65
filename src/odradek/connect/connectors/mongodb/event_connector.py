"""Changes of MongoDB as they are: `com.mongodb.kafka.connect.MongoSourceConnector`.

Other than the connector with Debezium's records it writes the events of change streams, or the
documents in them, as they are.
"""

from collections.abc import Mapping
from typing import ClassVar

from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.mongodb.event_positions import (
    copying_progress,
    event_partition,
    event_position,
)
from odradek.connect.connectors.mongodb.event_settings import MongoEventSettings
from odradek.connect.connectors.mongodb.event_task import MongoEventTask
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import ConnectError, DataError

# Imported after those that say how to install PyMongo if it is missing.
from odradek.connect.connectors.mongodb.event_source import MongoEventSource  # isort: skip


class MongoEventConnector(SourceConnector):
    settings_class: ClassVar = MongoEventSettings

    def __init__(self, settings: MongoEventSettings) -> None:
        self._settings = settings

    def task(self) -> MongoEventTask:
        return MongoEventTask(self._settings)

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        """There is one task, whatever `tasks.max` says: a change stream is one sequence."""
        return [dict(properties)]

    def wrong_outside(self) -> dict[str, list[str]]:
        source = MongoEventSource(self._settings)
        try:
            source.check()
        except ConnectError as error:
            return {"connection.uri": [str(error)]}
        finally:
            source.close()
        return {}

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        wanted = event_partition(self._settings.offset_name)
        if dict(partition) != wanted:
            raise DataError(f"the partition of this connector must be {wanted}")
        if offset is not None:
            event_position(offset)
            copying_progress(offset)
