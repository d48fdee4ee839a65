"""Change data capture from MongoDB: `io.debezium.connector.mongodb.MongoDbConnector`."""

from typing import ClassVar

from odradek.connect.connectors.cdc.connector import CdcConnector
from odradek.connect.connectors.mongodb.positions import partition_of, position_of, progress_of
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.connectors.mongodb.source import MongoSource
from odradek.connect.connectors.mongodb.task import MongoDbTask
from odradek.connect.connectors.positions import (
    SourceOffset,
    SourcePartition,
    check_partition,
)
from odradek.connect.errors import ConnectError


class MongoDbConnector(CdcConnector[MongoDbSettings]):
    settings_class: ClassVar = MongoDbSettings

    def task(self) -> MongoDbTask:
        return MongoDbTask(self._settings)

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
        check_partition(partition, partition_of(self._settings.topic_prefix))
        if offset is not None:
            position_of(offset)
            progress_of(offset)
