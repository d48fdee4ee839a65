"""A Singer tap as a source connector.

    connector.class=tap-github
    tap.config={"access_token": "${env:GITHUB_TOKEN}", "repository": "ada/engine"}
    tap.streams=issues,commits
    topic.prefix=github.

The offset is the last STATE of the tap, and how many records came after it in all runs. After a
failure the tap begins at that STATE: the records after it come again, so each record is there at
least once, and exactly once as far as the tap writes a STATE. When the tap has ended, it runs again
after a pause.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any, ClassVar, Final

from odradek.config.kinds import boolean, integer, names, password, string
from odradek.connect.connectors.connector import SourceConnector, SourceTask
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.singer.messages import Message, TapRecord, TapSchema, TapState
from odradek.connect.singer.process import TapRun, discovered
from odradek.connect.singer.schemas import StreamShape
from odradek.world.clock import SystemClock

TAP: Final = "tap"
STATE: Final = "state"
RECORDS: Final = "records"
_WAIT_S: Final = 0.05


class SingerSettings(PluginSettings):
    config = password("tap.config", "The tap's configuration, a JSON object; it may have secrets.")
    catalog = string("tap.catalog", None, "A catalog as JSON; unset, the one that the tap makes.")
    streams = names("tap.streams", (), "The streams to read; unset, all of the catalog.")
    topic_prefix = string("topic.prefix", "", "What stands before a stream's name in its topic.")
    interval_ms = integer(
        "tap.interval.ms", 60_000, "The pause between the end of a run and the next.", at_least=1
    )
    has_schemas = boolean(
        "tap.schemas", True, "Give records the schemas of the tap; if not, values are plain."
    )

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, text in (("tap.config", self.config), ("tap.catalog", self.catalog)):
            try:
                is_object = text is None or isinstance(json.loads(text), dict)
            except ValueError:
                is_object = False
            if not is_object:
                # The configuration may have secrets, so it is not shown.
                problems[name] = [invalid(name, "[hidden]", "it is not a JSON object")]
        return problems


class SingerSource(SourceConnector):
    settings_class: ClassVar = SingerSettings
    program: ClassVar[str]

    def __init__(self, settings: SingerSettings) -> None:
        self._settings = settings

    def task(self) -> "SingerTask":
        return SingerTask(self.program, self._settings)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if partition.keys() != {TAP}:
            raise DataError(f'the partition of a tap is {{"{TAP}": ...}}')
        if offset is not None and not offset.keys() <= {STATE, RECORDS}:
            raise DataError(f'the offset of a tap is {{"{STATE}": ..., "{RECORDS}": 0}}')


def source_of(path: str) -> type[SingerSource]:
    """Returns the connector class of a tap."""

    class _Tap(SingerSource):
        program = path

    return _Tap


class SingerTask(SourceTask):
    def __init__(self, program: str, settings: SingerSettings) -> None:
        self._program = program
        self._settings = settings
        self._config = json.loads(settings.config or "{}")
        self._catalog: Any = None
        # Some taps take minutes to say what they have, and a call of a task may not.
        self._discovery: Future[Any] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="odradek-tap-discovery")
        self._run: TapRun | None = None
        self._shapes: dict[str, StreamShape] = {}
        self._state: Any = None
        self._behind = 0
        self._next_run_s = 0.0
        self._monotonic_s = SystemClock().monotonic_s
        # What `reach` has read, until it is stored: where it begins and ends, and the records.
        self._read: tuple[Positions, Positions, list[SourceRecord]] | None = None

    @property
    def partition(self) -> SourcePartition:
        return {TAP: self._program.rpartition("/")[2]}

    def reach(self, start: Positions, max_records: int) -> Positions:
        if self._read is not None and self._read[0] == start:
            return self._read[1]
        if self._run is None:
            if self._monotonic_s() < self._next_run_s or not self._has_catalog():
                return start
            self._begin(start)
        records = self._take(max_records)
        stored = start.of(self.partition) or {STATE: None, RECORDS: 0}
        if not records and stored == self._offset():
            return start
        end = start.with_offset(self.partition, self._offset())
        self._read = start, end, records
        return end

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        if self._read is None or self._read[:2] != (start, end):
            raise DataError("a tap cannot read the same range again: start the task again")
        yield from self._read[2]

    def stored(self, positions: Positions) -> None:
        if self._read is not None and self._read[1] == positions:
            self._read = None

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._run is not None:
            self._run.close()
            self._run = None

    def _has_catalog(self) -> bool:
        """Whether the catalog is known. Raises what went wrong with it."""
        if self._discovery is None:
            self._discovery = self._executor.submit(self._selected)
        if not wait([self._discovery], _WAIT_S).done:
            return False
        self._catalog = self._discovery.result()
        return True

    def _begin(self, start: Positions) -> None:
        offset = start.of(self.partition) or {}
        # It counts on, so that no offset is the same as one of an earlier run.
        self._state, self._behind = offset.get(STATE), int(offset.get(RECORDS) or 0)
        self._run = TapRun(self._program, self._config, self._catalog, self._state)

    def _offset(self) -> dict[str, Any]:
        return {STATE: self._state, RECORDS: self._behind}

    def _take(self, max_records: int) -> list[SourceRecord]:
        """Takes what the tap has written, up to a number of records."""
        records: list[SourceRecord] = []
        assert self._run is not None
        while len(records) < max_records:
            try:
                message = self._run.next(0.0 if records else _WAIT_S)
            except EOFError:
                self._run.close()
                self._run = None
                self._next_run_s = self._monotonic_s() + self._settings.interval_ms / 1000
                break
            if message is None:
                break
            record = self._handled(message)
            if record is not None:
                records.append(record)
        return records

    def _handled(self, message: Message) -> SourceRecord | None:
        match message:
            case TapState(value):
                self._state, self._behind = value, 0
            case TapSchema(stream, schema, keys):
                self._shapes[stream] = StreamShape(stream, schema, keys)
            case TapRecord():
                self._behind += 1
                return self._record(message)
        return None

    def _record(self, message: TapRecord) -> SourceRecord:
        shape = self._shapes.get(message.stream)
        if shape is None:
            raise DataError(f"the tap writes records of {message.stream} before its schema")
        value = shape.value(message.record)
        has_schemas = self._settings.has_schemas
        return SourceRecord(
            f"{self._settings.topic_prefix}{message.stream}",
            key=shape.key(value),
            value=value if has_schemas else message.record,
            key_schema=shape.key_schema if has_schemas else None,
            value_schema=shape.value_schema if has_schemas else None,
            timestamp_ms=_milliseconds(message.time_extracted),
            source_partition=self.partition,
            source_offset=self._offset(),
        )

    def _selected(self) -> Any:
        """Returns the catalog, with the streams that are to be read marked as Singer does it."""
        given = self._settings.catalog
        catalog = json.loads(given) if given else discovered(self._program, self._config)
        wanted = set(self._settings.streams)
        if catalog is None:
            if wanted:
                raise DataError("the tap makes no catalog, so tap.streams cannot choose from it")
            return None
        known = set()
        for stream in catalog.get("streams") or ():
            name = str(stream.get("stream") or stream.get("tap_stream_id"))
            known.add(name)
            _mark(stream, is_selected=not wanted or name in wanted, is_forced=bool(wanted))
        if wanted - known:
            missing = sorted(wanted - known)[0]
            raise DataError(f"the tap has no stream {missing}: {', '.join(sorted(known))}")
        return catalog


def _mark(stream: dict[str, Any], *, is_selected: bool, is_forced: bool) -> None:
    """Marks a stream. Without a choice of the user, what a catalog says already stays."""
    metadata = stream.setdefault("metadata", [])
    root = next((one for one in metadata if one.get("breadcrumb") == []), None)
    if root is None:
        root = {"breadcrumb": [], "metadata": {}}
        metadata.append(root)
    marks = root.setdefault("metadata", {})
    if is_forced or "selected" not in marks:
        marks["selected"] = is_selected
        stream["selected"] = is_selected


def _milliseconds(text: str | None) -> int | None:
    try:
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
