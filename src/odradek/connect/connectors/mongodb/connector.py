"""Change data capture from MongoDB: `io.debezium.connector.mongodb.MongoDbConnector`."""

from collections.abc import Mapping
from typing import ClassVar

from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.mongodb.positions import partition_of, position_of, progress_of
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.connectors.mongodb.source import MongoSource
from odradek.connect.connectors.mongodb.task import MongoDbTask
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import ConnectError, DataError


class MongoDbConnector(SourceConnector):
    settings_class: ClassVar = MongoDbSettings

    def __init__(self, settings: MongoDbSettings) -> None:
        self._settings = settings

    def task(self) -> MongoDbTask:
        return MongoDbTask(self._settings)

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        """There is one task, whatever `tasks.max` says: a change stream is one sequence."""
        MongoDbSettings.announce(properties.get("name", self._settings.topic_prefix), properties)
        return [dict(properties)]

    def wrong_outside(self) -> dict[str, list[str]]:
        source = MongoSource(self._settings)
        try:
            source.check()
        except ConnectError as error:
            return {"mongodb.connection.string": [str(error)]}
        finally:
            source.close()
        return {}

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        wanted = partition_of(self._settings.topic_prefix)
        if dict(partition) != wanted:
            raise DataError(f"the partition of this connector must be {wanted}")
        if offset is not None:
            position_of(offset)
            progress_of(offset)
