"""How a pipeline's queries are watched: fakes of Spark's writers and queries, no Java."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from odradek.spark.pipelines.loading import Pipeline
from odradek.spark.pipelines.running import Runner
from odradek.spark.pipelines.state import PipelineDirectory, PipelineState, QueryState
from odradek.world.clock import SystemClock
from odradek.world.disk import OsDisk

_DESCRIPTION = "\n=== Streaming Query ===\nIdentifier: clicks [id = 1, runId = 2]"


@dataclass
class FakeQuery:
    """A query that has ended."""

    error: PySparkException | None
    isActive: bool = False  # noqa: N815 - Spark's name
    lastProgress: None = None  # noqa: N815

    def exception(self) -> PySparkException | None:
        return self.error


@dataclass
class FakeWriter:
    """Each start is one of `outcomes`: an error of `start()`, an error of the query, or None."""

    outcomes: list[Callable[[], FakeQuery]]
    starts: int = 0

    def queryName(self, _: str) -> "FakeWriter":  # noqa: N802
        return self

    def trigger(self, **_: object) -> "FakeWriter":
        return self

    def start(self) -> FakeQuery:
        self.starts += 1
        return self.outcomes[min(self.starts, len(self.outcomes)) - 1]()


@dataclass
class FakeSession:
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def conf(self) -> "FakeSession":
        return self

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


def ends(message: str | None) -> Callable[[], FakeQuery]:
    error = None if message is None else StreamingQueryException(message + _DESCRIPTION)
    return lambda: FakeQuery(error)


def refuses(message: str) -> Callable[[], FakeQuery]:
    def start() -> FakeQuery:
        raise AnalysisException(message)

    return start


@dataclass
class Ran:
    well: bool
    lines: list[str]
    state: dict[str, Any]


def run(
    tmp_path: Path,
    writers: dict[str, FakeWriter],
    *,
    before: dict[str, QueryState] | None = None,
    max_restarts: int | None = 0,
) -> Ran:
    directory = PipelineDirectory(OsDisk(), str(tmp_path), "clicks")
    lock = directory.claim()
    pipeline = Pipeline("clicks", "/clicks.py", {}, lambda _: cast("Any", writers))
    lines: list[str] = []
    state = PipelineState("clicks", "/clicks.py", 1, 0, queries=before or {})
    runner = Runner(
        pipeline,
        directory,
        state,
        clock=SystemClock(),
        say=lines.append,
        max_restarts=max_restarts,
    )
    well = runner.run(cast("Any", FakeSession()))
    lock.release()
    return Ran(well, lines, json.loads((tmp_path / "clicks" / "state.json").read_text()))


_MISSING = "Failed: odradek.spark.options.BadOption: topic miss does not exist\n SQLSTATE: 38000"


@pytest.mark.parametrize("fails", [ends, refuses])
def test_why_a_query_failed_is_said_and_kept(
    tmp_path: Path, fails: Callable[[str], Callable[[], FakeQuery]]
) -> None:
    ran = run(tmp_path, {"clicks": FakeWriter([fails(_MISSING)])}, max_restarts=None)
    assert not ran.well
    assert ran.lines == ["clicks  failed for good: topic miss does not exist"]
    assert (ran.state["status"], ran.state["error"]) == ("failed", "topic miss does not exist")


def test_of_several_queries_the_one_that_failed_is_named(tmp_path: Path) -> None:
    writers = {"a": FakeWriter([ends(None)]), "b": FakeWriter([ends(_MISSING)])}
    assert run(tmp_path, writers).state["error"] == "b: topic miss does not exist"


_REFUSED = "odradek.client.errors.NoBrokerAvailable: cannot connect to x:1: connection refused"


def test_what_may_pass_is_tried_again_as_often_as_allowed(tmp_path: Path) -> None:
    writer = FakeWriter([ends(_REFUSED), ends(None)])
    ran = run(tmp_path, {"clicks": writer}, max_restarts=1)
    assert (ran.well, writer.starts) == (True, 2)
    said = "cannot connect to x:1: connection refused"
    assert ran.lines == [f"clicks  failed: {said}; starting again in 1 s"]
    assert ran.state["error"] == said
    writer = FakeWriter([ends(_REFUSED)])
    ran = run(tmp_path, {"clicks": writer}, max_restarts=0)
    assert (ran.well, writer.starts) == (False, 1)
    assert ran.lines == [f"clicks  failed for good: {said}"]


def test_a_checkpoint_that_is_gone_is_said(tmp_path: Path) -> None:
    before = {"clicks": QueryState(batch_id=7, has_checkpoint=True)}
    (line,) = run(tmp_path, {"clicks": FakeWriter([ends(None)])}, before=before).lines
    assert line.startswith("clicks  warning: it has run up to batch 7, but its checkpoint in ")
    checkpoint = tmp_path / "clicks" / "checkpoint" / "clicks"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text("{}")
    assert run(tmp_path, {"clicks": FakeWriter([ends(None)])}, before=before).lines == []
    # A query that names its own checkpoint has none here.
    before = {"mine": QueryState(batch_id=7)}
    assert run(tmp_path, {"mine": FakeWriter([ends(None)])}, before=before).lines == []
