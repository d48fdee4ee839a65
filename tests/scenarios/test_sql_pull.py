"""Pull queries on real brokers, from a view and by the look-up of the brokers."""

from uuid import uuid4

import pytest

from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer
from odradek.sql.engine import views as views_module
from odradek.sql.engine.definitions import Defaults, define
from odradek.sql.engine.pulling import pull
from odradek.sql.engine.views import Views
from odradek.sql.language import statements as s
from odradek.sql.language.parser import parse
from odradek.sql.planning.parts import Context
from odradek.testing import Cluster


@pytest.mark.parametrize("is_large", [False, True])
async def test_rows_by_key(
    odradek_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        monkeypatch.setattr(views_module, "_MOST_RECORDS", 0)
    topic = odradek_cluster.create_topic(prefix=f"pull-{uuid4().hex[:6]}", partitions=3)
    created = parse(
        "CREATE TABLE t (k INT PRIMARY KEY, v INT)"
        f" WITH (kafka_topic='{topic}', value_format='JSON')"
    )
    assert isinstance(created, s.CreateSource)
    defaults = Defaults()
    source, _ = define(created, defaults)
    context = Context({"T": source}.get, defaults.make)
    client = {"bootstrap.servers": odradek_cluster.bootstrap}
    views = Views(client, defaults.make)
    async with Producer(client) as producer, Consumer(client) as reader:

        async def put(key: int, value: str | None) -> None:
            data = None if value is None else value.encode()
            await producer.send_and_wait(topic, data, key.to_bytes(4, "big"))

        async def rows(condition: str) -> list[tuple[object, ...]]:
            query = parse(f"SELECT v FROM t WHERE {condition}")
            assert isinstance(query, s.Query)
            answer = await pull(query, context, views, reader)
            found = [row.values async for batch in answer.rows for row in batch]
            await answer.close()
            return found

        for number in range(10):
            await put(number, f'{{"V": {number}}}')
        assert await rows("k = 7") == [(7,)]
        # What was written before the query is seen, a deletion too.
        await put(7, '{"V": 70}')
        await put(3, None)
        assert await rows("k IN (3, 5, 7)") == [(5,), (70,)]
        assert await rows("k = 7 AND v = 7") == []
        assert await rows("k = 99") == []
        assert await views.is_large(source, reader) == is_large
        assert await rows("v > 8") == [(9,), (70,)] or await rows("v > 8") == [(70,), (9,)]
    await views.close()
