"""`io.debezium.connector.postgresql.PostgresConnector`."""

from collections.abc import Mapping
from typing import ClassVar

from odradek.connect.connectors.cdc.connector import CdcConnector
from odradek.connect.connectors.cdc.settings import context_headers
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.connectors.postgres import slots
from odradek.connect.connectors.postgres.database import Database
from odradek.connect.connectors.postgres.failures import Refused
from odradek.connect.connectors.postgres.offsets import SERVER, position_of
from odradek.connect.connectors.postgres.settings import INITIAL_ONLY, PostgresSettings
from odradek.connect.connectors.postgres.task import PostgresTask
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.settings import invalid


class PostgresConnector(CdcConnector[PostgresSettings]):
    settings_class: ClassVar = PostgresSettings

    def task(self) -> PostgresTask:
        return PostgresTask(self._settings, context_headers(self._settings, "postgresql"))

    def preview_properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Without a slot there is none made: then the rows are shown that a snapshot would read."""
        database = Database(self._settings.address)
        try:
            slot = slots.find_slot(database, self._settings.slot_name)
        finally:
            database.close()
        return dict(properties) if slot else {**properties, "snapshot.mode": INITIAL_ONLY}

    def wrong_outside(self) -> dict[str, list[str]]:
        settings = self._settings
        try:
            database = Database(settings.address)
        except ConnectError as error:
            name = _setting_of(error)
            return {name: [invalid(name, getattr(settings, _attribute(name)), str(error))]}
        try:
            if settings.snapshots == INITIAL_ONLY:
                return {}
            wrong = slots.wrong_server(database)
            if wrong is not None:
                return {"database.hostname": [
                    invalid("database.hostname", settings.database_hostname, wrong)
                ]}  # fmt: skip
            slots.find_slot(database, settings.slot_name)
        except DataError as error:
            return {"slot.name": [invalid("slot.name", settings.slot_name, str(error))]}
        finally:
            database.close()
        return {}

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if partition.keys() != {SERVER}:
            raise DataError(f'the partition of a PostgreSQL connector is {{"{SERVER}": ...}}')
        if partition[SERVER] != self._settings.topic_prefix:
            raise DataError(
                f"the server of the partition is topic.prefix, {self._settings.topic_prefix}"
            )
        if offset is not None:
            position_of(offset)


def _setting_of(error: ConnectError) -> str:
    text = str(error)
    if isinstance(error, Refused):
        if "database" in text and "does not exist" in text:
            return "database.dbname"
        if "role" in text or "password" in text or "pg_hba" in text:
            return "database.user"
    return "database.hostname"


def _attribute(name: str) -> str:
    return name.replace(".", "_")
