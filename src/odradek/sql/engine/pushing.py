"""Push queries (EMIT CHANGES): they run in the reference executor of this process, from the end of
their topics or their beginning, until their LIMIT or until nobody waits any more.

Where the end is, is decided before the answer begins: what is inserted after its first line, is
seen. A query reads a megabyte ahead at most, and goes on when its reader has taken the rows before.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Final

from odradek.client.consumer.consumer import Consumer
from odradek.sql.engine.access import Access
from odradek.sql.engine.answering import Answer, ResultRow
from odradek.sql.language.statements import Query
from odradek.sql.planning.parts import Context
from odradek.sql.planning.queries import compile_query
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Plan
from odradek.streams.plan.records import RecordContext
from odradek.streams.plan.types import Column
from odradek.streams.process.reading import InOrder, TablesFirst, assign_all
from odradek.streams.process.runner import partition_counts
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord
from odradek.world.blocking_calls import without_blocking
from odradek.world.clock import SystemClock

_POLL_MS: Final = 250
_READ_AHEAD: Final[Mapping[str, object]] = {
    "fetch.max.bytes": 1 << 20,
    "max.partition.fetch.bytes": 1 << 20,
}


async def push(query: Query, context: Context, access: Access) -> Answer:
    """Returns the rows of a push query. Raises `SqlError` or what Kafka says."""
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
    plan = Plan((end,))
    counts = await partition_counts(access.admin, plan.source_topics)
    executor = Executor(
        plan, counts, _Nowhere(), on_bad_record=_skip, now_ms=SystemClock().now_ms()
    )
    settings = {
        **access.consumer_properties(),
        **_READ_AHEAD,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    settings.pop("group.id", None)
    consumer = await Consumer(settings).start()
    try:
        first = await assign_all(consumer, plan, counts, has_group=False)
    except BaseException:
        await consumer.close()
        raise
    rows = _rows(consumer, first, executor, collected, query.limit)
    return Answer(columns, rows, is_push=True, release=consumer.close)


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


async def _rows(
    consumer: Consumer,
    first: TablesFirst,
    executor: Executor,
    collected: list[ResultRow],
    limit: int | None,
) -> AsyncGenerator[list[ResultRow]]:
    given, records = 0, InOrder(consumer, executor.plan)
    while limit is None or given < limit:
        polled = await records.poll(_POLL_MS)
        now_ms = SystemClock().now_ms()
        for record in polled:
            executor.context.now_ms = now_ms
            await without_blocking(executor.deliver, record)
            if limit is not None and given + len(collected) >= limit:
                break
        executor.advance(now_ms)
        if records.is_empty:
            await first.look()
        if collected:
            rows = collected[:] if limit is None else collected[: limit - given]
            collected.clear()
            given += len(rows)
            yield rows
