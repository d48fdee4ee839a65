"""Pipelines in the console: their files, and a process that holds the lock as a pipeline does."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from odradek.spark.pipelines.state import FAILED, PipelineDirectory, PipelineState
from odradek.testing.cluster import Cluster
from odradek.world.disk import OsDisk
from tests.browser.chromium import Visitor
from tests.browser.console_process import console_started

pytestmark = pytest.mark.xdist_group("browser")

AT_MS = 1_790_000_000_000
# What `odradek pipeline run` does with its files, without the Spark between.
HOLDER = """
import os, signal, sys
from odradek.spark.pipelines.state import (
    RUNNING, STOPPED, PipelineDirectory, PipelineState, QueryState
)
from odradek.world.disk import OsDisk
directory = PipelineDirectory(OsDisk(), sys.argv[1], "clicks")
lock = directory.claim()
state = PipelineState("clicks", "clicks.toml", os.getpid(), 1_790_000_000_000, RUNNING)
state.queries["clicks"] = QueryState(17, 1200, 18, 2, 345, 0.41, 1_790_000_060_000)
directory.write(state)
print("holds", flush=True)
signal.sigwait({signal.SIGTERM})
state.status = STOPPED
directory.write(state)
"""


@pytest.fixture
def visitor(browser: Browser, cluster: Cluster, tmp_path: Path) -> Iterator[Visitor]:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "odradek.pipelines.directory": str(tmp_path / "pipelines"),
    }
    with console_started(tmp_path, settings) as console:
        made = Visitor(browser, f"{console.url}/c/kafka")
        yield made
        made.close()
        assert made.wrong == []


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that looks like a running pipeline. It blocks the signal before it says so."""
    source = (
        f"import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})\n{HOLDER}"
    )
    command = [sys.executable, "-c", source, str(tmp_path / "pipelines")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_pipeline_is_watched_and_stopped(
    visitor: Visitor, holder: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"
    broken = PipelineDirectory(OsDisk(), str(tmp_path / "pipelines"), "broken")
    with_error = PipelineState("broken", "broken.toml", 1, AT_MS, FAILED, "topic x is <gone>")
    (tmp_path / "pipelines" / "broken").mkdir()
    broken.write(with_error)
    (tmp_path / "pipelines" / "no-state").mkdir()
    page = visitor.go("/pipelines")
    expect(page.get_by_role("row").filter(has_text="broken")).to_contain_text("topic x is <gone>")
    expect(page.get_by_role("row").filter(has_text="clicks")).to_contain_text("running")
    assert visitor.axe() == []
    page.get_by_role("link", name="clicks").click()
    row = page.get_by_role("row").filter(has_text="1,200")
    expect(row).to_contain_text("345")
    expect(row).to_contain_text("0.41 s")
    assert visitor.axe() == []
    name = page.get_by_label("Type clicks to stop the pipeline")
    stop = page.get_by_role("button", name="Stop pipeline")
    expect(stop).to_be_disabled()
    name.fill("clicks")
    stop.click()
    expect(page.locator(".message.good")).to_contain_text("was asked to stop")
    assert holder.wait(20) == 0
    expect(page.get_by_role("region", name="The pipeline")).to_contain_text("stopped")
    for path in ("nothing", "no-state", "..%2Fpipelines%2Fclicks"):
        visitor.go(f"/pipelines/{path}", 404)


def test_a_directory_without_pipelines(visitor: Visitor) -> None:
    page = visitor.go("/pipelines")
    expect(page.locator("main")).to_contain_text("No pipeline has run in")
    assert visitor.axe() == []
