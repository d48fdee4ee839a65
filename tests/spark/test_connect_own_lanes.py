"""The parts of a connector's own lane, called as Spark calls them. `python -m
tests.scenarios.connect_kills --lane own` runs them in a real Spark, whose processes are killed."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odradek.client import Producer
from odradek.client.admin.admin import Admin
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.engine import TaskId, TaskSpec
from odradek.connect.engine.offset_store import OffsetStore
from odradek.connect.errors import ConnectError
from odradek.connect.lanes import own_sink, own_source
from odradek.connect.lanes.handing_over import HandedOver
from odradek.protocol.types import TopicPartition
from odradek.testing import Cluster
from tests.scenarios.connect_bench import STRINGS, Bench

_ROWS = pa.schema(
    [
        ("task", pa.int32()),
        ("range", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


@pytest.fixture(autouse=True)
def _closed_writers() -> Iterator[None]:
    yield
    own_source.close_writers()
    own_sink.close_writers()


async def _handed_over(cluster: Cluster, **properties: str) -> HandedOver:
    clients = {"bootstrap.servers": cluster.bootstrap}
    offsets = OffsetStore(clients, f"offsets-{uuid.uuid4().hex[:8]}")
    await offsets.prepare(1, 1)
    context = EngineContext(STRINGS, ConnectorClients(clients), offsets, "workers")
    name = f"c{uuid.uuid4().hex[:8]}"
    given = {"name": name, **{key.replace("_", "."): text for key, text in properties.items()}}
    # As Spark's processes get it.
    return HandedOver.of(HandedOver([TaskSpec(TaskId(name, 0), given)], context).to_text())


def _batch(rows: list[Any]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)


async def test_a_range_is_written_once_however_often_spark_tries(
    brokers: Cluster, tmp_path: Path
) -> None:
    lines, topic = tmp_path / "lines", await brokers.create_topic_async()
    lines.write_text("one\ntwo\n")
    given = await _handed_over(
        brokers, connector_class="FileStreamSource", file=str(lines), topic=topic
    )
    with closing(own_source.OwnSourceReader(given.to_text())) as reader:
        batch, end = await _next(reader, reader.initialOffset())
        writer = own_source.OwnSourceWriter(given.to_text())
        written = [await asyncio.to_thread(writer.write, iter([batch])) for _ in range(2)]
        assert [attempt.rows for attempt in written] == [3, 0]
        await asyncio.to_thread(reader.commit, end)
        _append(lines, "three\n")
        late, _ = await _next(reader, end)
    _append(lines, "four\n")
    # Another one goes on meanwhile. What the first has read last is of another time then.
    with closing(own_source.OwnSourceReader(given.to_text())) as reader:
        batch, _ = await _next(reader, reader.initialOffset())
        await asyncio.to_thread(writer.write, iter([batch]))
    with pytest.raises(ConnectError, match="offsets have moved"):
        await asyncio.to_thread(writer.write, iter([late]))
    bench = Bench(brokers.bootstrap)
    assert await bench.values(topic, 4, settle_s=0.3) == ["one", "two", "three", "four"]


async def test_a_source_without_news_gives_no_batch(brokers: Cluster, tmp_path: Path) -> None:
    given = await _handed_over(
        brokers, connector_class="FileStreamSource", file=str(tmp_path / "none"), topic="none"
    )
    with closing(own_source.OwnSourceReader(given.to_text())) as reader:
        rows, end = await asyncio.to_thread(reader.read, reader.initialOffset())
        assert ([*rows], end) == ([], reader.initialOffset())


async def _next(
    reader: own_source.OwnSourceReader, start: own_source.Offset
) -> tuple[pa.RecordBatch, own_source.Offset]:
    rows, end = await asyncio.to_thread(reader.read, start)
    return _batch([*rows]), end


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def test_a_sink_writes_and_then_commits(brokers: Cluster, tmp_path: Path) -> None:
    out, topic = tmp_path / "out", await brokers.create_topic_async()
    given = await _handed_over(
        brokers, connector_class="FileStreamSink", file=str(out), topics=topic
    )
    async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for value in (b"one", b"two"):
            await producer.send(topic, value)
    partition = TopicPartition(topic, 0)
    starts = await asyncio.to_thread(own_sink.starts, given)
    assert starts == {partition: -2}, "without a committed offset it begins at the first record"
    writer = own_sink.OwnSinkWriter(given.to_text())
    rows = pa.RecordBatch.from_pylist(
        [_record(topic, 0, b"one"), _record(topic, 1, b"two")], _RECORDS
    )
    written = await asyncio.to_thread(writer.write, iter([rows]))
    assert out.read_text() == "one\ntwo\n"
    assert await asyncio.to_thread(own_sink.starts, given) == {partition: -2}
    await asyncio.to_thread(writer.commit, [written, None], 0)
    assert await asyncio.to_thread(own_sink.starts, given) == {partition: 2}
    async with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        (group,) = await admin.list_group_offsets(f"connect-{given.tasks[0].id.connector}")
    assert group == partition


async def test_a_sink_without_its_topic_says_so(brokers: Cluster, tmp_path: Path) -> None:
    given = await _handed_over(
        brokers, connector_class="FileStreamSink", file=str(tmp_path / "out"), topics="nowhere"
    )
    with pytest.raises(ConnectError, match="there is no topic nowhere"):
        await asyncio.to_thread(own_sink.starts, given)


_RECORDS = pa.schema(
    [
        *[(name, pa.binary()) for name in ("key", "value")],
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", _ROWS.field("headers").type),
    ]
)


def _record(topic: str, offset: int, value: bytes) -> dict[str, Any]:
    return {
        "key": None,
        "value": value,
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": 0,
        "headers": [{"key": "a", "value": b"b"}],
    }
