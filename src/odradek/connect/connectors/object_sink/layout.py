"""Chooses the names of objects in the object store, in Confluent's or Aiven's way.

A name has what all records of the object have in common (a topic, a partition, the value of a
field, an hour) and the offset of the first one. So records that are delivered again after a failure
overwrite the same objects. That holds only if names depend on nothing but the records. With the
timestamp extractor `Wallclock` they depend on the clock, and a failure may duplicate objects.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from urllib.parse import quote

from odradek.connect.converters.primitives import java_string
from odradek.connect.data import values
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import SinkRecord
from odradek.connect.transforms.java_dates import JavaDateFormat

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
START: Final = "\0"
_VARIABLE: Final = re.compile(r"\{\{\s*(\w+)\s*(?::\s*(\w+)\s*=\s*(\w+)\s*)?\}\}")
_UNITS: Final = {"yyyy": "%Y", "YYYY": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}


class Layout(ABC):
    """Gives each record a group. The records of a group go to the same object, or to several ones
    after each other, whose names differ in the first offset."""

    # Whether an object has only the last record of its group, as for groups by key.
    keeps_last = False

    @abstractmethod
    def group(self, record: SinkRecord) -> str:
        """Returns the group of a record: the name of its object, with `START` instead of the first
        offset. Raises `DataError`."""

    def name(self, group: str, offset: int) -> str:
        """Returns the name of the object of a group that begins with `offset`."""
        return group.replace(START, str(offset))


class RecordTime:
    """Finds the time of a record: its timestamp, the time in a field, or the current time."""

    def __init__(self, extractor: str, field: str = "timestamp") -> None:
        self._extractor = extractor
        self._field = field.split(".")

    def moment_ms(self, record: SinkRecord) -> int:
        if self._extractor == "wallclock":
            return int(time.time() * 1000)
        if self._extractor == "record":
            return record.timestamp_ms or 0
        found = record.value
        for name in self._field:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, datetime):
            return values.timestamp_to_ms(found)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
        if isinstance(found, str):
            try:
                return values.timestamp_to_ms(datetime.fromisoformat(found))
            except ValueError:
                pass
        raise DataError(
            f"field {'.'.join(self._field)} is {found!r}, not a time: check timestamp.field"
        )


class Partitioner(ABC):
    """Chooses the directory of a record's object in Confluent's layout."""

    @abstractmethod
    def directory(self, record: SinkRecord) -> str: ...


class ByPartition(Partitioner):
    def directory(self, record: SinkRecord) -> str:
        return f"partition={record.original_partition}"


class ByField(Partitioner):
    def __init__(self, names: Sequence[str], separator: str) -> None:
        self._names = names
        self._separator = separator

    def directory(self, record: SinkRecord) -> str:
        parts = []
        for name in self._names:
            found: Any = record.value
            for step in name.split("."):
                if not isinstance(found, dict) or step not in found:
                    raise DataError(f"the value has no field {name} for partition.field.name")
                found = found[step]
            # Slashes in a value are quoted, so that it cannot lead to another directory.
            parts.append(f"{name}={quote(java_string(found), safe=' :@+')}")
        return self._separator.join(parts)


class ByTime(Partitioner):
    def __init__(self, pattern: str, duration_ms: int, zone: tzinfo, clock: RecordTime) -> None:
        """`pattern` is one of Joda. Raises `InvalidConfig`."""
        # The letter for the year is Y in Joda, and y in Java.
        self._format = JavaDateFormat(re.sub(r"Y(?=[^']*(?:'[^']*'[^']*)*$)", "y", pattern))
        self._duration_ms = duration_ms
        self._zone = zone
        self._clock = clock

    def directory(self, record: SinkRecord) -> str:
        moment = values.ms_to_timestamp(self._clock.moment_ms(record)).astimezone(self._zone)
        # `JavaDateFormat` writes times in UTC, so it gets the local time as if it were UTC.
        local = moment.replace(tzinfo=UTC)
        milliseconds = values.timestamp_to_ms(local)
        start = milliseconds - milliseconds % self._duration_ms
        return self._format.text(values.ms_to_timestamp(start))


class DirectoryLayout(Layout):
    """The names of Confluent's connector: ROOT/TOPIC/DIRECTORY/TOPIC+PARTITION+OFFSET."""

    def __init__(
        self, root: str, partitioner: Partitioner, delimiter: str, width: int, extension: str
    ) -> None:
        self._root = f"{root.strip('/')}/" if root.strip("/") else ""
        self._partitioner = partitioner
        self._delimiter = delimiter
        self._width = width
        self._extension = extension

    def group(self, record: SinkRecord) -> str:
        directory = self._partitioner.directory(record)
        parts = (record.topic, str(record.original_partition), START)
        file = self._delimiter.join(parts) + self._extension
        return f"{self._root}{record.topic}/{directory}/{file}"

    def name(self, group: str, offset: int) -> str:
        return group.replace(START, f"{offset:0{self._width}d}")


class TemplateLayout(Layout):
    """The names of Aiven's connector, by a template: {{topic}}-{{partition}}-{{start_offset}}."""

    def __init__(self, prefix: str, template: str, clock: RecordTime, zone: tzinfo) -> None:
        """Raises `InvalidConfig`."""
        self._prefix = prefix
        self._template = template
        self._clock = clock
        self._zone = zone
        self._pads_offset = bool(re.search(r"start_offset\s*:\s*padding\s*=\s*true", template))
        used = {match[1] for match in _VARIABLE.finditer(template)}
        unknown = used - {"topic", "partition", "start_offset", "timestamp", "key"}
        if unknown:
            raise InvalidConfig(
                f"there is no variable {sorted(unknown)[0]}; there are topic, partition,"
                " start_offset, timestamp and key"
            )
        self.keeps_last = "key" in used
        if self.keeps_last and used & {"start_offset", "timestamp"}:
            raise InvalidConfig("with key, only topic and partition may be used")
        if not self.keeps_last and not {"topic", "partition", "start_offset"} <= used:
            raise InvalidConfig("the template needs topic, partition and start_offset, or key")
        for match in _VARIABLE.finditer(template):
            if match[1] == "timestamp" and (match[2] != "unit" or match[3] not in _UNITS):
                raise InvalidConfig("timestamp needs a unit, as in {{timestamp:unit=yyyy}}")

    def group(self, record: SinkRecord) -> str:
        return self._prefix + _VARIABLE.sub(lambda match: self._part(match, record), self._template)

    def _part(self, match: "re.Match[str]", record: SinkRecord) -> str:
        name, _, given = match.groups()
        if name == "topic":
            return record.topic
        if name == "partition":
            return f"{record.original_partition:0{10 if given == 'true' else 1}d}"
        if name == "start_offset":
            return START
        if name == "key":
            return "null" if record.key is None else java_string(record.key, record.key_schema)
        moment = values.ms_to_timestamp(self._clock.moment_ms(record)).astimezone(self._zone)
        return moment.strftime(_UNITS[given])

    def name(self, group: str, offset: int) -> str:
        return group.replace(START, f"{offset:0{20 if self._pads_offset else 1}d}")
