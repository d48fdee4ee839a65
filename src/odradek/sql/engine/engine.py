"""Carries statements out.

A statement that changes something goes through the command topic (`changes`), and is carried out
here and on every other server when it comes back. All other statements are answered from the
catalogue and the brokers (`looking`); queries by `answering`. `running` has the persistent queries.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from odradek.protocol.acls import Operation
from odradek.protocol.errors import KafkaError
from odradek.sql.engine.access import Access
from odradek.sql.engine.answering import Answer
from odradek.sql.engine.catalogue import Catalogue, QueryInfo
from odradek.sql.engine.changes import CHANGES, Changes, Outcome
from odradek.sql.engine.commands import Command, CommandLog
from odradek.sql.engine.connectors import KINDS as CONNECTOR_KINDS
from odradek.sql.engine.connectors import Connectors
from odradek.sql.engine.definitions import Defaults
from odradek.sql.engine.entities import Entity
from odradek.sql.engine.handing_over import QueryText, note
from odradek.sql.engine.inserting import NewRecord, record_of
from odradek.sql.engine.looking import Looking
from odradek.sql.engine.placing import AnyRunner, Places
from odradek.sql.engine.pulling import pull
from odradek.sql.engine.pushing import push
from odradek.sql.engine.running import RunningQueries
from odradek.sql.engine.sessions import Session, defaults_of, may_scan, reset_of
from odradek.sql.engine.topics import Topics
from odradek.sql.engine.views import Views
from odradek.sql.errors import QueryEndpoint, SqlError, SyntaxProblem
from odradek.sql.language import statements as s
from odradek.sql.language.parser import Part, parse, split
from odradek.sql.planning.parts import Context
from odradek.sql.planning.sources import Format
from odradek.streams.plan.nodes import Plan

_processing_log = logging.getLogger("odradek.sql.processing")


@dataclass
class EngineSettings:
    """What the engine can be told; `sql.settings` reads it from a file."""

    service_id: str
    client: Mapping[str, Any]
    """The properties of the server's own clients."""
    reset: str | None = None
    defaults: Defaults = field(default_factory=Defaults)
    replication_factor: int = -1
    spark: Mapping[str, str] | None = None
    """Settings of Spark, if it runs persistent queries; None if this process does."""
    connect_url: str = ""
    connect_tls: ssl.SSLContext | None = None
    may_scan: bool = True
    """Whether a pull query may read a whole table."""
    properties: dict[str, str] = field(default_factory=dict)
    """All settings as texts, for SHOW PROPERTIES."""


class Engine:
    def __init__(self, settings: EngineSettings, log: CommandLog) -> None:
        """`log` is the command topic, which has `apply` called for what it reads."""
        self.settings = settings
        self.catalogue = Catalogue()
        self.views = Views(settings.client, settings.defaults.make)
        self.log = log
        self.queries = RunningQueries(
            settings.client, settings.service_id, self._runner_of, self.catalogue
        )
        self._places = Places(settings)
        self.connectors = Connectors(settings.connect_url, settings.connect_tls)
        self._looking = Looking(self)
        self.changes = Changes(
            settings, self.catalogue, log, self.queries,
            topics=Topics(settings.replication_factor), forget=self.views.drop,
            check_place=self._places.check,
        )  # fmt: skip

    # The life of the engine

    async def apply(self, command: Command) -> Outcome:
        return await self.changes.apply(command)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the persistent queries when it is this server's turn. The command topic has to be
        read before."""
        task = asyncio.create_task(self.queries.run(self.log.topic), name="sql-group")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.queries.stop_all()
            await self._places.close()
            await self.views.close()
            self.connectors.close()

    def _runner_of(self, query: QueryInfo) -> AnyRunner:
        """Returns what runs a query. Raises `SqlError` if it cannot be compiled any more."""
        application_id = self.queries.application_id(query.id)
        runner = self._places.runner_of(self._text_of(query), query, application_id)
        if query.is_paused:
            runner.pause()
        return runner

    def _text_of(self, query: QueryInfo) -> QueryText:
        reset = reset_of(query.properties, self.settings.reset)
        defaults = defaults_of(self.settings.defaults, query.properties)
        return QueryText.of(query, defaults, reset)

    def plan(self, query: QueryInfo) -> Plan:
        """Returns the plan of a query, for a picture."""
        runner = self.queries.runner(query.id)
        return self._text_of(query)() if runner is None else runner.plan

    # Statements

    async def execute(self, text: str, session: Session, access: Access) -> list[Entity]:
        """Carries out the statements of a text, and returns the answer of each.

        Raises `StatementFailed` for the first that cannot be carried out, with the answers of those
        before it.
        """
        entities: list[Entity] = []
        parts = split(text)
        _check_syntax(parts, self.catalogue)
        for part in parts:
            try:
                # A variable may be defined by the statement before.
                statement = parse(session.expanded(part), self.catalogue.types)
                answer = await self._execute_one(statement, session, access)
            except (SqlError, KafkaError) as error:
                raise StatementFailed(str(error), part.text, entities, error) from None
            if answer is not None:
                answer["warnings"] += session.not_obeyed()
                entities.append(answer)
        return entities

    async def _execute_one(
        self, statement: s.Statement, session: Session, access: Access
    ) -> Entity | None:
        if isinstance(statement, s.Query | s.PrintTopic):
            raise QueryEndpoint(
                "The following statement types should be issued to the websocket endpoint"
                " '/query': SELECT and PRINT", statement.place,
            )  # fmt: skip
        if session.note(statement):
            return None
        if isinstance(statement, s.InsertValues):
            source = self.catalogue.source(statement.name, statement.place)
            make = self.settings.defaults.make
            record = await asyncio.to_thread(record_of, statement, source, make)
            await self.insert(record, access)
            return None
        if isinstance(statement, CONNECTOR_KINDS) or (
            isinstance(statement, s.Show) and statement.what.startswith("CONNECTOR")
        ):
            return await self.connectors.answer(statement, access)
        if isinstance(statement, CHANGES):
            return await self.changes.carry_out(statement, session, access)
        return await self._looking.answer(statement, session, access)

    async def insert(self, record: NewRecord, access: Access) -> None:
        await access.producer.send_and_wait(
            record.topic, record.value, record.key, timestamp_ms=record.timestamp_ms
        )

    async def query(self, statement: s.Query, session: Session, access: Access) -> Answer:
        """Returns the answer of a push or pull query, with rows of all that is in the topics from
        now on, or up to now. Raises `SqlError`, or what Kafka says."""
        properties = {**self.catalogue.system, **session.properties}
        defaults = defaults_of(self.settings.defaults, properties)
        context = Context(
            self.catalogue.sources.get, defaults.make, reset_of(properties, self.settings.reset),
            note, is_transient=True, default_key_format=Format(defaults.key_format),
            sources=self.catalogue.sources, limits=defaults.limits,
        )  # fmt: skip
        if statement.emit is not None:
            return await push(statement, context, access)
        source = self.catalogue.sources.get(statement.source.name)
        if source is not None:
            await access.require(Operation.READ, [source.topic], f"read {source.name}")
        async with access.reader() as reader:
            scans = may_scan(properties, self.settings.may_scan)
            return await pull(statement, context, self.views, reader, may_scan=scans)


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


def _check_syntax(parts: list[Part], catalogue: Catalogue) -> None:
    """Raises for a part that is not a statement: nothing of the text is carried out then."""
    for part in parts:
        try:
            if "${" not in part.text:
                parse(part, catalogue.types)
        except SyntaxProblem as error:
            raise StatementFailed(str(error), part.text, [], error) from None
        except SqlError:
            # Another statement before it may make it right, as CREATE TYPE does.
            continue
