"""Where Spark queries are, from checkpoints as Spark writes them, and how they are judged."""

import json
import os
from pathlib import Path

import pytest

from odradek.ops.lag.evaluation import QUERY, Status
from odradek.ops.lag.history import REPEAT_MS, LagHistory, Past, Sample
from odradek.ops.lag.queries import NotReadable, Queries, Query, positions_of
from odradek.ops.lag.report import group_lines, status_json
from odradek.protocol.types import TopicPartition
from odradek.spark.pipelines.state import PipelineDirectory, PipelineState, QueryState
from odradek.world.disk import OsDisk

ORDERS = TopicPartition("orders", 0)
DISK = OsDisk()


def batch(checkpoint: Path, number: int, offset: int, at_s: float, *, is_done: bool = True) -> None:
    """Writes a batch of a query that reads two sources, one of which is no Kafka."""
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"x"}')
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": round(at_s * 1000), "conf": {}})
    source = json.dumps({"orders": {"0": offset}, "#ids": {"orders": "00"}})
    (checkpoint / "offsets" / str(number)).write_text(
        f'v1\n{head}\n{source}\n{{"logOffset":{number}}}'
    )
    (checkpoint / "offsets" / f".{number}.crc").write_bytes(b"x")
    if is_done:
        done = checkpoint / "commits" / str(number)
        done.write_text('v1\n{"nextBatchWatermarkMs":0}')
        os.utime(done, (at_s + 0.5, at_s + 0.5))


def test_the_newest_batch_that_is_done_counts(tmp_path: Path) -> None:
    for number in range(15):
        batch(tmp_path, number, 100 * number, 10 * number)
    batch(tmp_path, 15, 1500, 150, is_done=False)
    position = positions_of(DISK, Query("spark:q", str(tmp_path)))[ORDERS]
    assert (position.offset, position.owner, position.repeat_ms) == (1400, "", REPEAT_MS)
    assert position.past == tuple(Past(100 * number, 10_000 * number) for number in range(5, 15))


def test_a_query_whose_batches_take_long_is_not_stuck_meanwhile(tmp_path: Path) -> None:
    batch(tmp_path, 0, 100, 0)
    os.utime(tmp_path / "commits" / "0", (60, 60))
    position = positions_of(DISK, Query("spark:q", str(tmp_path), owner="process 1"))[ORDERS]
    assert position.repeat_ms == 120_000
    told = Query("spark:q", str(tmp_path), owner="process 1", batch_duration_ms=5000)
    assert positions_of(DISK, told)[ORDERS].repeat_ms == 10_000


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match="is not the checkpoint of a query"):
        positions_of(DISK, Query("spark:q", str(tmp_path)))
    (tmp_path / "metadata").write_text("{}")
    assert positions_of(DISK, Query("spark:q", str(tmp_path))) == {}
    batch(tmp_path, 0, 100, 0)
    (tmp_path / "offsets" / "0").write_text("v9\n{}\n")
    with pytest.raises(NotReadable, match="has version v9"):
        positions_of(DISK, Query("spark:q", str(tmp_path)))
    (tmp_path / "offsets" / "0").write_text("v1\nnothing")
    found, unreadable = Queries(DISK, None, {"q": str(tmp_path)}).positions()
    assert found == {}
    assert "is not a batch of Spark" in unreadable["spark:q"]


def test_a_topic_that_is_read_twice_is_where_the_slower_source_is(tmp_path: Path) -> None:
    batch(tmp_path, 0, 100, 0)
    file = tmp_path / "offsets" / "0"
    file.write_text(f'{file.read_text()}\n{{"orders":{{"0":40,"1":7}}}}')
    positions = positions_of(DISK, Query("spark:q", str(tmp_path)))
    assert {one.partition: position.offset for one, position in positions.items()} == {0: 40, 1: 7}


def test_the_queries_of_pipelines(tmp_path: Path) -> None:
    directory = PipelineDirectory(DISK, str(tmp_path), "clicks")
    state = PipelineState("clicks", "clicks.toml", 4711, 0, "running")
    state.queries = {"totals": QueryState(batch_duration_s=4.0), "elsewhere": QueryState()}
    with_lock = directory.claim()
    directory.write(state)
    batch(Path(directory.checkpoint) / "totals", 0, 100, 0)
    found, unreadable = Queries(DISK, str(tmp_path)).positions()
    assert unreadable == {}
    position = found["spark:clicks.totals"][ORDERS]
    assert (position.owner, position.client_id, position.repeat_ms) == (
        "process 4711",
        "spark",
        8000,
    )
    with_lock.release()
    found, _ = Queries(DISK, str(tmp_path)).positions()
    assert found["spark:clicks.totals"][ORDERS].owner == ""
    assert list(found) == ["spark:clicks.totals"]


def judged(checkpoint: Path, end: int, now_s: float, *, owner: str = "") -> Status:
    """Returns the status at the first look, from what Spark has kept."""
    history = LagHistory()
    query = Query("spark:q", str(checkpoint), owner)
    history.add(
        Sample(
            round(now_s * 1000),
            {"spark:q": positions_of(DISK, query)},
            {ORDERS: end},
            queries=frozenset({"spark:q"}),
        )
    )
    status = history.evaluate("spark:q", round(now_s * 1000))
    assert status.kind == QUERY
    (partition,) = status.partitions
    return partition.status


def test_statuses_at_the_first_look(tmp_path: Path) -> None:
    for number in range(5):
        batch(tmp_path, number, 100 * number, 10 * number)
    assert judged(tmp_path, 400, 45) is Status.OK
    assert judged(tmp_path, 900, 45) is Status.OK  # It moves, and how its lag moves is not known.
    assert judged(tmp_path, 900, 500) is Status.STOP
    assert judged(tmp_path, 900, 500, owner="process 1") is Status.OK


def test_a_query_that_falls_behind_is_warned_of(tmp_path: Path) -> None:
    history = LagHistory()
    for number in range(4):
        batch(tmp_path, number, 100 * number, 10 * number)
        positions = positions_of(DISK, Query("spark:q", str(tmp_path), "process 1"))
        ends = {ORDERS: 1000 * (number + 1)}
        history.add(
            Sample(10_000 * number, {"spark:q": positions}, ends, queries=frozenset({"spark:q"}))
        )
    status = history.evaluate("spark:q", 31_000)
    assert (status.status, status.total_lag) == (Status.WARN, 3700)
    assert status_json("", status, all_partitions=False)["kind"] == "query"
    header, row = group_lines([status], 80, judged=True)
    assert header.split()[-1] == "KIND"
    assert row.split()[0] == "spark:q"
    assert row.split()[-1] == "query"


def test_a_query_that_cannot_be_read_once_keeps_its_kind() -> None:
    history = LagHistory()
    history.add(Sample(0, {"spark:q": {}}, {}, queries=frozenset({"spark:q"})))
    history.add(Sample(1, {}, {}, {"spark:q": "the disk failed"}))
    assert history.evaluate("spark:q", 1).kind == QUERY
