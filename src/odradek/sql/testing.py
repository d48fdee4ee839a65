"""Runs statements in memory, without a broker: for tests of statements.

    SqlTester().run(text)

CREATE, INSERT, DROP and SET do what they do on a server; a query sees everything that was inserted,
before it and after. ASSERT VALUES compares the next row of a stream or table, ASSERT NULL VALUES
the next tombstone, ASSERT STREAM and ASSERT TABLE a definition. The first assertion that fails ends
the run with `TestFailed`. `odradek sql-test` is this for files (`run_tests`).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from odradek.sql.engine import persistent
from odradek.sql.engine.catalogue import Catalogue, QueryInfo
from odradek.sql.engine.definitions import Defaults, Properties, complete, define
from odradek.sql.engine.handing_over import QueryText
from odradek.sql.engine.inserting import constant_value, record_of
from odradek.sql.engine.sessions import Session, defaults_of
from odradek.sql.engine.upgrading import Version, altered, check_upgrade, kept_stores
from odradek.sql.errors import Invalid, Refused, SqlError
from odradek.sql.formats.catalogue import Formats
from odradek.sql.formats.inferring import forget_schemas, register
from odradek.sql.formats.memory import MemoryRegistry
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse, split
from odradek.sql.planning.scope import ROWTIME, WINDOW_END, WINDOW_START
from odradek.sql.planning.sources import DataSource, key_codec, value_codec
from odradek.streams.plan.nodes import Sink
from odradek.streams.plan.records import Windowed
from odradek.streams.plan.types import BIGINT, Column
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord
from odradek.world.blocking_calls import blocking


class TestFailed(SqlError):
    """A row or a definition is not what an assertion says."""

    __test__ = False


class _Sink:
    """Takes what one query writes."""

    def __init__(self, tester: "SqlTester") -> None:
        self._tester = tester
        self.state: dict[tuple[int, str, Any], Any] = {}
        """What its stores have, by partition, store and key."""

    def write(self, record: OutputRecord) -> None:
        self._tester.append(record.topic, record.key, record.value, record.timestamp_ms)

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        self.state[partition, store, key] = value


_TEST, _ERROR, _MESSAGE = "--@test:", "--@expected.error:", "--@expected.message:"


@dataclass(frozen=True)
class FileTest:
    """A test of a file. `fails` says that it has to end with an error, `message` with which."""

    name: str
    statements: str
    fails: bool = False
    message: str = ""


def tests_of(text: str) -> list[FileTest]:
    """Divides a file at its lines `--@test: NAME`, as ksqlDB's runner of tests does. A file without
    such lines is one test. Places in statements are those of the file."""
    lines = text.splitlines()
    begins = [place for place, line in enumerate(lines) if line.startswith(_TEST)]
    tests = []
    for begin, end in pairwise([*(begins or [0]), len(lines)]):
        own = lines[begin:end]
        name = own[0].removeprefix(_TEST).strip() if begins else ""
        messages = [
            line.removeprefix(_MESSAGE).strip() for line in own if line.startswith(_MESSAGE)
        ]
        fails = bool(messages) or any(line.startswith(_ERROR) for line in own)
        statements = "\n" * begin + "\n".join(own)
        tests.append(FileTest(name, statements, fails, "".join(messages[:1])))
    return tests


def run_tests(text: str) -> int:
    """Runs the tests of a file, each alone, and returns how many assertions held. An error that
    is expected is one of them. Raises `SqlError` for the first test that fails."""
    held = 0
    for test in tests_of(text):
        prefix = f"{test.name}: " if test.name else ""
        try:
            count = SqlTester().run(test.statements)
        except SqlError as error:
            if not test.fails or test.message not in str(error):
                raise TestFailed(f"{prefix}{error}") from None
            held += 1
            continue
        if test.fails:
            raise TestFailed(f"{prefix}an error is expected, and there is none: {test.message}")
        held += count
    return held


class SqlTester:
    def __init__(self, defaults: Defaults | None = None) -> None:
        self.catalogue = Catalogue()
        self.session = Session()
        self.topics: dict[str, list[InputRecord]] = {}
        self.notes: list[str] = []
        """What went wrong with single rows: expressions that are null for it, bad records."""
        self._defaults = defaults or Defaults(formats=Formats(MemoryRegistry()))
        self._executors: dict[str, Executor] = {}
        self._sinks: dict[str, _Sink] = {}
        self._pending: deque[InputRecord] = deque()
        self._asserted: dict[str, int] = {}
        self._count = 0

    @property
    def defaults(self) -> Defaults:
        """What holds where WITH says nothing, with what SET says."""
        return defaults_of(self._defaults, self.session.properties)

    def run(self, text: str) -> int:
        """Runs all statements, and returns how many assertions held. Raises `SqlError`."""
        assertions = 0
        for part in split(text):
            statement = parse(self.session.expanded(part), self.catalogue.types)
            self._run_one(statement)
            assertions += isinstance(statement, s.AssertValues | s.AssertSource)
        return assertions

    def append(self, topic: str, key: bytes | None, value: bytes | None, time_ms: int) -> None:
        """Adds a record to a topic; queries that read it get it after the present one."""
        records = self.topics.setdefault(topic, [])
        record = InputRecord(topic, 0, len(records), time_ms, key, value)
        records.append(record)
        self._pending.append(record)

    def deliver(self) -> None:
        while self._pending:
            record = self._pending.popleft()
            for executor in list(self._executors.values()):
                blocking(executor.deliver, record)

    def _run_one(self, statement: s.Statement) -> None:
        if self.session.note(statement):
            return
        match statement:
            case s.CreateSource() | s.CreateAsSelect() if self._is_there(statement):
                pass
            case s.CreateSource():
                statement = complete(statement, self.defaults)
                source, _ = define(statement, self.defaults)
                self._check_new(statement, source)
                register(self.defaults.formats, source, statement.place, always=False)
                self.catalogue.sources[source.name] = source
            case s.CreateAsSelect() | s.InsertInto():
                self._start(statement)
            case s.InsertValues():
                source = self.catalogue.source(statement.name, statement.place)
                record = record_of(statement, source, self.defaults.make)
                time_ms = 0 if record.timestamp_ms is None else record.timestamp_ms
                self.append(record.topic, record.key, record.value, time_ms)
                self.deliver()
            case s.CreateType() | s.DropType():
                self._note_type(statement)
            case s.AlterSource():
                self.catalogue.sources[statement.name] = altered(statement, self.catalogue)
            case s.DropSource():
                self._drop(statement)
            case s.AssertValues():
                self._assert_values(statement)
            case s.AssertSource():
                self._assert_source(statement)
            case _:
                words = " ".join(statement.text.split()[:2]).upper()
                raise Refused(f"{words} is refused in tests of statements", statement.place)

    def _note_type(self, statement: s.CreateType | s.DropType) -> None:
        types = self.catalogue.types
        if isinstance(statement, s.CreateType):
            types[statement.name] = statement.kind
            return
        if statement.name not in types and not statement.if_exists:
            raise Invalid(f"Type {statement.name} does not exist.", statement.place)
        types.pop(statement.name, None)

    def _is_there(self, statement: s.CreateSource | s.CreateAsSelect) -> bool:
        return statement.if_not_exists and statement.name in self.catalogue.sources

    def _check_new(self, statement: s.CreateSource | s.CreateAsSelect, source: DataSource) -> None:
        known = self.catalogue.sources.get(statement.name)
        if known is None:
            return
        if not statement.or_replace:
            raise Invalid(f"{statement.name} exists already", statement.place)
        check_upgrade(known, source, statement.place)

    def _start(self, statement: s.CreateAsSelect | s.InsertInto) -> None:
        def note(what: str, error: Exception) -> None:
            self.notes.append(f"{what}: {error}")

        def skip(record: InputRecord, error: Exception) -> None:
            self.notes.append(f"{record.topic}: {error}")

        def leave_out(sink: Sink, error: Exception) -> None:
            self.notes.append(f"{sink.topic}: {error}")

        def prepare(stores: Mapping[str, str]) -> persistent.Prepared:
            return persistent.prepare(
                statement, self.catalogue, self.defaults, reset="earliest", note=note, stores=stores
            )

        prepared, stores = prepare({}), dict[str, str]()
        self._count += 1
        query_id = f"QUERY_{self._count}"
        replaced: QueryInfo | None = None
        if isinstance(statement, s.CreateAsSelect):
            self._check_new(statement, prepared.sink)
            replaced = self._replaced(statement)
            if replaced is not None:
                query_id, stores = replaced.id, self._kept(replaced, statement, prepared)
                prepared = prepare(stores)
            persistent.register(prepared, self.defaults, statement.place)
            self.catalogue.sources[statement.name] = prepared.sink
        counts = dict.fromkeys((*prepared.plan.source_topics, prepared.sink.topic), 1)
        sink = _Sink(self)
        executor = Executor(
            prepared.plan, counts, sink, on_bad_record=skip, on_bad_result=leave_out
        )
        known = {source.name: source for source in (prepared.sink, *prepared.compiled.sources)}
        names = tuple(dict.fromkeys(source.name for source in prepared.compiled.sources))
        self.catalogue.queries[query_id] = QueryInfo(
            query_id, statement.text, prepared.sink.name, names,
            creates_sink=isinstance(statement, s.CreateAsSelect), known=known,
            types=dict(self.catalogue.types), stores=stores,
        )  # fmt: skip
        if replaced is None:
            for topic in prepared.plan.source_topics:
                for record in list(self.topics.get(topic, ())):
                    blocking(executor.deliver, record)
        else:
            _restore(executor, self._sinks[query_id].state)
            sink.state = self._sinks[query_id].state
        self._executors[query_id], self._sinks[query_id] = executor, sink
        self.deliver()

    def _replaced(self, statement: s.CreateAsSelect) -> QueryInfo | None:
        writers = [self.catalogue.queries[one] for one in self.catalogue.writers(statement.name)]
        return next((query for query in writers if query.creates_sink), None)

    def _kept(
        self, old: QueryInfo, statement: s.CreateAsSelect, prepared: persistent.Prepared
    ) -> dict[str, str]:
        before = parse(old.text, dict(old.types))
        assert isinstance(before, s.CreateAsSelect)
        prepared_before = QueryText.of(old, self.defaults, None).prepared()
        versions = Version(before.query, prepared_before), Version(statement.query, prepared)
        return kept_stores(*versions, statement.place)

    def _drop(self, statement: s.DropSource) -> None:
        if statement.if_exists and statement.name not in self.catalogue.sources:
            return
        source = self.catalogue.source(statement.name, statement.place)
        for query_id in self.catalogue.check_droppable(source, statement.place):
            del self._executors[query_id], self.catalogue.queries[query_id]
        del self.catalogue.sources[source.name]
        if statement.delete_topic:
            self.topics.pop(source.topic, None)
            forget_schemas(self.defaults.formats, source)

    # Rows

    def rows(self, name: str) -> list[tuple[dict[str, Any], bool]]:
        """Returns the rows of a stream or table, as values by column, and whether each is a
        tombstone."""
        source = self.catalogue.source(name)
        make = self.defaults.make
        keys, values = key_codec(source, make), value_codec(source, make)
        return [_row(source, keys, values, one) for one in self.topics.get(source.topic, ())]

    def _assert_values(self, statement: s.AssertValues) -> None:
        source = self.catalogue.source(statement.name, statement.place)
        place = self._asserted.get(source.name, 0)
        rows = self.rows(source.name)
        if place >= len(rows):
            raise TestFailed(
                f"{source.name} has {len(rows)} rows, and one more is expected", statement.place
            )
        self._asserted[source.name] = place + 1
        row, is_tombstone = rows[place]
        expected = _expected(statement, source)
        if is_tombstone != statement.is_tombstone:
            found = "a tombstone" if is_tombstone else f"the row {_shown(row)}"
            raise TestFailed(f"row {place + 1} of {source.name} is {found}", statement.place)
        different = {
            name: row.get(name) for name, value in expected.items() if row.get(name) != value
        }
        if different:
            raise TestFailed(
                f"row {place + 1} of {source.name} has {_shown(different)}, and"
                f" {_shown({name: expected[name] for name in different})} is expected",
                statement.place,
            )

    def _assert_source(self, statement: s.AssertSource) -> None:
        source = self.catalogue.source(statement.name, statement.place)
        if source.is_table != statement.is_table:
            raise TestFailed(f"{source.name} is a {source.kind}", statement.place)
        if statement.columns is not None:
            expected = [(column.name, column.kind, column.is_key) for column in statement.columns]
            keys = [(one.name, one.kind, True) for one in source.schema.key]
            actual = keys + [(one.name, one.kind, False) for one in source.schema.value]
            if sorted(expected, key=str) != sorted(actual, key=str):
                raise TestFailed(f"{source.name} has the columns {source.schema}", statement.place)
        properties = Properties(statement.properties, statement.place, of_query=False)
        actual_properties = {
            "KAFKA_TOPIC": source.topic, "KEY_FORMAT": source.key_format.name,
            "VALUE_FORMAT": source.value_format.name,
        }  # fmt: skip
        for name, value in actual_properties.items():
            if name in properties and properties.text(name) != value:
                raise TestFailed(f"{name} of {source.name} is {value}", statement.place)


def _restore(executor: Executor, state: Mapping[tuple[int, str, Any], Any]) -> None:
    """Gives a query the state of the one that it replaces."""
    for (partition, name, key), value in state.items():
        task = executor.task(partition)
        store = task.stores.get(name) or task.key_value_store(name)
        store.restore(key, value)


def _row(
    source: DataSource, keys: Any, values: Any, record: InputRecord
) -> tuple[dict[str, Any], bool]:
    key, value = blocking(keys.decode, record.key), blocking(values.decode, record.value)
    row: dict[str, Any] = {ROWTIME: record.timestamp_ms}
    if isinstance(key, Windowed):
        row[WINDOW_START], row[WINDOW_END] = key.window
        key = key.key
    row |= _named(source.schema.key, key)
    row |= _named(source.topic_columns, value)
    return row, value is None


def _named(columns: tuple[Column, ...], values: Any) -> dict[str, Any]:
    given = (None,) * len(columns) if values is None else values
    return {column.name: value for column, value in zip(columns, given, strict=True)}


def _expected(statement: s.AssertValues, source: DataSource) -> dict[str, Any]:
    columns = source.schema.key if statement.is_tombstone else tuple(source.schema)
    names = statement.columns or tuple(column.name for column in columns)
    if len(names) != len(statement.values):
        raise Invalid(
            f"there are {len(names)} columns and {len(statement.values)} values", statement.place
        )
    kinds = {column.name: column.kind for column in source.schema}
    kinds |= {ROWTIME: BIGINT, WINDOW_START: BIGINT, WINDOW_END: BIGINT}
    expected = {}
    for name, node in zip(names, statement.values, strict=True):
        if name not in kinds:
            raise Invalid(f"{source.name} has no column {name}", statement.place)
        expected[name] = constant_value(node, kinds[name], name)
    return expected


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())
