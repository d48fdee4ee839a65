"""Statements that change something: checked, written to the command topic, applied.

`carry_out` is for the server that was asked: it checks a statement with the rights of its caller,
makes the topics, fixes the offsets where a new query begins to read, writes the statement and waits
until it is applied. `apply` is for every server that reads it back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from odradek.client.admin.admin import Admin
from odradek.client.errors import ClientError
from odradek.protocol.acls import Operation
from odradek.protocol.errors import KafkaError
from odradek.sql.engine import persistent
from odradek.sql.engine.access import Access
from odradek.sql.engine.catalogue import Catalogue, QueryInfo
from odradek.sql.engine.commands import Command, CommandLog
from odradek.sql.engine.definitions import Defaults, complete, define
from odradek.sql.engine.entities import Entity, entity
from odradek.sql.engine.handing_over import QueryText
from odradek.sql.engine.running import RunningQueries
from odradek.sql.engine.sessions import Session, check_property, defaults_of, reset_of
from odradek.sql.engine.topics import Topics, end_offsets
from odradek.sql.engine.upgrading import Version, altered, check_upgrade, kept_stores
from odradek.sql.errors import Invalid, Place, Refused, SqlError
from odradek.sql.formats.inferring import forget_schemas, register
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.nodes import Plan

_log = logging.getLogger("odradek.sql")

CHANGES: Final = (
    s.CreateSource, s.CreateAsSelect, s.InsertInto, s.DropSource, s.CreateType, s.DropType,
    s.ControlQuery, s.AlterSource, s.AlterSystem,
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What applying a command did."""

    message: str
    query_id: str | None = None
    number: int = -1


@dataclass
class CommandStatus:
    """What has become of a statement, for /status."""

    status: str
    message: str
    query_id: str | None = None


class ChangeSettings(Protocol):
    """What `Changes` needs of `EngineSettings`."""

    @property
    def client(self) -> Mapping[str, object]: ...
    @property
    def reset(self) -> str | None: ...
    @property
    def defaults(self) -> Defaults: ...


class Changes:
    def __init__(
        self,
        settings: ChangeSettings,
        catalogue: Catalogue,
        log: CommandLog,
        queries: RunningQueries,
        *,
        topics: Topics,
        forget: Callable[[str], Awaitable[None]],
        check_place: Callable[[Mapping[str, str], Plan, Place], None],
    ) -> None:
        """`forget` is told of a stream or table that is dropped or replaced; `check_place` raises
        for a query that cannot run where it is to run."""
        self.statuses: dict[str, CommandStatus] = {}
        self._settings = settings
        self._catalogue = catalogue
        self._log = log
        self._queries = queries
        self._topics = topics
        self._forget = forget
        self._check_place = check_place

    async def carry_out(self, statement: s.Statement, session: Session, access: Access) -> Entity:
        """Checks a statement, has it applied everywhere, and returns its status."""
        await access.require_change()
        if not self._log.is_open:
            raise Refused(
                "the statements of this server are those of ksql.queries.file: change the file,"
                " and start it again", statement.place,
            )  # fmt: skip
        if isinstance(statement, s.CreateSource):
            defaults = self._defaults(session.properties)
            statement = await asyncio.to_thread(complete, statement, defaults)
        skipped, start = await self._check(statement, session, access)
        command_id = command_id_of(statement)
        if skipped is not None:
            return _status(statement, command_id, Outcome(skipped))
        dropped = self._source_without_topic(statement)
        command = Command(statement.text, dict(session.properties), start)
        outcome: Outcome = await self._log.write(command)
        status = _status(statement, command_id, outcome)
        if dropped is not None:
            await access.admin.delete_topics([dropped.topic])
            formats = self._settings.defaults.formats
            left = await asyncio.to_thread(forget_schemas, formats, dropped)
            status["warnings"] += [{"message": one} for one in left]
        return status

    # Checks

    async def _check(
        self, statement: s.Statement, session: Session, access: Access
    ) -> tuple[str | None, dict[str, list[int]]]:
        """Raises if a statement cannot be applied; makes its topics. Returns a message if there is
        nothing to do, and where a query begins to read."""
        if isinstance(statement, s.CreateSource | s.CreateAsSelect):
            skipped = self._check_name(statement)
            if skipped is not None:
                return skipped, {}
        if isinstance(statement, s.CreateSource):
            source, wish = define(statement, self._defaults(session.properties))
            known = self._catalogue.sources.get(statement.name)
            if known is not None:
                check_upgrade(known, source, statement.place)
            await self._topics.ensure(access.admin, source, wish, statement.place)
            formats = self._settings.defaults.formats
            await asyncio.to_thread(register, formats, source, statement.place, always=False)
        elif isinstance(statement, s.CreateAsSelect | s.InsertInto):
            return None, await self._check_query(statement, session, access)
        elif isinstance(statement, s.DropSource):
            known = self._catalogue.sources.get(statement.name)
            if known is None and statement.if_exists:
                return f"Source {statement.name} does not exist.", {}
            source = self._check_drop(statement)
            if statement.delete_topic:
                if source.is_read_only:
                    raise Invalid(
                        f"Cannot delete topic for read-only source: {source.name}", statement.place
                    )
                await access.require(Operation.DELETE, [source.topic], f"delete {source.topic}")
        else:
            return self._check_other(statement), {}
        return None, {}

    async def _check_query(
        self, statement: s.CreateAsSelect | s.InsertInto, session: Session, access: Access
    ) -> dict[str, list[int]]:
        prepared = self._prepared(statement, session.properties)
        self._check_place(session.properties, prepared.plan, statement.place)
        if isinstance(statement, s.CreateAsSelect):
            self._check_replaces(statement, prepared)
        else:
            self._new_query_id(statement)
        sources = [source.topic for source in prepared.compiled.sources]
        await access.require(Operation.READ, sources, "read what the query reads")
        await self._topics.ensure_sink(access.admin, prepared)
        await access.require(Operation.WRITE, [prepared.sink.topic], "write what the query writes")
        if isinstance(statement, s.CreateAsSelect):
            defaults = self._settings.defaults
            await asyncio.to_thread(persistent.register, prepared, defaults, statement.place)
        # From here on records belong to the query, though it does not run yet.
        return await end_offsets(access.admin, prepared.plan.latest_topics)

    def _prepared(
        self, statement: s.CreateAsSelect | s.InsertInto, properties: Mapping[str, str]
    ) -> persistent.Prepared:
        reset = reset_of({**self._catalogue.system, **properties}, self._settings.reset)
        defaults = self._defaults(properties)
        return persistent.prepare(statement, self._catalogue, defaults, reset=reset)

    def _defaults(self, properties: Mapping[str, str]) -> Defaults:
        """Returns what holds where WITH says nothing, for a request with these properties."""
        return defaults_of(self._settings.defaults, {**self._catalogue.system, **properties})

    def _check_other(self, statement: s.Statement) -> str | None:
        """Checks a statement that has no topic."""
        types = self._catalogue.types
        if isinstance(statement, s.CreateType) and statement.name in types:
            if not statement.if_not_exists:
                raise Invalid(
                    f"Cannot register custom type '{statement.name}' since it is already"
                    " registered", statement.place,
                )  # fmt: skip
            return f"{statement.name} is already registered"
        if isinstance(statement, s.DropType) and statement.name not in types:
            if not statement.if_exists:
                raise Invalid(f"Type {statement.name} does not exist.", statement.place)
            return f"Type '{statement.name}' does not exist"
        if isinstance(statement, s.ControlQuery) and statement.query is not None:
            self._catalogue.query(statement.query, statement.place)
        elif isinstance(statement, s.AlterSource):
            altered(statement, self._catalogue)
        elif isinstance(statement, s.AlterSystem):
            check_property(statement, known_alone=True)
        return None

    def _check_name(self, statement: s.CreateSource | s.CreateAsSelect) -> str | None:
        known = self._catalogue.sources.get(statement.name)
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
        known = self._catalogue.sources.get(statement.name)
        if known is None:
            return
        check_upgrade(known, prepared.sink, statement.place)
        for replaced in self._replaced(statement):
            self._kept(replaced, statement, prepared)

    def _replaced(self, statement: s.CreateAsSelect) -> list[QueryInfo]:
        """Returns the query that a statement takes the place of, if there is one."""
        writers = [self._catalogue.queries[one] for one in self._catalogue.writers(statement.name)]
        return [query for query in writers if query.creates_sink]

    def _kept(
        self, old: QueryInfo, statement: s.CreateAsSelect, prepared: persistent.Prepared
    ) -> dict[str, str]:
        """Returns the stores that a query goes on with, as `QueryInfo` has them. Raises `Refused`
        if it cannot."""
        before = parse(old.text, dict(old.types))
        assert isinstance(before, s.CreateAsSelect)
        defaults = defaults_of(self._settings.defaults, old.properties)
        prepared_before = QueryText.of(old, defaults, None).prepared()
        return kept_stores(
            Version(before.query, prepared_before), Version(statement.query, prepared),
            statement.place,
        )  # fmt: skip

    def _check_drop(self, statement: s.DropSource) -> DataSource:
        source = self._catalogue.source(statement.name, statement.place)
        if source.is_table != statement.is_table:
            raise Invalid(
                f"Incompatible data source type is {source.kind}, but statement was DROP"
                f" {'TABLE' if statement.is_table else 'STREAM'}", statement.place,
            )  # fmt: skip
        self._catalogue.check_droppable(source, statement.place)
        return source

    def _source_without_topic(self, statement: s.Statement) -> DataSource | None:
        """Returns the stream or table that a statement drops together with its topic."""
        if isinstance(statement, s.DropSource) and statement.delete_topic:
            return self._catalogue.sources[statement.name]
        return None

    # What comes back from the command topic

    async def apply(self, command: Command) -> Outcome:
        """Carries a statement out that has been written. Raises `SqlError` if another one that came
        before makes that impossible."""
        statement = parse(command.statement, self._catalogue.types)
        command_id = command_id_of(statement)
        try:
            applied = await self._applied(statement, command)
        except SqlError as error:
            self.statuses[command_id] = CommandStatus("ERROR", str(error))
            raise
        self.statuses[command_id] = CommandStatus("SUCCESS", applied.message, applied.query_id)
        return replace(applied, number=command.number)

    async def _applied(self, statement: s.Statement, command: Command) -> Outcome:
        catalogue = self._catalogue
        if isinstance(statement, s.CreateSource):
            self._check_name(statement)
            source, _ = define(statement, self._defaults(command.properties))
            catalogue.sources[source.name] = source
            await self._forget(source.name)
            return Outcome(f"{source.kind.capitalize()} created")
        if isinstance(statement, s.CreateAsSelect | s.InsertInto):
            return await self._apply_query(statement, command)
        if isinstance(statement, s.DropSource):
            return await self._apply_drop(statement)
        if isinstance(statement, s.ControlQuery):
            return await self._apply_control(statement)
        return self._apply_definition(statement)

    def _apply_definition(self, statement: s.Statement) -> Outcome:
        catalogue = self._catalogue
        match statement:
            case s.CreateType():
                name, kind = statement.name, statement.kind
                catalogue.types[name] = kind
                message = f"Registered custom type with name '{name}' and SQL type {kind}"
            case s.DropType():
                catalogue.types.pop(statement.name, None)
                message = f"Dropped type '{statement.name}'"
            case s.AlterSource():
                source = altered(statement, catalogue)
                catalogue.sources[source.name] = source
                message = f"{source.kind.capitalize()} altered"
            case s.AlterSystem():
                catalogue.system[statement.name] = statement.value
                message = f"System property {statement.name} was set to {statement.value}."
            case _:
                raise AssertionError(f"{type(statement).__name__} changes nothing")
        return Outcome(message)

    def _new_query_id(self, statement: s.InsertInto) -> str | None:
        """Returns the id that a statement gives to its query, if it does."""
        query_id = persistent.query_id_of(statement)
        if query_id in self._catalogue.queries:
            raise Invalid(f"Query ID '{query_id}' already exists.", statement.place)
        return query_id

    async def _apply_query(
        self, statement: s.CreateAsSelect | s.InsertInto, command: Command
    ) -> Outcome:
        if isinstance(statement, s.CreateAsSelect):
            self._check_name(statement)
        # What the system says later does not change a query that there is.
        properties = {**self._catalogue.system, **command.properties}
        prepared = self._prepared(statement, properties)
        query_id = f"INSERTQUERY_{command.number}"
        stores: dict[str, str] = {}
        start = command.start
        if isinstance(statement, s.InsertInto):
            query_id = self._new_query_id(statement) or query_id
        if isinstance(statement, s.CreateAsSelect):
            kind = "CTAS" if statement.is_table else "CSAS"
            query_id = f"{kind}_{statement.name}_{command.number}"
            for old in self._replaced(statement):
                # The same application goes on, with its offsets and its state.
                query_id = old.id
                stores = self._kept(old, statement, prepared)
                topics = {source.topic for source in old.known.values()}
                start = {topic: one for topic, one in start.items() if topic not in topics}
                start |= old.start
                await self._queries.stop(old.id)
            self._catalogue.sources[statement.name] = prepared.sink
            await self._forget(statement.name)
        sources = tuple(dict.fromkeys(source.name for source in prepared.compiled.sources))
        known = {source.name: source for source in (prepared.sink, *prepared.compiled.sources)}
        query = QueryInfo(
            query_id, statement.text, prepared.sink.name, sources, properties,
            creates_sink=isinstance(statement, s.CreateAsSelect), start=start, known=known,
            types=dict(self._catalogue.types), stores=stores,
        )  # fmt: skip
        self._catalogue.queries[query_id] = query
        self._queries.start(query)
        return Outcome(f"Created query with ID {query_id}", query_id)

    async def _apply_drop(self, statement: s.DropSource) -> Outcome:
        source = self._check_drop(statement)
        for query_id in self._catalogue.check_droppable(source, statement.place):
            await self._end_query(query_id)
        del self._catalogue.sources[source.name]
        await self._forget(source.name)
        return Outcome(f"Source `{source.name}` (topic: {source.topic}) was dropped.")

    async def _end_query(self, query_id: str) -> None:
        """Ends a query for good: its state and its offsets go too, if it ran here."""
        runner = self._queries.runner(query_id)
        await self._queries.stop(query_id)
        del self._catalogue.queries[query_id]
        for status in self.statuses.values():
            if status.query_id == query_id:
                status.status = "TERMINATED"
        if runner is None:
            return
        try:
            async with Admin(self._settings.client) as admin:
                await admin.delete_topics([runner.changelog_topic])
                await admin.delete_groups([runner.application_id])
        except (ClientError, KafkaError) as error:
            _log.warning("state or offsets of %s are left over: %s", query_id, error)

    async def _apply_control(self, statement: s.ControlQuery) -> Outcome:
        wanted = [statement.query] if statement.query else list(self._catalogue.queries)
        for query_id in wanted:
            query = self._catalogue.query(query_id, statement.place)
            if statement.action == "TERMINATE":
                await self._end_query(query_id)
                continue
            query.is_paused = statement.action == "PAUSE"
            runner = self._queries.runner(query_id)
            if runner is not None:
                runner.pause() if query.is_paused else runner.resume()
        done = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}
        return Outcome(f"Query {done[statement.action]}.")


def command_id_of(statement: s.Statement) -> str:
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
        case s.AlterSystem():
            place, action = f"cluster/{statement.name}", "alter"
        case s.ControlQuery():
            place = f"terminate/{statement.query or 'ALL'}"
            action = {"TERMINATE": "execute"}.get(statement.action, statement.action.lower())
        case _:
            raise AssertionError(f"{type(statement).__name__} changes nothing")
    return f"{place}/{action}"


def _status(statement: s.Statement, command_id: str, outcome: Outcome) -> Entity:
    status = {"status": "SUCCESS", "message": outcome.message, "queryId": outcome.query_id}
    return entity(
        "currentStatus", statement.text, commandId=command_id,
        commandSequenceNumber=outcome.number, commandStatus=status,
    )  # fmt: skip
