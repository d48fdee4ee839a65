"""Connectors of a Kafka Connect worker, by its REST interface (`connect.url`).

The worker knows nothing of the console's users, so the console asks the brokers who may change
something.
"""

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from odradek.console.asking import Asked, BadForm, Pages
from odradek.services.permissions import may_write
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem

_TIMEOUT_S: Final = 10.0
_ACTIONS: Final = {
    "pause": ("PUT", "pause"),
    "resume": ("PUT", "resume"),
    "stop": ("PUT", "stop"),
    "restart": ("POST", "restart?includeTasks=true&onlyFailed=false"),
}


class WorkerRefused(Exception):
    """The worker answered with an error; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ConnectorPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/connectors", self._list, "All connectors."),
            self.shows("/connectors/{connector}", self._connector, "A connector."),
            self.changes("/connectors/{connector}/do", self._do, "Pauses, resumes, restarts, ..."),
            self.shows("/new-connector", self._new, "The form for a connector."),
            self.changes("/new-connector", self._create, "Checks or makes a connector."),
        ]

    async def _list(self, asked: Asked) -> Response:
        rows = None
        if asked.cluster.has_connect:
            answer = await _worker(asked, "GET", "/connectors?expand=status&expand=info")
            rows = [_row(name, one) for name, one in sorted(answer.items())]
        return asked.page("connectors.html", "connectors", rows=rows)

    async def _connector(self, asked: Asked, problem: str = "") -> Response:
        path = _path(asked)
        info = await _worker(asked, "GET", path)
        status = await _worker(asked, "GET", f"{path}/status")
        return asked.page(
            "connector.html", "connectors", 400 if problem else 200, problem=problem,
            row=_row(info["name"], {"info": info, "status": status}), tasks=status["tasks"],
            config=sorted(info["config"].items()), trace=status["connector"].get("trace", ""),
        )  # fmt: skip

    async def _do(self, asked: Asked) -> Response:
        await _require_right(asked)
        action, path = asked.form.text("action"), _path(asked)
        name = str(asked.path["connector"])
        try:
            if action == "delete":
                if asked.form.text("confirm") != name:
                    return await self._connector(
                        asked, f"Nothing was done: type {name} into the field to confirm it"
                    )
                await _worker(asked, "DELETE", path)
                return asked.go(asked.url("connectors"), "good", f"{name} was deleted.")
            if action not in _ACTIONS:
                raise BadForm(f"an action is one of {', '.join(_ACTIONS)} and delete")
            method, word = _ACTIONS[action]
            await _worker(asked, method, f"{path}/{word}")
        except WorkerRefused as error:
            return await self._connector(asked, str(error))
        return asked.go(asked.url("connectors", name), "good", f"{name}: {action} was asked for.")

    async def _new(self, asked: Asked) -> Response:
        return await self._form(asked, {})

    async def _form(
        self,
        asked: Asked,
        fields: dict[str, str],
        problem: str = "",
        errors: Any = (),
        good: str = "",
    ) -> Response:
        plugins = await _worker(asked, "GET", "/connector-plugins")
        return asked.page(
            "connector_new.html", "connectors", 400 if problem else 200, fields=fields,
            problem=problem, errors=errors, good=good,
            plugins=sorted(str(one["class"]) for one in plugins),
        )  # fmt: skip

    async def _create(self, asked: Asked) -> Response:
        from odradek.console.pages.topics import settings_of  # noqa: PLC0415 - for one form

        await _require_right(asked)
        form, fields = asked.form, dict(asked.form.fields)
        try:
            name = form.needed("name", "The name")
            config = {
                **settings_of(form.raw("settings")),
                "name": name,
                "connector.class": form.needed("class", "The plug-in"),
            }
            plugin = quote(config["connector.class"].rpartition(".")[2], safe="")
            checked = await _worker(
                asked, "PUT", f"/connector-plugins/{plugin}/config/validate", config
            )
            errors = [
                (one["value"]["name"], error)
                for one in checked.get("configs", ())
                for error in one["value"].get("errors", ())
            ]
            if errors:
                return await self._form(asked, fields, "The plug-in refuses it.", errors)
            if form.text("action") == "check":
                return await self._form(asked, fields, good="The plug-in accepts it.")
            await _worker(asked, "POST", "/connectors", {"name": name, "config": config})
        except (BadForm, WorkerRefused) as error:
            return await self._form(asked, fields, str(error))
        return asked.go(asked.url("connectors", name), "good", f"{name} was made.")


def _path(asked: Asked) -> str:
    return f"/connectors/{quote(str(asked.path['connector']), safe='')}"


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


async def _require_right(asked: Asked) -> None:
    """Raises if the user may not change connectors. The worker cannot tell: it sees the console,
    not its user, and may listen on this machine without a log-in. So the brokers are asked what a
    worker with a log-in asks them (docs/decisions/0075-log-ins-of-a-worker.md)."""
    topic = asked.cluster.settings.connect_config_storage_topic
    if asked.cluster.needs_log_in and not await may_write(asked.clients, [topic]):
        raise Problem(
            403,
            f"{asked.log_in.name} may not change connectors: it needs WRITE on topic {topic}, the"
            " worker's topic of configurations (connect.config.storage.topic)",
        )


async def _worker(asked: Asked, method: str, path: str, body: Any = None) -> Any:
    """Asks the worker; raises what a page shows."""
    if not asked.cluster.has_connect:
        raise Problem(404, "no Kafka Connect is configured: set connect.url")
    url = asked.cluster.settings.connect_url.rstrip("/") + path
    try:
        return await asyncio.to_thread(_request, method, url, body)
    except WorkerRefused as error:
        if asked.request.method == "POST":
            raise
        raise Problem(error.status, f"the Connect worker answered: {error}") from None
    except OSError as error:
        raise Problem(
            503,
            f"the Connect worker at {asked.cluster.settings.connect_url} does not answer ({error});"
            " start it, or correct connect.url of the console",
        ) from None


def _request(method: str, url: str, body: Any) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - the settings allow http and https alone
        url, content, {"content-type": "application/json", "accept": "application/json"},
        method=method,
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
            text = response.read()
    except urllib.error.HTTPError as error:
        raise WorkerRefused(error.code, _message(error.read()) or str(error)) from None
    return json.loads(text) if text else None


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, LookupError, TypeError):
        return ""
