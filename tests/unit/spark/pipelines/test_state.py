"""State files, back-off, lines and figures: what a pipeline shows without Spark."""

from pathlib import Path

import pytest

from odradek.spark.halt import HALT_FILE, is_halting
from odradek.spark.pipelines.backoff import Backoff
from odradek.spark.pipelines.progress_lines import BatchDone, batch_done, line, prometheus
from odradek.spark.pipelines.state import (
    DIED,
    RUNNING,
    STOPPED,
    AlreadyRunning,
    PipelineDirectory,
    PipelineState,
    QueryState,
    pipelines_in,
)
from odradek.world.disk import OsDisk


def place_in(tmp_path: Path, name: str = "clicks") -> PipelineDirectory:
    return PipelineDirectory(OsDisk(), str(tmp_path), name)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = place_in(tmp_path)
    lock = directory.claim()
    state = PipelineState("clicks", "/f.toml", 17, 1000, RUNNING)
    state.queries["clicks"] = QueryState(batch_id=3, records=12, lag=4)
    directory.write(state)
    assert directory.read() == state
    assert directory.is_running()
    lock.release()


def test_whose_lock_is_free_has_died_unless_it_said_how_it_ended(tmp_path: Path) -> None:
    directory = place_in(tmp_path)
    directory.claim().release()
    directory.write(PipelineState("clicks", "/f.toml", 17, 1000, RUNNING))
    read = directory.read()
    assert read is not None
    assert read.status == DIED
    directory.write(PipelineState("clicks", "/f.toml", 17, 1000, STOPPED))
    read = directory.read()
    assert read is not None
    assert read.status == STOPPED


def test_a_pipeline_runs_once(tmp_path: Path) -> None:
    directory = place_in(tmp_path)
    lock = directory.claim()
    directory.write(PipelineState("clicks", "/f.toml", 17, 1000))
    with pytest.raises(AlreadyRunning, match="process 17"):
        place_in(tmp_path).claim()
    lock.release()
    place_in(tmp_path).claim().release()


def test_only_pipelines_are_listed(tmp_path: Path) -> None:
    assert pipelines_in(OsDisk(), str(tmp_path / "nowhere")) == []
    (tmp_path / "something-else").mkdir()
    directory = place_in(tmp_path)
    directory.claim().release()
    directory.write(PipelineState("clicks", "/f.toml", 17, 1000))
    assert [one.name for one in pipelines_in(OsDisk(), str(tmp_path))] == ["clicks"]


def test_sources_halt_while_the_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = place_in(tmp_path)
    lock = directory.claim()
    assert not is_halting()
    monkeypatch.setenv(HALT_FILE, directory.halt_path)
    assert not is_halting()
    directory.ask_to_halt()
    assert is_halting()
    lock.release()
    directory.claim().release()
    assert not is_halting(), "a new run takes back what the last one was asked"


def test_delays_double_within_bounds_and_begin_anew() -> None:
    backoff = Backoff(first_s=1, max_s=5)
    assert [backoff.next_delay_s() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.succeeded()
    assert backoff.next_delay_s() == 1
    backoff.failures = 100_000
    assert backoff.next_delay_s() == 5


def test_so_many_failures_in_a_row_and_no_more() -> None:
    backoff = Backoff(max_failures=2)
    assert [backoff.next_delay_s() for _ in range(3)] == [1, 2, None]


PROGRESS = {
    "batchId": 7,
    "numInputRows": 1200,
    "durationMs": {"triggerExecution": 400, "addBatch": 300},
    "sources": [
        {
            "endOffset": {"t": {"0": 10}},
            "latestOffset": {"t": {"0": 15}},
        }
    ],
}


def test_a_batch_in_a_line() -> None:
    done = batch_done(PROGRESS)
    assert done == BatchDone(7, 1200, 0.4, 5)
    assert line("clicks", done) == "clicks  batch 7  1,200 records in 0.40 s (3,000/s), 5 wait"


def test_figures_for_prometheus() -> None:
    text = prometheus("p", {"q": {"records_total": 1200.0, "lag_records": 5.0}})
    assert 'odradek_pipeline_records_total{pipeline="p",query="q"} 1200\n' in text
    assert "# TYPE odradek_pipeline_lag_records gauge\n" in text
