"""The connector that captures the changes of a database: what is the same for all of them."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from odradek.connect.connectors.cdc.settings import CdcSettings
from odradek.connect.connectors.connector import SourceConnector

S = TypeVar("S", bound=CdcSettings)


class CdcConnector(SourceConnector, Generic[S]):
    """There is one task, whatever `tasks.max` says: the log of a database is one sequence."""

    def __init__(self, settings: S) -> None:
        self._settings = settings

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        self._settings.announce(properties.get("name", self._settings.topic_prefix), properties)
        return [dict(properties)]
