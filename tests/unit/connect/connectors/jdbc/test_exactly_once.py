"""A table that changes, and a source that is killed again and again: each row is read once."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from odradek.connect.connector_settings import SourceSettings
from odradek.connect.engine.record_path import FailedRecords, path_of
from odradek.connect.engine.source_runner import SourceRunner
from odradek.testing import Cluster
from tests.unit.connect.connectors.jdbc.databases import Db, opened
from tests.unit.connect.engine.test_runners import Bench, bench, name, running

_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Iterator[Db]:
    yield from opened(request)


def source(worker: Bench, db: Db, connector: str, prefix: str) -> SourceRunner:
    given = {"name": connector, "connector.class": "x", **_JSON}
    task = db.source(
        mode="timestamp+incrementing",
        incrementing_column_name="id",
        timestamp_column_name="updated",
        topic_prefix=prefix,
        batch_max_rows="40",
    ).task()
    return SourceRunner(
        connector, 0, task,
        path=path_of(given, {}),
        failed=FailedRecords(SourceSettings.read(given), connector),
        offsets=worker.store,
        producer_properties=worker.clients,
        group_id="workers",
        wrote_to=lambda _: None,
    )  # fmt: skip


async def test_each_change_of_a_row_is_read_once(odradek_cluster: Cluster, db: Db) -> None:
    db.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INT, updated TIMESTAMP NOT NULL)")
    connector, prefix = name(), name()
    expected = []
    async with bench(odradek_cluster, f"{prefix}t") as worker:
        for run in range(4):
            rows = ", ".join(f"({number}, {db.ago(60 - run)})" for number in range(100))
            db.run(f"INSERT INTO t (n, updated) VALUES {rows}")
            expected += [(run * 100 + number + 1, number) for number in range(100)]
            if run:
                # The row was read before, so its change is a record more.
                db.run(f"UPDATE t SET n = -{run}, updated = {db.ago(60 - run)} WHERE id = {run}")
                expected.append((run, -run))
            async with running(source(worker, db, connector, prefix)):
                await asyncio.sleep(0.07 * run)  # It is killed somewhere.
            async with running(source(worker, db, connector, prefix)):
                found = await worker.values(f"{prefix}t", len(expected))
    read = [json.loads(value) for value in found]
    assert sorted((row["id"], row["n"]) for row in read) == sorted(expected)
