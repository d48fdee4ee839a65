"""Change data capture from MySQL and MariaDB: `io.debezium.connector.mysql.MySqlConnector` and
`io.debezium.connector.mariadb.MariaDbConnector`."""

from typing import ClassVar

from odradek.connect.connectors.cdc.connector import CdcConnector
from odradek.connect.connectors.mysql.positions import partition_of, position_of, progress_of
from odradek.connect.connectors.mysql.server import Server
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.tables import MARIADB, MYSQL, Product
from odradek.connect.connectors.mysql.task import MySqlTask
from odradek.connect.connectors.positions import (
    SourceOffset,
    SourcePartition,
    check_partition,
)
from odradek.connect.errors import ConnectError


class MySqlConnector(CdcConnector[MySqlSettings]):
    settings_class: ClassVar = MySqlSettings
    product: ClassVar[Product] = MYSQL

    def task(self) -> MySqlTask:
        return MySqlTask(self._settings, self.product)

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
        check_partition(partition, partition_of(self._settings.topic_prefix))
        if offset is not None:
            position_of(offset)
            progress_of(offset)


class MariaDbConnector(MySqlConnector):
    product: ClassVar[Product] = MARIADB
