"""`odradek pipeline list|status|stop` on the files that a pipeline leaves; no Spark."""

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.cli.parser import parser_of
from odradek.cli.spark import pipeline
from odradek.cli.spark.pipeline_running import max_restarts
from odradek.spark.pipelines.state import (
    FAILED,
    FINISHED,
    RUNNING,
    PipelineDirectory,
    PipelineState,
    QueryState,
)
from odradek.world.disk import OsDisk

# A pipeline as others see it: it holds the lock, and ends at a signal.
_PIPELINE = """
import os, signal, sys
from odradek.spark.pipelines.state import PipelineState, PipelineDirectory
from odradek.world.disk import OsDisk
directory = PipelineDirectory(OsDisk(), sys.argv[1], "clicks")
lock = directory.claim()
state = PipelineState("clicks", "/clicks.toml", os.getpid(), 0, "running")
directory.write(state)
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
state.status = "stopped"
directory.write(state)
"""


def leave(tmp_path: Path, name: str, status: str, error: str | None = None) -> None:
    directory = PipelineDirectory(OsDisk(), str(tmp_path), name)
    directory.claim().release()
    state = PipelineState(name, f"/{name}.toml", 17, 1000, status, error)
    state.queries[name] = QueryState(batch_id=3, records=1200, lag=5, restarts=2)
    directory.write(state)


def test_nothing_has_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list", "--data", str(tmp_path)]) == 0
    assert "No pipeline has run" in capsys.readouterr().out


def test_all_are_listed_with_what_became_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, "clicks", FINISHED)
    leave(tmp_path, "taxis", RUNNING)
    assert main(["pipeline", "list", "--data", str(tmp_path)]) == 0
    _, clicks, taxis = capsys.readouterr().out.splitlines()
    assert clicks.split()[:3] == ["clicks", "finished", "1,200"]
    assert taxis.split()[:2] == ["taxis", "died"]


@pytest.mark.parametrize(("status", "code"), [(FINISHED, 0), (FAILED, 1), (RUNNING, 1)])
def test_status_ends_with_a_code(
    status: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave(tmp_path, "clicks", status, "the disk is full")
    assert main(["pipeline", "status", "clicks", "--data", str(tmp_path)]) == code
    assert "last failure: the disk is full" in capsys.readouterr().out


def test_a_name_that_is_nearly_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave(tmp_path, "clicks", FINISHED)
    assert main(["pipeline", "status", "click", "--data", str(tmp_path)]) == 1
    assert "did you mean clicks?" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["run", "status", "stop"])
def test_what_an_action_is_about_must_be_said(
    action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", action]) == 2
    assert f"{action} needs" in capsys.readouterr().err


def test_stop_waits_for_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", _PIPELINE, str(tmp_path)]
    # Blocked from the beginning, so that the signal is waited for and not fatal.
    program = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
    command[2] = program + _PIPELINE
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert main(["pipeline", "status", "clicks", "--data", str(tmp_path), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["running"], shown["pid"]) == (True, process.pid)
        assert main(["pipeline", "stop", "clicks", "--data", str(tmp_path)]) == 0
        assert process.wait(10) == 0
    assert main(["pipeline", "stop", "clicks", "--data", str(tmp_path)]) == 1
    assert "does not run: it has stopped" in capsys.readouterr().err


def test_a_recipe_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "bread"]) == 2
    assert "clicks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "restarts"),
    [((), None), (("--once",), 0), (("--once", "--max-restarts", "3"), 3)],
)
def test_a_run_that_ends_by_itself_does_not_start_failed_queries_again(
    flags: tuple[str, ...], restarts: int | None
) -> None:
    parser = parser_of("pipeline", pipeline)
    assert max_restarts(parser.parse_args(["run", "x.toml", *flags])) == restarts


def test_a_signal_while_spark_starts_leaves_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """py4j logs a traceback, and makes an error of its own of the interruption."""

    def start(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            logging.getLogger().exception("Exception while sending command.")
            raise RuntimeError("py4j.reflection does not exist in the JVM") from None

    monkeypatch.setattr("odradek.spark.spark_session.session", start)
    monkeypatch.setattr("odradek.cli.spark.pipeline_running.require_spark", lambda: None)
    file = tmp_path / "p.py"
    file.write_text("def pipeline(spark):\n    return spark\n")
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["pipeline", "run", str(file), "--data", str(tmp_path / "data")]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    shown = capsys.readouterr()
    assert shown.out.endswith("p  stopped before it had begun\n")
    assert shown.err == ""
