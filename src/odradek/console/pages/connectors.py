"""Connectors of a Kafka Connect worker: state, tasks, offsets, log, and what can be done."""

import json
from typing import Any, Final

from starlette.responses import Response

from odradek.console.asking import BadForm, PageRequest, Pages
from odradek.console.connect_worker import (
    CONNECT,
    WorkerRefused,
    ask_worker,
    connector_path,
    require_right,
    see,
    see_if_offered,
)
from odradek.console.pages.connector_form import ConnectorFormPages
from odradek.web.endpoints import Endpoint

_ACTIONS: Final = {
    "pause": ("PUT", "pause"),
    "resume": ("PUT", "resume"),
    "stop": ("PUT", "stop"),
    "restart": ("POST", "restart?includeTasks=true&onlyFailed=false"),
}
_SHOWN_LINES: Final = 300


class ConnectorPages(Pages):
    shown_service = CONNECT

    def endpoints(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            self.shows("/connectors", self._list, "All connectors."),
            self.shows(one, self._connector, "A connector and its tasks."),
            self.shows(f"{one}/offsets", self._offsets, "How far it has come."),
            self.changes(f"{one}/offsets", self._reset, "Lets it begin again."),
            self.shows(f"{one}/log", self._log, "Its last lines in the worker's log."),
            self.changes(f"{one}/do", self._do, "Pauses, resumes, restarts, ..."),
            *ConnectorFormPages(self.console).endpoints(),
        ]

    async def _list(self, asked: PageRequest) -> Response:
        rows = None
        if asked.cluster.has_connect:
            answer = await see(asked, "/connectors?expand=status&expand=info")
            text = asked.query.text("q").lower()
            rows = [_row(name, one) for name, one in sorted(answer.items()) if text in name.lower()]
        return asked.page("connectors.html", "connectors", rows=rows, text=asked.query.text("q"))

    async def _connector(self, asked: PageRequest, problem: str = "") -> Response:
        name = str(asked.path["connector"])
        info = await see(asked, connector_path(name))
        status = await see(asked, connector_path(name, "status"))
        topics = await see_if_offered(asked, connector_path(name, "topics"))
        return asked.page(
            "connector.html", "connectors", 400 if problem else 200, problem=problem, tab="tasks",
            row=_row(name, {"info": info, "status": status}), tasks=status["tasks"],
            trace=status["connector"].get("trace", ""),
            topics=sorted((topics or {}).get(name, {}).get("topics", ())),
        )  # fmt: skip

    # Offsets and log

    async def _offsets(self, asked: PageRequest, problem: str = "") -> Response:
        name = str(asked.path["connector"])
        status = await see(asked, connector_path(name, "status"))
        answer = await see_if_offered(asked, connector_path(name, "offsets"))
        offsets = None
        if answer is not None:
            offsets = [
                (_pairs(offset.get("partition")), _pairs(offset.get("offset")))
                for offset in answer.get("offsets", ())
            ]
        return asked.page(
            "connector.html", "connectors", 400 if problem else 200, problem=problem,
            tab="offsets", row=_row(name, {"status": status}), offsets=offsets,
        )  # fmt: skip

    async def _reset(self, asked: PageRequest) -> Response:
        await require_right(asked)
        name = str(asked.path["connector"])
        if asked.form.text("confirm") != name:
            return await self._offsets(asked, _not_confirmed(name))
        try:
            await ask_worker(asked, "DELETE", connector_path(name, "offsets"))
        except WorkerRefused as error:
            return await self._offsets(asked, str(error))
        return asked.go(
            asked.url("connectors", name, "offsets"), "good",
            f"{name} begins again when it is resumed.",
        )  # fmt: skip

    async def _log(self, asked: PageRequest) -> Response:
        name = str(asked.path["connector"])
        status = await see(asked, connector_path(name, "status"))
        lines = await see_if_offered(asked, connector_path(name, "logs"))
        return asked.page(
            "connector.html", "connectors", problem="", tab="log",
            row=_row(name, {"status": status}),
            lines=None if lines is None else lines[-_SHOWN_LINES:],
        )  # fmt: skip

    # What can be done

    async def _do(self, asked: PageRequest) -> Response:
        await require_right(asked)
        action, name = asked.form.text("action"), str(asked.path["connector"])
        try:
            if action == "delete":
                if asked.form.text("confirm") != name:
                    return await self._connector(asked, _not_confirmed(name))
                await ask_worker(asked, "DELETE", connector_path(name))
                return asked.go(asked.url("connectors"), "good", f"{name} was deleted.")
            if action == "restart-task":
                task = asked.form.number("task", "Task", at_most=2**31 - 1)
                await ask_worker(asked, "POST", connector_path(name, f"tasks/{task}/restart"))
                words = f"Task {task} of {name} restarts."
                return asked.go(asked.url("connectors", name), "good", words)
            if action not in _ACTIONS:
                raise BadForm(f"an action is one of {', '.join(_ACTIONS)} and delete")
            method, word = _ACTIONS[action]
            await ask_worker(asked, method, connector_path(name, word))
        except WorkerRefused as error:
            return await self._connector(asked, str(error))
        is_list = asked.form.text("back") == "list"
        url = asked.url("connectors") if is_list else asked.url("connectors", name)
        return asked.go(url, "good", f"{name}: {action} was asked for.")


def _not_confirmed(name: str) -> str:
    return f"Nothing was done: type {name} into the field to confirm it"


def _pairs(given: Any) -> str:
    """Returns a partition or an offset of a connector, which have fields of its own."""
    if not isinstance(given, dict):
        return "–" if given is None else str(given)
    return ", ".join(
        f"{name} {value if isinstance(value, str | int) else json.dumps(value)}"
        for name, value in given.items()
    )


def _row(name: str, one: dict[str, Any]) -> dict[str, Any]:
    status, info = one.get("status", {}), one.get("info", {})
    tasks = status.get("tasks", [])
    return {
        "name": name,
        "type": status.get("type") or info.get("type", ""),
        "state": status.get("connector", {}).get("state", ""),
        "worker": status.get("connector", {}).get("worker_id", ""),
        "class": info.get("config", {}).get("connector.class", ""),
        "running": sum(task.get("state") == "RUNNING" for task in tasks),
        "failed": sum(task.get("state") == "FAILED" for task in tasks),
        "tasks": len(tasks),
    }
