"""Statements that change nothing: SHOW, DESCRIBE, EXPLAIN, ASSERT."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.client.admin.admin import Admin
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode
from odradek.schemas.errors import NotRegistered, RegistryFailed
from odradek.schemas.registry_client import RegistryClient
from odradek.sql.engine import persistent
from odradek.sql.engine.access import Access
from odradek.sql.engine.entities import (
    Entity,
    described_function,
    described_query,
    described_source,
    entity,
    fields,
    listed_functions,
    listed_query,
    listed_source,
    type_object,
)
from odradek.sql.engine.figures import consumers_by_topic, offsets_of_query, statistics
from odradek.sql.engine.sessions import OBEYED, Session, defaults_of
from odradek.sql.errors import AssertionDoesNotHold, Invalid, Refused
from odradek.sql.functions.table import NAMES
from odradek.sql.language import statements as s
from odradek.sql.planning.parts import Context
from odradek.sql.planning.queries import compile_query
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.drawing import draw
from odradek.streams.plan.nodes import Plan

if TYPE_CHECKING:
    from odradek.sql.engine.engine import Engine

_ASSERT_MS: Final = 1000
_LOOK_AGAIN_S: Final = 0.1


class Looking:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def answer(self, statement: s.Statement, session: Session, access: Access) -> Entity:
        """Returns the answer of a statement. Raises `Refused` for one that is not carried out."""
        match statement:
            case s.Show():
                return await self._show(statement, session, access)
            case s.DescribeSource():
                return await self._describe(statement, access)
            case s.DescribeStreams():
                return await self._describe_all(statement, access)
            case s.DescribeFunction():
                return _describe_function(statement)
            case s.Explain():
                return self._explain(statement, session)
            case s.AssertTopic() | s.AssertSchema():
                return await self._assert(statement, access)
            case s.AssertValues() | s.AssertSource():
                raise Refused(
                    f"{_name(statement)} is refused: it belongs to tests of statements",
                    statement.place,
                )
            case s.RunScript():
                raise Refused(
                    "RUN SCRIPT is refused by the server: it reads no files of callers; odradek sql"
                    " sends the statements of the file", statement.place,
                )  # fmt: skip
        raise Refused(f"{_name(statement)} is refused by the server", statement.place)

    async def _assert(self, statement: s.AssertTopic | s.AssertSchema, access: Access) -> Entity:
        if isinstance(statement, s.AssertTopic):
            return await self._assert_topic(statement, access)
        return await self._assert_schema(statement)

    async def _show(self, statement: s.Show, session: Session, access: Access) -> Entity:
        if statement.what in ("STREAMS", "TABLES"):
            return await self._show_sources(statement, access)
        if statement.what == "TOPICS":
            return await self._show_topics(statement, access)
        kind, content = self._listed(statement, session)
        return entity(kind, statement.text, **content)

    def _listed(self, statement: s.Show, session: Session) -> tuple[str, dict[str, Any]]:
        """Returns what needs no broker: the kind of the answer, and its content."""
        catalogue = self._engine.catalogue
        content: dict[str, Any]
        match statement.what:
            case "QUERIES" if statement.is_extended:
                described = [self._described(query) for query in sorted(catalogue.queries)]
                kind, content = "queryDescriptions", {"queryDescriptions": described}
            case "QUERIES":
                statuses = self._engine.queries.statuses()
                queries = [
                    listed_query(catalogue.queries[query], catalogue, statuses)
                    for query in sorted(catalogue.queries)
                ]
                kind, content = "queries", {"queries": queries}
            case "FUNCTIONS":
                kind, content = "function_names", {"functions": listed_functions()}
            case "TYPES":
                types = {name: type_object(one) for name, one in catalogue.types.items()}
                kind, content = "type_list", {"types": types}
            case "VARIABLES":
                variables = sorted(session.variables.items())
                listed = [{"name": name, "value": value} for name, value in variables]
                kind, content = "variables", {"variables": listed}
            case "PROPERTIES":
                kind, content = "properties", self._properties(session)
            case _:
                raise Refused(f"SHOW {statement.what} is refused", statement.place)
        return kind, content

    def _properties(self, session: Session) -> dict[str, Any]:
        known = {
            **self._engine.settings.properties, **self._engine.catalogue.system,
            **session.properties,
        }  # fmt: skip
        listed = [
            {"name": name, "scope": "KSQL", "value": value, "editable": name in OBEYED}
            for name, value in sorted(known.items())
        ]
        return {
            "properties": listed,
            "overwrittenProperties": sorted(session.properties),
            "defaultProperties": [],
        }

    async def _show_sources(self, statement: s.Show, access: Access) -> Entity:
        is_table = statement.what == "TABLES"
        found = [
            source
            for _, source in sorted(self._engine.catalogue.sources.items())
            if source.is_table == is_table
        ]
        if statement.is_extended:
            described = [
                await self._described_source(source.name, True, access) for source in found
            ]
            return entity("source_descriptions", statement.text, sourceDescriptions=described)
        name = "tables" if is_table else "streams"
        return entity(name, statement.text, **{name: [listed_source(one) for one in found]})

    async def _show_topics(self, statement: s.Show, access: Access) -> Entity:
        found = await access.admin.describe_metadata(None)
        is_extended = statement.is_extended
        consumers, groups = (
            await consumers_by_topic(access.admin) if is_extended else (Counter(), Counter())
        )
        topics = []
        for topic in sorted(found.topics, key=lambda one: str(one.name)):
            name = str(topic.name)
            if name.startswith("_") and not statement.includes_all:
                continue
            replicas = [len(partition.replica_nodes) for partition in topic.partitions]
            shown: dict[str, Any] = {"name": name, "replicaInfo": replicas}
            if is_extended:
                shown |= {"consumerCount": consumers[name], "consumerGroupCount": groups[name]}
            topics.append(shown)
        kind = "kafka_topics_extended" if is_extended else "kafka_topics"
        return entity(kind, statement.text, topics=topics)

    async def _describe(self, statement: s.DescribeSource, access: Access) -> Entity:
        self._engine.catalogue.source(statement.name, statement.place)
        described = await self._described_source(statement.name, statement.is_extended, access)
        return entity("sourceDescription", statement.text, sourceDescription=described)

    async def _describe_all(self, statement: s.DescribeStreams, access: Access) -> Entity:
        described = [
            await self._described_source(name, statement.is_extended, access)
            for name, source in sorted(self._engine.catalogue.sources.items())
            if source.is_table == statement.is_table
        ]
        return entity("source_descriptions", statement.text, sourceDescriptions=described)

    async def _described_source(self, name: str, is_extended: bool, access: Access) -> Entity:
        engine = self._engine
        source = engine.catalogue.sources[name]
        extra: dict[str, Any] = {}
        if is_extended:
            found = await access.admin.describe_metadata([source.topic])
            partitions = found.topics[0].partitions
            replication = len(partitions[0].replica_nodes) if partitions else 0
            extra = {"partitions": len(partitions), "replication": replication}
            extra |= await self._figures(source)
        return described_source(source, engine.catalogue, engine.queries.statuses(), extra)

    async def _figures(self, source: DataSource) -> dict[str, Any]:
        """Returns what the queries of a stream or table have done, and how far they are."""
        engine = self._engine
        queries, catalogue = engine.queries, engine.catalogue
        writers, readers = catalogue.writers(source.name), catalogue.readers(source.name)
        messages, errors = statistics(
            *([found for name in names if (found := queries.runner(name))]
              for names in (writers, readers))
        )  # fmt: skip
        summaries = []
        async with Admin(engine.settings.client) as admin:
            for query_id in writers:
                names = catalogue.queries[query_id].sources
                topics = [catalogue.sources[name].topic for name in names]
                group = queries.application_id(query_id)
                summaries.append(await offsets_of_query(admin, group, topics))
        return {
            "statistics": messages, "errorStats": errors, "queryOffsetSummaries": summaries,
        }  # fmt: skip

    def _described(self, query_id: str) -> Entity:
        engine = self._engine
        query = engine.catalogue.queries[query_id]
        plan = engine.plan(query)
        return described_query(query, engine.catalogue, engine.queries.statuses(), draw(plan))

    def _explain(self, statement: s.Explain, session: Session) -> Entity:
        engine = self._engine
        if statement.query is not None:
            engine.catalogue.query(statement.query, statement.place)
            described = self._described(statement.query)
        else:
            described = self._explained(statement.statement, session)
        return entity("queryDescription", statement.text, queryDescription=described)

    def _explained(self, statement: s.Statement | None, session: Session) -> Entity:
        engine = self._engine
        defaults = defaults_of(
            engine.settings.defaults, {**engine.catalogue.system, **session.properties}
        )
        if isinstance(statement, s.CreateAsSelect | s.InsertInto):
            prepared = persistent.prepare(statement, engine.catalogue, defaults, reset=None)
            compiled, plan, sinks = prepared.compiled, prepared.plan, [statement.name]
        elif isinstance(statement, s.Query):
            context = Context(
                engine.catalogue.sources.get, defaults.make, is_transient=True,
                sources=engine.catalogue.sources, limits=defaults.limits,
            )  # fmt: skip
            compiled = compile_query(statement, context)
            plan, sinks = Plan((compiled.node,)), []
        else:
            raise Invalid("only a query can be explained: SELECT, CREATE ... AS SELECT, or an id")
        picture = draw(plan)
        return {
            "id": "", "statementText": statement.text,
            "windowType": None if compiled.window is None else compiled.window.kind,
            "fields": fields(compiled.schema),
            "sources": [source.name for source in compiled.sources],
            "sinks": sinks, "topology": picture, "executionPlan": picture,
            "overriddenProperties": dict(session.properties), "ksqlHostQueryStatus": {},
            "queryType": "PERSISTENT" if sinks else "PUSH", "queryErrors": [],
            "tasksMetadata": [], "state": None,
        }  # fmt: skip

    async def _assert_schema(self, statement: s.AssertSchema) -> Entity:
        registry = self._engine.settings.defaults.formats.registry
        if registry is None:
            raise Invalid(
                "ASSERT SCHEMA needs a schema registry: set ksql.schema.registry.url",
                statement.place,
            )
        why = await _within(
            statement, lambda: asyncio.to_thread(_schema_missing, registry, statement)
        )
        if why is not None:
            raise AssertionDoesNotHold(why, statement.place)
        return entity(
            "assert_schema", statement.text, subject=statement.subject, id=statement.schema_id,
            exists=statement.exists,
        )  # fmt: skip

    async def _assert_topic(self, statement: s.AssertTopic, access: Access) -> Entity:
        # As in ksqlDB, NOT EXISTS is about the topic alone, whatever its properties are.
        wanted = statement.properties if statement.exists else {}
        why = await _within(
            statement, lambda: _topic_missing(access.admin, statement.topic, wanted)
        )
        if why is not None:
            raise AssertionDoesNotHold(why, statement.place)
        return entity(
            "assert_topic", statement.text, topicName=statement.topic, exists=statement.exists
        )


async def _within(
    statement: s.AssertTopic | s.AssertSchema, look: Callable[[], Awaitable[str | None]]
) -> str | None:
    """Looks again and again until an assertion holds or its time is over: returns why it does not
    hold, or None. `look` says why what it looks for is missing."""
    timeout_ms = _ASSERT_MS if statement.timeout_ms is None else statement.timeout_ms
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + timeout_ms / 1000
    while True:
        missing = await look()
        if (missing is None) == statement.exists:
            return None
        if now_s() >= deadline_s:
            return missing or f"{_asserted(statement)} exists"
        await asyncio.sleep(_LOOK_AGAIN_S)


def _asserted(statement: s.AssertTopic | s.AssertSchema) -> str:
    if isinstance(statement, s.AssertTopic):
        return f"Topic {statement.topic}"
    words = ["Schema"]
    if statement.subject is not None:
        words.append(f"with subject name {statement.subject}")
    if statement.schema_id is not None:
        words.append(f"{'and ' if statement.subject else 'with '}id {statement.schema_id}")
    return " ".join(words)


def _schema_missing(registry: RegistryClient, statement: s.AssertSchema) -> str | None:
    """Returns why there is no such schema, or None if there is. Blocks."""
    try:
        if statement.schema_id is None:
            registry.latest(statement.subject or "")
            return None
        registry.by_id(statement.schema_id)
        subjects = [name for name, _ in registry.versions_of_id(statement.schema_id)]
    except NotRegistered:
        return f"{_asserted(statement)} does not exist"
    except RegistryFailed as error:
        raise Invalid(f"Cannot check schema existence: {error}", statement.place) from None
    is_there = statement.subject is None or statement.subject in subjects
    return None if is_there else f"{_asserted(statement)} does not exist"


async def _topic_missing(admin: Admin, topic: str, wanted: Mapping[str, Any]) -> str | None:
    """Returns why a topic is not as wanted, or None if it is."""
    found = await admin.describe_metadata([topic])
    if found.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"Topic {topic} does not exist"
    partitions = found.topics[0].partitions
    figures = {"PARTITIONS": len(partitions), "REPLICAS": len(partitions[0].replica_nodes)}
    for name, value in wanted.items():
        if name.upper() not in figures:
            near = did_you_mean(name.upper(), list(figures))
            raise Invalid(f"ASSERT TOPIC knows PARTITIONS and REPLICAS, not {name}{near}")
        actual = figures[name.upper()]
        if actual != value:
            return f"Mismatched configuration for topic {topic}: {name} is {actual}, not {value}"
    return None


def _describe_function(statement: s.DescribeFunction) -> Entity:
    described = described_function(statement.name)
    if described is None:
        near = did_you_mean(statement.name, list(NAMES))
        raise Invalid(
            f"Can't find any functions with the name '{statement.name}'{near}", statement.place
        )
    return entity("describe_function", statement.text, **described)


def _name(statement: s.Statement) -> str:
    """Returns the words by which a statement is known."""
    return " ".join(statement.text.split()[:2]).upper()
