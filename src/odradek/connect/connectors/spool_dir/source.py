"""The connectors of the spool directory, one for each format."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from odradek.connect.connectors.connector import SourceConnector
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.connectors.spool_dir.formats import (
    Csv,
    Format,
    Json,
    Lines,
    SchemaLessJson,
    Whole,
)
from odradek.connect.connectors.spool_dir.settings import (
    CsvSettings,
    JsonSettings,
    LineSettings,
    SpoolSettings,
)
from odradek.connect.connectors.spool_dir.task import OFFSET, SpoolTask
from odradek.connect.errors import DataError


class SpoolSource(SourceConnector):
    def __init__(self, settings: Any) -> None:
        self._settings = settings

    @abstractmethod
    def _format(self) -> Format: ...

    def task_properties(
        self, properties: Mapping[str, str], max_tasks: int
    ) -> list[dict[str, str]]:
        """Each task reads the files whose names are its own."""
        return [
            {**properties, "task.index": str(number), "task.count": str(max_tasks)}
            for number in range(max_tasks)
        ]

    def task(self) -> SpoolTask:
        for problems in self._settings.wrong_directories().values():
            raise DataError(problems[0])
        return SpoolTask(self._settings, self._format())

    def wrong_outside(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = self._settings.wrong_directories()
        return found

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if partition.keys() != {"fileName"}:
            raise DataError('the partition of a file is {"fileName": ...}')
        position = 0 if offset is None else offset.get(OFFSET)
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise DataError(f'the offset in a file is {{"{OFFSET}": N}}, N not negative')


class CsvSource(SpoolSource):
    settings_class: ClassVar = CsvSettings

    def _format(self) -> Format:
        return Csv(self._settings)


class LineSource(SpoolSource):
    settings_class: ClassVar = LineSettings

    def _format(self) -> Format:
        return Lines(self._settings)


class JsonSource(SpoolSource):
    settings_class: ClassVar = JsonSettings

    def _format(self) -> Format:
        return Json(self._settings)


class SchemaLessJsonSource(SpoolSource):
    settings_class: ClassVar = SpoolSettings

    def _format(self) -> Format:
        return SchemaLessJson()


class BinaryFileSource(SpoolSource):
    settings_class: ClassVar = SpoolSettings

    def _format(self) -> Format:
        return Whole()
