"""Spark pipelines of `odradek pipeline run` on this machine (`odradek.pipelines.directory`).

A pipeline writes its state to files and has a lock while it runs, so the console needs no Spark and
no connection to it. Stopping sends the signal that `odradek pipeline stop` sends.
"""

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.rights import require_on_cluster
from odradek.protocol.acls import Operation
from odradek.spark.pipelines.state import (
    DIED,
    FAILED,
    FINISHED,
    RUNNING,
    PipelineDirectory,
    PipelineState,
    pipelines_in,
)
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem
from odradek.world.disk import OsDisk


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline as pages show it."""

    state: PipelineState
    is_running: bool

    @property
    def kind(self) -> str:
        return {RUNNING: "good", FINISHED: "good", FAILED: "bad", DIED: "bad"}.get(
            self.state.status, "plain" if not self.is_running else "warn"
        )

    @property
    def records(self) -> int:
        return sum(query.records for query in self.state.queries.values())

    @property
    def waiting(self) -> int:
        return sum(query.lag for query in self.state.queries.values())

    @property
    def restarts(self) -> int:
        return sum(query.restarts for query in self.state.queries.values())


class PipelinePages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/pipelines", self._list, "All pipelines."),
            self.shows("/pipelines/{pipeline}", self._pipeline, "A pipeline and its queries."),
            self.changes("/pipelines/{pipeline}/stop", self._stop, "Stops a pipeline."),
        ]

    async def _list(self, asked: PageRequest) -> Response:
        rows: list[PipelineRow] | None = None
        directory = asked.cluster.settings.odradek_pipelines_directory
        if directory:
            await require_on_cluster(asked, Operation.DESCRIBE, "may not see the pipelines")
            rows = await asyncio.to_thread(_rows, directory)
        return asked.page("pipelines.html", "pipelines", rows=rows, directory=directory)

    async def _pipeline(self, asked: PageRequest, problem: str = "") -> Response:
        await require_on_cluster(asked, Operation.DESCRIBE, "may not see the pipelines")
        found = _directory(asked)
        row = await asyncio.to_thread(_row, found)
        if row is None:
            raise _missing(asked)
        return asked.page(
            "pipeline.html", "pipelines", 400 if problem else 200, row=row, problem=problem,
            checkpoint=found.checkpoint,
        )  # fmt: skip

    async def _stop(self, asked: PageRequest) -> Response:
        await require_on_cluster(asked, Operation.ALTER, "may not stop pipelines")
        found = _directory(asked)
        name = found.name
        if asked.form.text("confirm") != name:
            return await self._pipeline(
                asked, f"Nothing was done: type {name} into the field to confirm it"
            )
        try:
            await asyncio.to_thread(_send_stop, asked, found)
        except BadForm as error:
            return await self._pipeline(asked, str(error))
        return asked.go(
            asked.url("pipelines", name), "good",
            f"{name} was asked to stop: it finishes the batch that runs first.",
        )  # fmt: skip


def _directory(asked: PageRequest) -> PipelineDirectory:
    """Returns the files of the pipeline of a path. A name with a slash would lead elsewhere."""
    directory = asked.cluster.settings.odradek_pipelines_directory
    name = str(asked.path["pipeline"])
    if not directory:
        raise Problem(404, "no pipelines are configured: set odradek.pipelines.directory")
    if "/" in name or "\\" in name or "\0" in name or name in ("", ".", ".."):
        raise _missing(asked)
    return PipelineDirectory(OsDisk(), directory, name)


def _missing(asked: PageRequest) -> Problem:
    directory = asked.cluster.settings.odradek_pipelines_directory
    return Problem(404, f"no pipeline {asked.path['pipeline']} has run in {directory}")


def _rows(directory: str) -> list[PipelineRow]:
    rows = (_row(one) for one in pipelines_in(OsDisk(), directory))
    return [row for row in rows if row is not None]


def _row(directory: PipelineDirectory) -> PipelineRow | None:
    state = directory.read()
    return None if state is None else PipelineRow(state, directory.is_running())


def _send_stop(asked: Any, directory: PipelineDirectory) -> None:
    state = directory.read()
    if state is None:
        raise _missing(asked)
    if not directory.is_running():
        raise BadForm(f"{state.name} does not run: it has {state.status}")
    try:
        # The lock is held, so the process that took it and wrote this pid is running.
        os.kill(state.pid, signal.SIGTERM)
    except PermissionError:
        raise BadForm(
            f"The console may not send a signal to process {state.pid}, which is of another user;"
            f" that user stops it with odradek pipeline stop {state.name}"
        ) from None
    except ProcessLookupError:
        raise BadForm(f"{state.name} has just ended") from None
