"""Change data capture from MySQL and MariaDB: `io.debezium.connector.mysql.MySqlConnector` and
`io.debezium.connector.mariadb.MariaDbConnector`."""

from collections.abc import Mapping
from typing import ClassVar

from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.mysql.positions import partition_of, position_of, progress_of
from odradek.connect.connectors.mysql.server import Server
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.tables import MARIADB, MYSQL, Product
from odradek.connect.connectors.mysql.task import MySqlTask
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import ConnectError, DataError


class MySqlConnector(SourceConnector):
    settings_class: ClassVar = MySqlSettings
    product: ClassVar[Product] = MYSQL

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings

    def task(self) -> MySqlTask:
        return MySqlTask(self._settings, self.product)

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        """Returns one task, whatever `tasks.max` says: a binary log is a single sequence."""
        MySqlSettings.announce(properties.get("name", self._settings.topic_prefix), properties)
        return [dict(properties)]

    def wrong_outside(self) -> dict[str, list[str]]:
        server = Server(self._settings)
        try:
            wrong = server.wrong_variables()
        except ConnectError as error:
            return {"database.hostname": [str(error)]}
        finally:
            server.close()
        return {"database.hostname": wrong} if wrong else {}

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        wanted = partition_of(self._settings.topic_prefix)
        if dict(partition) != wanted:
            raise DataError(f"the partition of this connector must be {wanted}")
        if offset is not None:
            position_of(offset)
            progress_of(offset)


class MariaDbConnector(MySqlConnector):
    product: ClassVar[Product] = MARIADB
