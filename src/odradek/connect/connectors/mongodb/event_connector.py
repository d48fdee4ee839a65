"""Changes of MongoDB as they are: `com.mongodb.kafka.connect.MongoSourceConnector`.

Other than the connector with Debezium's records it writes the events of change streams, or the
documents in them, as they are.
"""

from typing import ClassVar

from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.mongodb.event_positions import (
    copying_progress,
    event_partition,
    event_position,
)
from odradek.connect.connectors.mongodb.event_settings import MongoEventSettings
from odradek.connect.connectors.mongodb.event_task import MongoEventTask
from odradek.connect.connectors.positions import (
    SourceOffset,
    SourcePartition,
    check_partition,
)
from odradek.connect.errors import ConnectError

# Imported after those that say how to install PyMongo if it is missing.
from odradek.connect.connectors.mongodb.event_source import MongoEventSource  # isort: skip


class MongoEventConnector(SourceConnector):
    """There is one task, whatever `tasks.max` says: a change stream is one sequence."""

    settings_class: ClassVar = MongoEventSettings

    def __init__(self, settings: MongoEventSettings) -> None:
        self._settings = settings

    def task(self) -> MongoEventTask:
        return MongoEventTask(self._settings)

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
        check_partition(partition, event_partition(self._settings.offset_name))
        if offset is not None:
            event_position(offset)
            copying_progress(offset)
