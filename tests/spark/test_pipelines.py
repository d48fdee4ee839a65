"""Pipelines as users run them, and streams in update mode."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from odradek import spark as odradek_spark
from odradek.spark.pipelines.building import build
from odradek.spark.pipelines.spec import BadPipeline, read_spec
from tests.spark.topics import fill, records_in
from tests.unit.spark.pipelines import test_column_types, test_durations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.testing import Cluster

pytestmark = pytest.mark.xdist_group("spark")

_FILE = """
bootstrap = "{servers}"

[spark]
spark.sql.shuffle.partitions = 1

[source]
topic = "{source}"
starting = "earliest"
value = "json"
schema = "page string"

[[transform]]
sql = "select page, count(*) as clicks from source group by page"

[sink]
topic = "{sink}"
key = "page"
mode = "update"
"""


def click(brokers: "Cluster", topic: str, count: int) -> None:
    fill(brokers, topic, [b'{"page": "/%d"}' % (index % 2) for index in range(count)])


def counts(brokers: "Cluster", topic: str) -> dict[str, int]:
    """The newest count of each page, as a read_committed reader sees it."""
    return {
        record.key.decode(): json.loads(record.value)["clicks"]
        for record in records_in(brokers, topic, 1)
        if record.key and record.value
    }


# Spark needs more than ten seconds of CPU time to start, which are minutes on a busy machine. A
# command that takes this long hangs.
_HANGS_S = 240


def odradek(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "odradek.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_HANGS_S)


def lag_of_pages(brokers: "Cluster", data: str) -> tuple[str, int, str]:
    """Returns what `odradek lag` says of the query: status, lag, and who owns its partition."""
    words = ["lag", "--bootstrap-server", brokers.bootstrap, "--pipelines", data, "--json"]
    deadline_s = time.monotonic() + _HANGS_S
    # Spark notes that a batch is done after the sink has written it.
    while True:
        shown = odradek(*words, "--group", "spark:pages.pages", "--measure", "0s")
        if shown.returncode == 0 or time.monotonic() > deadline_s:
            break
    assert shown.returncode == 0, shown.stderr
    status = json.loads(shown.stdout)
    assert status["kind"] == "query"
    return status["status"], status["totallag"], status["partitions"][0]["owner"]


@pytest.mark.timeout(3 * _HANGS_S)
def test_a_declared_pipeline_runs_is_watched_stopped_and_goes_on(
    brokers: "Cluster", tmp_path: Path
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    click(brokers, source, 100)
    file = tmp_path / "pages.toml"
    file.write_text(_FILE.format(servers=brokers.bootstrap, source=source, sink=sink))
    data = str(tmp_path / "pipelines")
    words = [sys.executable, "-m", "odradek.cli", "pipeline", "run", str(file), "--data", data]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen([*words, "--master", "local[1]"], stdout=said, stderr=said)
    try:
        deadline_s = time.monotonic() + _HANGS_S
        while counts(brokers, sink) != {"/0": 50, "/1": 50}:
            assert running.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < deadline_s, (tmp_path / "said").read_text()
            time.sleep(0.5)
        status = odradek("pipeline", "status", "pages", "--data", data, "--json")
        assert status.returncode == 0, status.stderr
        shown = json.loads(status.stdout)
        assert (shown["status"], shown["pid"]) == ("running", running.pid)
        assert lag_of_pages(brokers, data) == ("OK", 0, f"process {running.pid}")
        again = odradek("pipeline", "run", str(file), "--data", data)
        assert again.returncode == 1
        assert "running already" in again.stderr
        stopped = odradek("pipeline", "stop", "pages", "--data", data)
        assert stopped.returncode == 0, stopped.stderr
        assert running.wait(_HANGS_S) == 0
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGKILL)
            running.wait()
    lines = [line.partition("  ")[2] for line in (tmp_path / "said").read_text().splitlines()]
    assert lines[0].startswith("pages  starting; checkpoint in ")
    assert lines[-2:] == ["stopping: the batch that runs is finished first", "pages  stopped"]
    assert all(line.startswith("pages  batch ") for line in lines[1:-2]), "Java and Spark are quiet"
    listed = json.loads(odradek("pipeline", "list", "--data", data, "--json").stdout)
    assert [(one["name"], one["status"]) for one in listed] == [("pages", "stopped")]
    metrics = Path(data, "pages", "metrics.prom").read_text()
    assert 'odradek_pipeline_records_total{pipeline="pages",query="pages"} 100\n' in metrics

    click(brokers, source, 60)
    assert lag_of_pages(brokers, data)[1:] == (60, ""), "its checkpoint says where it is"
    once = odradek("pipeline", "run", str(file), "--data", data, "--once", "--master", "local[1]")
    assert once.returncode == 0, once.stdout + once.stderr
    assert counts(brokers, sink) == {"/0": 80, "/1": 80}, "its state went on where it was"


_PROGRAM = """
def pipeline(spark):
    clicks = spark.readStream.format("odradek").options(
        **{{"kafka.bootstrap.servers": "{servers}", "subscribe": "{source}"}}
    )
    return clicks.load().writeStream.format("odradek").options(
        **{{"kafka.bootstrap.servers": "{servers}", "topic": "{sink}"}}
    )
"""


def test_a_failed_query_says_why_everywhere(brokers: "Cluster", tmp_path: Path) -> None:
    sink = brokers.create_topic()
    file = tmp_path / "copies.py"
    file.write_text(_PROGRAM.format(servers=brokers.bootstrap, source=f"{sink}s", sink=sink))
    data = str(tmp_path / "pipelines")
    why = f"topic {sink}s does not exist; did you mean {sink}?"
    ran = odradek("pipeline", "run", str(file), "--data", data, "--master", "local[1]")
    assert (ran.returncode, ran.stderr) == (1, "")
    lines = [line.partition("  ")[2] for line in ran.stdout.splitlines()]
    assert lines[1:] == [f"copies  failed for good: {why}", "copies  failed"]
    status = odradek("pipeline", "status", "copies", "--data", data)
    assert status.stdout.splitlines()[:2] == ["copies: failed", f"last failure: {why}"]
    state = json.loads(Path(data, "copies", "state.json").read_text())
    assert (state["status"], state["error"]) == ("failed", why)


# The first sample of docs/spark.md, as a user would type it.
_SAMPLE = """
from odradek import spark

session = spark.session("my-app", master="local[1]")
servers = {{"kafka.bootstrap.servers": "{servers}"}}
clicks = session.readStream.format("odradek").options(**servers, subscribe="{source}")
query = (
    clicks.option("startingOffsets", "earliest").load().select("value")
    .writeStream.format("odradek").options(**servers, topic="{sink}")
    .option("checkpointLocation", "{checkpoint}").start()
)
query.awaitTermination()
"""


def test_a_program_that_is_interrupted_leaves_one_line(brokers: "Cluster", tmp_path: Path) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    fill(brokers, source, [b"v"])
    program = tmp_path / "app.py"
    program.write_text(
        _SAMPLE.format(
            servers=brokers.bootstrap, source=source, sink=sink, checkpoint=tmp_path / "checkpoint"
        )
    )
    with (tmp_path / "said").open("w") as said:
        # A session of its own, so that the signal reaches all its processes, as from a terminal.
        running = subprocess.Popen(
            [sys.executable, str(program)], stdout=said, stderr=said, start_new_session=True
        )
    try:
        deadline_s = time.monotonic() + _HANGS_S
        while not records_in(brokers, sink, 1):
            assert running.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < deadline_s, (tmp_path / "said").read_text()
            time.sleep(0.5)
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(_HANGS_S) == -signal.SIGINT
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    assert (tmp_path / "said").read_text() == "interrupted\n"


_EVENTS = """
bootstrap = "{servers}"

[source]
topic = "{source}"
starting = "earliest"
value = "json"
schema = "user string, timestamp string, topic string, partition int, headers string, key string"

[[transform]]
sql = "select user, timestamp, topic, partition, headers, key from source"

[sink]
topic = "{sink}"
trigger = "available-now"
"""


def test_schemas_and_durations_are_checked_as_spark_does(spark: "SparkSession") -> None:
    rows = spark.readStream.format("rate").load().select(f.col("value").cast("string"), "timestamp")

    def decoded(schema: str) -> object:
        # It must be a struct, whose fields become columns.
        return rows.select(f.from_json("value", schema).alias("v")).select("v.*").columns

    def refused(call: "Callable[[str], object]", text: str) -> bool:
        try:
            call(text)
        except PySparkException:
            return True
        return False

    def trigger(text: str) -> object:
        return rows.writeStream.trigger(processingTime=text)

    def watermark(text: str) -> object:
        return rows.withWatermark("timestamp", text).schema

    assert [text for text in test_column_types.GOOD if refused(decoded, text)] == []
    assert [text for text, _ in test_column_types.BAD if not refused(decoded, text)] == []
    for call in (trigger, watermark):
        assert [text for text in test_durations.GOOD if refused(call, text)] == []
        assert [text for text, _ in test_durations.BAD if not refused(call, text)] == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from sorce", r"the SQL of twice: there is no view sorce; did you mean source\?"),
        ("select * from x.y", "the SQL of twice: "),
        ("selct 1", "the SQL of twice: Syntax error at or near 'selct'"),
        ("select nope from source", "the SQL of twice: A column, .* `nope` cannot be resolved"),
    ],
)
def test_sql_that_spark_refuses_is_told_with_its_step(
    spark: "SparkSession", sql: str, said: str
) -> None:
    text = '[source]\nformat = "rate"\n[sink]\nformat = "console"\n'
    step = f'[[transform]]\nname = "twice"\nsql = "{sql}"\n'
    with pytest.raises(BadPipeline, match=said):
        build(spark, read_spec(f"{text}{step}", "file"), "")


def test_fields_that_are_named_like_columns_of_records_are_kept(
    spark: "SparkSession", brokers: "Cluster", tmp_path: Path
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    event = {"user": "u", "timestamp": "now", "topic": "a", "partition": 7, "headers": "h"}
    event["key"] = "k"
    fill(brokers, source, [json.dumps(event).encode()])
    text = _EVENTS.format(servers=brokers.bootstrap, source=source, sink=sink)
    writer = build(spark, read_spec(text, "events"), str(tmp_path))
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    (record,) = records_in(brokers, sink, 1)
    assert json.loads(record.value) == event
    assert record.key == b"k"


def test_an_update_stream_that_is_replayed_writes_nothing_twice(
    spark: "SparkSession",
    brokers: "Cluster",
    read: "Callable[..., DataFrame]",
    tmp_path: Path,
) -> None:
    source, sink = brokers.create_topic(), brokers.create_topic()
    servers = {"kafka.bootstrap.servers": brokers.bootstrap}

    def run() -> None:
        stream = (
            spark.readStream.format("odradek")
            .options(**servers, subscribe=source, startingOffsets="earliest")
            .load()
        )
        pages = stream.select(f.get_json_object(f.col("value").cast("string"), "$.page").alias("p"))
        out = pages.groupBy("p").count().selectExpr("p as key", "cast(count as string) as value")
        query = (
            out.writeStream.outputMode("update")
            .foreachBatch(odradek_spark.into_topic(topic=sink, **servers))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    click(brokers, source, 100)
    run()
    first = read(sink).count()
    assert first == 2
    # As if the driver had died after its tasks and before its commit log.
    commits = tmp_path / "checkpoint" / "commits"
    for name in os.listdir(commits):
        if name.strip(".").removesuffix(".crc").isdigit():
            (commits / name).unlink()
    run()
    assert read(sink, **{"kafka.isolation.level": "read_committed"}).count() == first


def test_exactly_once_outside_a_stream_is_refused(
    spark: "SparkSession", brokers: "Cluster"
) -> None:
    topic = brokers.create_topic()
    rows = spark.createDataFrame([("v",)], "value string")
    write = odradek_spark.into_topic(topic=topic, **{"kafka.bootstrap.servers": brokers.bootstrap})
    with pytest.raises(Exception, match="exactly-once works only in streaming queries"):
        write(rows, 0)
