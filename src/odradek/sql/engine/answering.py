"""Queries whose rows someone waits for.

A push query (EMIT CHANGES) runs in the reference executor of this process, from the end of its
topics or their beginning, until its LIMIT or until nobody waits any more. A pull query reads what
there is: the topic is read to the end that it has now. A table that is asked again is not read
again: `Views` goes on from where it was.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.protocol.types import TopicPartition
from odradek.sql.errors import Invalid, Refused
from odradek.sql.language.statements import Query
from odradek.sql.planning.calls import refuse_calls
from odradek.sql.planning.expressions import compile_expression, condition
from odradek.sql.planning.parts import Context
from odradek.sql.planning.queries import compile_query
from odradek.sql.planning.selecting import expand
from odradek.sql.planning.sources import (
    DataSource,
    flat_row,
    key_codec,
    make_codec,
    scope_of,
    timestamp_reader,
    value_codec,
)
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Plan
from odradek.streams.plan.records import RecordContext
from odradek.streams.plan.types import STRING, Column
from odradek.streams.process.runner import by_time, partition_counts
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord

_POLL_MS: Final = 250


@dataclass(frozen=True, slots=True)
class ResultRow:
    values: tuple[Any, ...]
    is_deleted: bool = False
    """Whether a row of a table is deleted. Its values are null, but for the key."""


@dataclass(frozen=True)
class Answer:
    """The columns of a result, and its rows as they come."""

    columns: tuple[Column, ...]
    rows: AsyncGenerator[ResultRow]
    is_push: bool


def push(query: Query, context: Context, client: Mapping[str, Any]) -> Answer:
    """Returns the rows of a push query. Raises `SqlError` before the first row."""
    context.is_transient = True
    compiled = compile_query(query, context)
    collected: list[ResultRow] = []
    columns = compiled.schema.value

    def collect(key: Any, value: Any, _: int, __: RecordContext) -> None:
        if value is not None:
            collected.append(ResultRow(value))
        elif compiled.is_table:
            collected.append(ResultRow(_keys_alone(key, columns, compiled.key_names), True))

    end = nodes.Collect(name="collect", parents=(compiled.node,), function=collect)
    rows = _push_rows(Plan((end,)), collected, context.reset, client, query.limit)
    return Answer(columns, rows, is_push=True)


def _keys_alone(
    key: Any, columns: Iterable[Column], key_names: tuple[str | None, ...]
) -> tuple[Any, ...]:
    values = getattr(key, "key", key) or ()
    known = dict(zip(key_names, values, strict=False))
    return tuple(known.get(column.name) for column in columns)


class _Nowhere:
    """Takes what a transient query would write: nothing."""

    def write(self, record: OutputRecord) -> None:
        raise AssertionError("a transient query has no sink")

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        pass


def _skip(record: InputRecord, error: Exception) -> None:
    pass


async def _push_rows(
    plan: Plan,
    collected: list[ResultRow],
    reset: str,
    client: Mapping[str, Any],
    limit: int | None,
) -> AsyncGenerator[ResultRow]:
    given = 0
    async with Admin(client) as admin:
        counts = await partition_counts(admin, plan.source_topics)
    executor = Executor(plan, counts, _Nowhere(), on_bad_record=_skip)
    async with _reader(client) as consumer:
        partitions = [
            TopicPartition(topic, number) for topic, count in counts.items()
            for number in range(count)
        ]  # fmt: skip
        consumer.assign(partitions)
        if reset == "earliest":
            consumer.seek_to_beginning()
        else:
            consumer.seek_to_end()
        while limit is None or given < limit:
            polled = await consumer.poll(_POLL_MS)
            for record in by_time(polled.values()):
                executor.deliver(record)
                for row in collected:
                    yield row
                    given += 1
                    if limit is not None and given >= limit:
                        return
                collected.clear()


def _reader(client: Mapping[str, Any]) -> Consumer:
    return Consumer(
        {**client, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )


# Pull queries


class View:
    """The rows of a topic, as flat rows: of a table the newest of each key, of a stream all."""

    def __init__(self, source: DataSource, client: Mapping[str, Any]) -> None:
        self._source = source
        self._client = client
        self._keys = key_codec(source, make_codec)
        self._values = value_codec(source, make_codec)
        self._flatten = flat_row(source)
        self._timestamp_of = timestamp_reader(source)
        self._consumer: Consumer | None = None
        self._lock = asyncio.Lock()
        self.rows: dict[Any, Any] = {}

    async def refresh(self) -> None:
        """Reads on to the end that the topic has now."""
        async with self._lock:
            if self._consumer is None:
                self._consumer = _reader(self._client)
                numbers = await self._consumer.partitions_for(self._source.topic)
                self._consumer.assign([TopicPartition(self._source.topic, one) for one in numbers])
                self._consumer.seek_to_beginning()
            consumer = self._consumer
            ends = await consumer.end_offsets(consumer.assignment())
            while await self._is_behind(consumer, ends):
                for records in (await consumer.poll(_POLL_MS)).values():
                    for record in records:
                        self._take(record)

    async def _is_behind(self, consumer: Consumer, ends: Mapping[TopicPartition, Any]) -> bool:
        for partition, end in ends.items():
            if await consumer.position(partition) < end:
                return True
        return False

    def _take(self, record: Any) -> None:
        context = RecordContext()
        context.partition, context.offset = record.partition, record.offset
        context.timestamp_ms, context.headers = record.timestamp_ms, tuple(record.headers)
        try:
            key, value = self._keys.decode(record.key), self._values.decode(record.value)
            if self._timestamp_of is not None and value is not None:
                context.timestamp_ms = self._timestamp_of(key, value, context)
        except (ValueError, ArithmeticError, LookupError, TypeError):
            return
        if not self._source.is_table:
            key = (record.partition, record.offset)
        elif key is None:
            return
        row = self._flatten(key if self._source.is_table else _key_of(self, record), value, context)
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row

    def decode_key(self, data: bytes | None) -> Any:
        return self._keys.decode(data)

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()


def _key_of(view: View, record: Any) -> Any:
    return view.decode_key(record.key)


class Views:
    """The views of this server. A view is dropped with its table."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._client = client
        self._views: dict[tuple[str, str], View] = {}

    async def of(self, source: DataSource) -> View:
        """Returns the view of a source, read up to now."""
        place = (source.name, source.text)
        view = self._views.get(place)
        if view is None:
            view = self._views[place] = View(source, self._client)
        await view.refresh()
        return view

    async def drop(self, name: str) -> None:
        for place in [place for place in self._views if place[0] == name]:
            await self._views.pop(place).close()

    async def close(self) -> None:
        for view in self._views.values():
            await view.close()
        self._views.clear()


def pull(query: Query, context: Context, views: Views) -> Answer:
    """Returns the rows of a pull query."""
    _check_pull(query)
    source = context.find(query.source.name)
    if source is None:
        raise Invalid(context.missing(query.source.name), query.source.place)
    scope = scope_of(source, query.source.alias)
    where: Callable[[Any], Any] = lambda row: True  # noqa: E731 - a condition that always holds
    if query.where is not None:
        refuse_calls(query.where, "WHERE")
        where = context.evaluate(condition(query.where, scope, "WHERE"), query.where.sql())
    selected = expand(query, scope, is_transient=True)
    for one in selected:
        refuse_calls(one.expression, "a pull query")
    compiled = [compile_expression(one.expression, scope) for one in selected]
    evaluates = [
        context.evaluate(one, item.expression.sql())
        for one, item in zip(compiled, selected, strict=True)
    ]
    columns = tuple(
        Column(item.name, one.kind or STRING) for one, item in zip(compiled, selected, strict=True)
    )

    async def rows() -> AsyncGenerator[ResultRow]:
        given = 0
        view = await views.of(source)
        for row in list(view.rows.values()):
            if query.limit is not None and given >= query.limit:
                return
            if where(row) is True:
                given += 1
                yield ResultRow(tuple([evaluate(row) for evaluate in evaluates]))

    return Answer(columns, rows(), is_push=False)


def _check_pull(query: Query) -> None:
    refused = {
        "a join": query.joins, "GROUP BY": query.group_by, "WINDOW": query.window,
        "PARTITION BY": query.partition_by, "HAVING": query.having,
    }  # fmt: skip
    for name, clause in refused.items():
        if clause:
            raise Refused(
                f"{name} is refused in a pull query: add EMIT CHANGES to follow the result, or"
                " create a table of it", query.place,
            )  # fmt: skip
