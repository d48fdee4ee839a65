"""Carries statements out.

A statement that changes something goes through the command topic, and is carried out by
`_apply` when it comes back: here, and on every other server. `execute` checks it before, so that
nothing wrong is written, and waits for it. All other statements are answered from the catalogue and
the brokers.

`running` has the persistent queries.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from odradek.client.admin.admin import Admin
from odradek.client.errors import ClientError
from odradek.client.producer.producer import Producer
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import KafkaError
from odradek.sql.engine import persistent
from odradek.sql.engine.answering import Answer, Views, pull, push
from odradek.sql.engine.catalogue import Catalogue, QueryInfo
from odradek.sql.engine.commands import Command, CommandLog
from odradek.sql.engine.definitions import Defaults, define
from odradek.sql.engine.entities import Entity, entity
from odradek.sql.engine.inserting import NewRecord, record_of
from odradek.sql.engine.looking import Looking
from odradek.sql.engine.running import RunningQueries
from odradek.sql.engine.topics import Topics
from odradek.sql.errors import Invalid, Refused, SqlError, SyntaxProblem
from odradek.sql.language import statements as s
from odradek.sql.language.parser import Part, parse, split
from odradek.sql.language.variables import substitute
from odradek.sql.planning.parts import Context
from odradek.sql.planning.sources import DataSource, Format, make_codec
from odradek.streams.plan.nodes import Plan
from odradek.streams.plan.types import Column, Schema
from odradek.streams.process.runner import Runner
from odradek.streams.running.executor import InputRecord

_log = logging.getLogger("odradek.sql")
_processing_log = logging.getLogger("odradek.sql.processing")

_RESETS: Final = ("earliest", "latest")
_RESET: Final = ("ksql.streams.auto.offset.reset", "auto.offset.reset")


@dataclass
class EngineSettings:
    """What the engine can be told; `sql.settings` reads it from a file."""

    service_id: str
    client: Mapping[str, Any]
    reset: str = "latest"
    defaults: Defaults = field(default_factory=Defaults)
    replication_factor: int = -1
    properties: dict[str, str] = field(default_factory=dict)
    """All settings as texts, for SHOW PROPERTIES."""


@dataclass
class Session:
    """What SET and DEFINE have said, for one request or one shell."""

    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def note(self, statement: s.Statement) -> bool:
        """Notes what a statement says of the session; returns whether it does."""
        match statement:
            case s.SetProperty():
                _check_reset(statement)
                self.properties[statement.name] = statement.value
            case s.UnsetProperty():
                self.properties.pop(statement.name, None)
            case s.Define():
                self.variables[statement.name] = statement.value
            case s.Undefine():
                self.variables.pop(statement.name, None)
            case _:
                return False
        return True


class Engine:
    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.catalogue = Catalogue()
        self.views = Views(settings.client)
        self.log = CommandLog(
            f"_odradek_sql_{settings.service_id}_commands", settings.client, self._apply,
            settings.replication_factor,
        )  # fmt: skip
        self.cluster_id = ""
        self.queries = RunningQueries(
            settings.client, settings.service_id, self._runner_of, self.catalogue
        )
        self._producer: Producer | None = None
        self._looking = Looking(self)
        self._topics = Topics(settings.client, settings.replication_factor)

    # The life of the engine

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.log.prepare()
        async with Admin(self.settings.client) as admin:
            self.cluster_id = (await admin.describe_metadata([])).cluster_id or ""
        tasks = [asyncio.create_task(self.log.run(), name="sql-commands")]
        try:
            await self.log.wait_until_loaded()
            tasks.append(asyncio.create_task(self.queries.run(self.log.topic), name="sql-group"))
            yield
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.queries.stop_all()
            await self.views.close()
            await self.log.close()
            if self._producer is not None:
                await self._producer.close()

    def _runner_of(self, query: QueryInfo) -> Runner:
        """Returns what runs a query. Raises `SqlError` if it cannot be compiled any more."""
        runner = Runner(
            self._prepare_again(query).plan, self.queries.application_id(query.id),
            self.settings.client, reset=self._reset(query.properties),
            on_bad_record=self._note_bad_record,
            replication_factor=self.settings.replication_factor,
        )  # fmt: skip
        if query.is_paused:
            runner.pause()
        return runner

    def _prepare_again(self, query: QueryInfo) -> persistent.Prepared:
        """Compiles a query anew. Its sink is in the catalogue already, as it was made then."""
        statement = parse(query.text, self.catalogue.types)
        reset = self._reset(query.properties)
        if isinstance(statement, s.InsertInto):
            return persistent.prepare_insert(
                statement, self.catalogue, self.settings.defaults, reset=reset, note=self._note
            )
        assert isinstance(statement, s.CreateAsSelect)
        return persistent.prepare_create(
            statement, self.catalogue, self.settings.defaults, reset=reset, note=self._note
        )

    def plan(self, query: QueryInfo) -> Plan:
        """Returns the plan of a query, for a picture."""
        runner = self.queries.runner(query.id)
        return self._prepare_again(query).plan if runner is None else runner.plan

    def _note(self, what: str, error: Exception) -> None:
        _processing_log.warning("%s is null: %s", what, error)

    def _note_bad_record(self, record: InputRecord, error: Exception) -> None:
        _processing_log.warning(
            "the record at offset %d of %s-%d is skipped: %s",
            record.offset, record.topic, record.partition, error,
        )  # fmt: skip

    def _reset(self, properties: Mapping[str, str]) -> str:
        for name in _RESET:
            if name in properties:
                return str(properties[name]).lower()
        return self.settings.reset

    # Statements

    async def execute(self, text: str, session: Session) -> list[Entity]:
        """Carries out the statements of a text, and returns the answer of each.

        Raises `StatementFailed` for the first that cannot be carried out, with the answers of those
        before it.
        """
        entities: list[Entity] = []
        parts = split(substitute(text, session.variables))
        _check_syntax(parts, self.catalogue)
        for part in parts:
            try:
                # A variable may be defined by the statement before. What has none is parsed as it
                # stands, so that places are those of the whole text.
                has_variables = "${" in part.text
                again = substitute(part.text, session.variables) if has_variables else part
                statement = parse(again, self.catalogue.types)
                answer = await self._execute_one(statement, session)
            except SqlError as error:
                raise StatementFailed(str(error), part.text, entities, error) from None
            except KafkaError as error:
                raise StatementFailed(str(error), part.text, entities, error) from None
            if answer is not None:
                answer["warnings"] += not_obeyed(session)
                entities.append(answer)
        return entities

    async def _execute_one(self, statement: s.Statement, session: Session) -> Entity | None:
        if isinstance(statement, s.Query | s.PrintTopic):
            raise QueryEndpoint(
                "The following statement types should be issued to the websocket endpoint"
                " '/query': SELECT and PRINT", statement.place,
            )  # fmt: skip
        if session.note(statement):
            return None
        if isinstance(statement, s.InsertValues):
            source = self.catalogue.source(statement.name, statement.place)
            await self.insert(record_of(statement, source))
            return None
        if isinstance(statement, _CHANGES):
            return await self._change(statement, session)
        return await self._looking.answer(statement, session)

    async def insert(self, record: NewRecord) -> None:
        if self._producer is None:
            settings = {**self.settings.client, "acks": "all", "linger.ms": 0}
            self._producer = await Producer(settings).start()
        await self._producer.send_and_wait(
            record.topic, record.value, record.key, timestamp_ms=record.timestamp_ms
        )

    def query(self, statement: s.Query, session: Session) -> Answer:
        """Returns the answer of a push or pull query. Raises `SqlError`."""
        context = Context(
            self.catalogue.sources.get, make_codec, self._reset(session.properties), self._note,
            is_transient=True, default_key_format=Format(self.settings.defaults.key_format),
            sources=self.catalogue.sources,
        )  # fmt: skip
        if statement.emit is not None:
            return push(statement, context, self.settings.client)
        return pull(statement, context, self.views)

    # Changes

    async def _change(self, statement: s.Statement, session: Session) -> Entity:
        """Checks a statement, has it applied everywhere, and returns its status."""
        skipped = await self._check(statement, session)
        command_id = _command_id(statement)
        if skipped is not None:
            return _status(statement, command_id, skipped, -1, None)
        outcome = await self.log.write(Command(statement.text, dict(session.properties)))
        return _status(statement, command_id, outcome.message, outcome.number, outcome.query_id)

    async def _check(self, statement: s.Statement, session: Session) -> str | None:
        """Raises if a statement cannot be applied; makes its topics. Returns a message if there is
        nothing to do."""
        reset = self._reset(session.properties)
        if isinstance(statement, s.CreateSource | s.CreateAsSelect):
            skipped = self._check_name(statement)
            if skipped is not None:
                return skipped
        if isinstance(statement, s.CreateSource):
            source, wish = define(statement, self.settings.defaults)
            await self._topics.ensure(source, wish, statement.place)
        elif isinstance(statement, s.CreateAsSelect):
            prepared = persistent.prepare_create(
                statement, self.catalogue, self.settings.defaults, reset=reset
            )
            self._check_replaces(statement, prepared)
            await self._topics.ensure_sink(prepared)
        elif isinstance(statement, s.InsertInto):
            prepared = persistent.prepare_insert(
                statement, self.catalogue, self.settings.defaults, reset=reset
            )
            await self._topics.ensure_sink(prepared)
        else:
            return self._check_other(statement)
        return None

    def _check_other(self, statement: s.Statement) -> str | None:
        """Checks a statement that makes no topic."""
        if isinstance(statement, s.DropSource):
            known = self.catalogue.sources.get(statement.name)
            if known is None and statement.if_exists:
                return f"Source {statement.name} does not exist."
            self._check_drop(statement)
        elif isinstance(statement, s.CreateType) and statement.name in self.catalogue.types:
            if not statement.if_not_exists:
                raise Invalid(
                    f"Cannot register custom type '{statement.name}' since it is already"
                    " registered", statement.place,
                )  # fmt: skip
            return f"{statement.name} is already registered"
        elif isinstance(statement, s.DropType) and statement.name not in self.catalogue.types:
            if not statement.if_exists:
                raise Invalid(f"Type {statement.name} does not exist.", statement.place)
            return f"Type '{statement.name}' does not exist"
        elif isinstance(statement, s.ControlQuery) and statement.query is not None:
            self.catalogue.query(statement.query, statement.place)
        elif isinstance(statement, s.AlterSource):
            self._altered(statement)
        return None

    def _check_name(self, statement: s.CreateSource | s.CreateAsSelect) -> str | None:
        known = self.catalogue.sources.get(statement.name)
        if known is None or statement.or_replace:
            return None
        kind = known.kind.lower()
        if statement.if_not_exists:
            return (
                f"Cannot add {kind} `{statement.name}`: A {kind} with the same name already exists."
            )
        raise Invalid(
            f"Cannot add {'table' if statement.is_table else 'stream'} '{statement.name}': A {kind}"
            " with the same name already exists", statement.place,
        )  # fmt: skip

    def _check_replaces(self, statement: s.CreateAsSelect, prepared: persistent.Prepared) -> None:
        if statement.name in self.catalogue.sources and any(
            node.stores for node in prepared.plan.nodes
        ):
            raise Refused(
                "CREATE OR REPLACE of a query with state is refused: create another one beside it,"
                " and drop this one when the other has caught up", statement.place,
            )  # fmt: skip

    def _check_drop(self, statement: s.DropSource) -> DataSource:
        source = self.catalogue.source(statement.name, statement.place)
        if source.is_table != statement.is_table:
            raise Invalid(
                f"Incompatible data source type is {source.kind}, but statement was DROP"
                f" {'TABLE' if statement.is_table else 'STREAM'}", statement.place,
            )  # fmt: skip
        self.catalogue.check_droppable(source, statement.place)
        return source

    def _altered(self, statement: s.AlterSource) -> DataSource:
        source = self.catalogue.source(statement.name, statement.place)
        if self.catalogue.writers(source.name):
            raise Invalid(
                f"ALTER command is not supported for CREATE ... AS statements: {source.name}",
                statement.place,
            )
        added: list[Column] = []
        for column in statement.columns:
            if source.schema.find(column.name) is not None:
                raise Invalid(f"Cannot add column {column.name}: it is there", column.place)
            added.append(Column(column.name, column.kind))
        schema = Schema(source.schema.key, (*source.schema.value, *added))
        return replace(source, schema=schema)

    # What comes back from the command topic

    async def _apply(self, command: Command) -> "Outcome":
        statement = parse(command.statement, self.catalogue.types)
        applied = await self._applied(statement, command)
        return replace(applied, number=command.number)

    async def _applied(self, statement: s.Statement, command: Command) -> "Outcome":
        catalogue = self.catalogue
        if isinstance(statement, s.CreateSource):
            self._check_name(statement)
            source, _ = define(statement, self.settings.defaults)
            catalogue.sources[source.name] = source
            return Outcome(f"{source.kind.capitalize()} created")
        if isinstance(statement, s.CreateAsSelect | s.InsertInto):
            return await self._apply_query(statement, command)
        if isinstance(statement, s.DropSource):
            return await self._apply_drop(statement)
        if isinstance(statement, s.ControlQuery):
            return await self._apply_control(statement)
        return self._apply_definition(statement)

    def _apply_definition(self, statement: s.Statement) -> "Outcome":
        catalogue = self.catalogue
        match statement:
            case s.CreateType():
                name, kind = statement.name, statement.kind
                catalogue.types[name] = kind
                message = f"Registered custom type with name '{name}' and SQL type {kind}"
            case s.DropType():
                catalogue.types.pop(statement.name, None)
                message = f"Dropped type '{statement.name}'"
            case s.AlterSource():
                source = self._altered(statement)
                catalogue.sources[source.name] = source
                message = f"{source.kind.capitalize()} altered"
            case _:
                raise AssertionError(f"{type(statement).__name__} changes nothing")
        return Outcome(message)

    async def _apply_query(
        self, statement: s.CreateAsSelect | s.InsertInto, command: Command
    ) -> "Outcome":
        reset = self._reset(command.properties)
        defaults = self.settings.defaults
        if isinstance(statement, s.InsertInto):
            prepared = persistent.prepare_insert(statement, self.catalogue, defaults, reset=reset)
            query_id = f"INSERTQUERY_{command.number}"
        else:
            self._check_name(statement)
            prepared = persistent.prepare_create(statement, self.catalogue, defaults, reset=reset)
            kind = "CTAS" if statement.is_table else "CSAS"
            query_id = f"{kind}_{statement.name}_{command.number}"
            for replaced in self.catalogue.writers(statement.name):
                # The same application goes on, with its offsets.
                query_id = replaced
                await self.queries.stop(replaced)
            self.catalogue.sources[statement.name] = prepared.sink
        sources = tuple(dict.fromkeys(one.name for one in prepared.compiled.sources))
        query = QueryInfo(
            query_id, statement.text, prepared.sink.name, sources, command.properties,
            creates_sink=isinstance(statement, s.CreateAsSelect),
        )  # fmt: skip
        self.catalogue.queries[query_id] = query
        self.queries.start(query)
        return Outcome(f"Created query with ID {query_id}", query_id)

    async def _apply_drop(self, statement: s.DropSource) -> "Outcome":
        source = self._check_drop(statement)
        for query_id in self.catalogue.check_droppable(source, statement.place):
            await self._end_query(query_id)
        del self.catalogue.sources[source.name]
        await self.views.drop(source.name)
        if statement.delete_topic and self.queries.is_active:
            async with Admin(self.settings.client) as admin:
                await admin.delete_topics([source.topic])
        return Outcome(f"Source `{source.name}` (topic: {source.topic}) was dropped.")

    async def _end_query(self, query_id: str) -> None:
        """Ends a query for good: its state and its offsets go too, if it ran here."""
        runner = self.queries.runner(query_id)
        await self.queries.stop(query_id)
        del self.catalogue.queries[query_id]
        if runner is None:
            return
        try:
            async with Admin(self.settings.client) as admin:
                await admin.delete_topics([runner.changelog_topic])
                await admin.delete_groups([runner.application_id])
        except (ClientError, KafkaError) as error:
            _log.warning("state or offsets of %s are left over: %s", query_id, error)

    async def _apply_control(self, statement: s.ControlQuery) -> "Outcome":
        wanted = [statement.query] if statement.query else list(self.catalogue.queries)
        for query_id in wanted:
            query = self.catalogue.query(query_id, statement.place)
            if statement.action == "TERMINATE":
                await self._end_query(query_id)
                continue
            query.is_paused = statement.action == "PAUSE"
            runner = self.queries.runner(query_id)
            if runner is not None:
                runner.pause() if query.is_paused else runner.resume()
        done = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}
        return Outcome(f"Query {done[statement.action]}.")


_CHANGES: Final = (
    s.CreateSource, s.CreateAsSelect, s.InsertInto, s.DropSource, s.CreateType, s.DropType,
    s.ControlQuery, s.AlterSource,
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What applying a command did."""

    message: str
    query_id: str | None = None
    number: int = -1


class QueryEndpoint(Invalid):
    """A SELECT or PRINT where only other statements can be answered."""


class StatementFailed(Exception):
    """A statement could not be carried out; those before it could."""

    def __init__(
        self, message: str, statement: str, entities: list[Entity], cause: Exception
    ) -> None:
        super().__init__(message)
        self.message = message
        self.statement = statement
        self.entities = entities
        self.cause = cause


def _check_reset(statement: s.SetProperty) -> None:
    value = statement.value
    if statement.name in _RESET and value.lower() not in _RESETS:
        raise Invalid(
            f"{statement.name} is {' or '.join(_RESETS)}, not '{value}'"
            f"{did_you_mean(value, _RESETS)}",
            statement.place,
        )


def not_obeyed(session: Session) -> list[dict[str, str]]:
    """Returns a warning for each property that is given and not obeyed."""
    return [
        {"message": f"the property {name} is not obeyed{did_you_mean(name, _RESET)}"}
        for name in session.properties
        if name not in _RESET
    ]


def _check_syntax(parts: list[Part], catalogue: Catalogue) -> None:
    """Raises for a part that is no statement: nothing of the text is carried out then."""
    for part in parts:
        try:
            if "${" not in part.text:
                parse(part, catalogue.types)
        except SyntaxProblem as error:
            raise StatementFailed(str(error), part.text, [], error) from None
        except SqlError:
            # Another statement before it may make it right, as CREATE TYPE does.
            continue


def _command_id(statement: s.Statement) -> str:
    """Returns the id by which /status is asked: what, of which name, and what is done."""
    kind = "table" if getattr(statement, "is_table", False) else "stream"
    match statement:
        case s.CreateSource() | s.CreateAsSelect() | s.InsertInto():
            place, action = f"{kind}/`{statement.name}`", "create"
        case s.DropSource():
            place, action = f"{kind}/`{statement.name}`", "drop"
        case s.AlterSource():
            place, action = f"{kind}/`{statement.name}`", "alter"
        case s.CreateType():
            place, action = f"type/{statement.name}", "create"
        case s.DropType():
            place, action = f"type/{statement.name}", "drop"
        case s.ControlQuery():
            place = f"terminate/{statement.query or 'ALL'}"
            action = {"TERMINATE": "execute"}.get(statement.action, statement.action.lower())
        case _:
            raise AssertionError(f"{type(statement).__name__} changes nothing")
    return f"{place}/{action}"


def _status(
    statement: s.Statement, command_id: str, message: str, number: int, query_id: str | None
) -> Entity:
    return entity(
        "currentStatus", statement.text, commandId=command_id, commandSequenceNumber=number,
        commandStatus={"status": "SUCCESS", "message": message, "queryId": query_id},
    )  # fmt: skip
