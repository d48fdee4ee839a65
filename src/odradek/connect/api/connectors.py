"""Connectors and their tasks: `/connectors`."""

from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.connect.api.surface import (
    COUNT,
    ConnectorConfig,
    Surface,
    body_of,
    nullable_texts,
    preview_count,
    texts,
)
from odradek.connect.engine.engine import TaskId
from odradek.connect.worker.config_state import RestartRequest, TargetState
from odradek.connect.worker.operations import UNKNOWN
from odradek.connect.worker.status_state import State, topic_forgotten
from odradek.services.forwarding import FORWARDED
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import Problem, json_response


class CreateConnector(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What `POST /connectors` takes."""

    name: str | None = None
    config: ConnectorConfig
    initial_state: str | None = None


class ConnectorTaskId(msgspec.Struct):
    connector: str
    task: int


class ConnectorInfo(msgspec.Struct):
    name: str
    config: dict[str, str]
    tasks: list[ConnectorTaskId]
    type: str


class ConnectorState(msgspec.Struct, omit_defaults=True):
    state: str
    worker_id: str
    version: str | None = None
    trace: str | None = None


class TaskState(msgspec.Struct, omit_defaults=True):
    id: int
    state: str
    worker_id: str
    version: str | None = None
    trace: str | None = None


class ConnectorStatus(msgspec.Struct):
    name: str
    connector: ConnectorState
    tasks: list[TaskState]
    type: str


class TaskInfo(msgspec.Struct):
    id: ConnectorTaskId
    config: dict[str, str]


_FORWARD: Final = Parameter("forward", bool, None, "Set between workers.", is_ignored=True)
_EXPAND: Final = Parameter("expand", str, None, "`status`, `info`, or both: more than the names.")
_TASKS: Final = Parameter("includeTasks", bool, False, "Restart the tasks too.")
_FAILED: Final = Parameter("onlyFailed", bool, False, "Restart only what has failed.")
_NO_SUCH: Final = "There is no such connector."
_REFUSED: Final = "The configuration is wrong; the message names each field."
_NOBODY: Final = "No worker leads the group at the moment, or the connector exists. Try again."
_MOVING: Final = "No worker has the task at the moment. Try again."


def _answers(status: int, words: str) -> dict[int, str]:
    known = {400: _REFUSED, 404: _NO_SUCH, 409: _NOBODY, 503: "The brokers failed."}
    return {status: words, **known}


class ConnectorEndpoints:
    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._operations = surface.operations

    def endpoints(self) -> list[Endpoint]:
        one = "/connectors/{name}"
        found = _answers(200, "The answer.")
        made = {**_answers(201, "It was made."), 200: "It was changed."}
        return [
            Endpoint("GET", "/connectors", self._list, "The names of all connectors.",
                     (_EXPAND, _FORWARD), ignores_unknown=True),
            Endpoint("POST", "/connectors", self._create, "Makes a connector.", (_FORWARD,),
                     changes=True, body=CreateConnector, responses=made, answer=ConnectorInfo,
                     ignores_unknown=True),
            Endpoint("GET", one, self._info, "A connector, with its tasks.", (_FORWARD,),
                     responses=found, answer=ConnectorInfo, ignores_unknown=True),
            Endpoint("DELETE", one, self._delete, "Deletes a connector; offsets stay.", (_FORWARD,),
                     changes=True, responses=_answers(204, "It is gone."), ignores_unknown=True),
            Endpoint("GET", f"{one}/config", self._config, "Its configuration.", (_FORWARD,),
                     responses=found, answer=dict[str, str], ignores_unknown=True),
            Endpoint("PUT", f"{one}/config", self._put, "Makes or changes a connector.",
                     (_FORWARD,), changes=True, body=ConnectorConfig, responses=made,
                     answer=ConnectorInfo, ignores_unknown=True),
            Endpoint("PATCH", f"{one}/config", self._patch,
                     "Changes some of its properties; null removes one.", (_FORWARD,), changes=True,
                     body=ConnectorConfig, responses=found, answer=ConnectorInfo,
                     ignores_unknown=True),
            Endpoint("GET", f"{one}/status", self._status, "How it and its tasks are.",
                     (_FORWARD,), responses=found, answer=ConnectorStatus, ignores_unknown=True),
            Endpoint("POST", f"{one}/restart", self._restart, "Restarts it.",
                     (_TASKS, _FAILED, _FORWARD), changes=True, ignores_unknown=True,
                     answer=ConnectorStatus,
                     responses={**_answers(202, "What is restarted."), 204: "It is restarted."}),
            *(self._target(*given) for given in _TARGETS),
            Endpoint("GET", f"{one}/tasks", self._tasks, "Its tasks, with their configurations.",
                     (_FORWARD,), responses=found, answer=list[TaskInfo], ignores_unknown=True),
            Endpoint("GET", f"{one}/tasks/{{task:int}}/status", self._task_status,
                     "How a task is.", (_FORWARD,), responses=found, answer=TaskState,
                     ignores_unknown=True),
            Endpoint("POST", f"{one}/tasks/{{task:int}}/restart", self._restart_task,
                     "Restarts a task.", (_FORWARD,), changes=True, ignores_unknown=True,
                     responses={**_answers(204, "It is restarted."), 409: _MOVING}),
            Endpoint("GET", f"{one}/topics", self._topics, "The topics that it has used.",
                     (_FORWARD,), responses=found, answer=dict[str, dict[str, list[str]]],
                     ignores_unknown=True),
            Endpoint("GET", f"{one}/preview", self._preview,
                     "Its next records, without writing any.", (COUNT,), changes=True,
                     responses=found, answer=list[dict[str, Any]], ignores_unknown=True),
            Endpoint("PUT", f"{one}/topics/reset", self._reset_topics,
                     "Forgets the topics that it has used.", (_FORWARD,), changes=True,
                     responses=_answers(202, "They are forgotten."), ignores_unknown=True),
        ]  # fmt: skip

    # Questions

    async def _list(self, request: Request) -> Response:
        names = sorted(self._surface.worker.configs.connectors)
        expand = {
            part.strip()
            for text in request.query_params.getlist("expand")
            for part in text.split(",")
        }
        if not expand:
            return json_response(names)
        shown: dict[str, dict[str, Any]] = {}
        for name in names:
            shown[name] = {}
            if "status" in expand:
                shown[name]["status"] = self._surface.status(name)
            if "info" in expand:
                shown[name]["info"] = self._surface.info(name)
        return json_response(shown)

    async def _info(self, request: Request) -> Response:
        return json_response(self._surface.info(_name(request)))

    async def _config(self, request: Request) -> Response:
        config = self._operations.config(_name(request))
        return json_response(self._surface.worker.secrets.shown(config))

    async def _status(self, request: Request) -> Response:
        return json_response(self._surface.status(_name(request)))

    async def _tasks(self, request: Request) -> Response:
        name = _name(request)
        shown = self._surface.worker.secrets.shown
        return json_response(
            [
                {"id": {"connector": name, "task": number}, "config": shown(config)}
                for number, config in enumerate(self._operations.task_configs(name))
            ]
        )

    async def _task_status(self, request: Request) -> Response:
        task = _task(request)
        self._operations.require_task(task, "No status found for task {}")
        return json_response(self._surface.task_status(task))

    async def _topics(self, request: Request) -> Response:
        name = _name(request)
        self._require_tracking()
        topics = self._surface.worker.statuses.state.topics.get(name, set())
        return json_response({name: {"topics": sorted(topics)}})

    async def _preview(self, request: Request) -> Response:
        await self._surface.require_allowed(request)
        name = _name(request)
        properties = self._surface.worker.secrets.resolved(self._operations.config(name))
        count = preview_count(request)
        return json_response(await self._surface.preview.of(name, properties, count))

    def _require_tracking(self) -> None:
        if not self._surface.worker.tracks_topics:
            raise Problem(403, "Topic tracking is disabled: topic.tracking.enable=false")

    # Changes

    async def _create(self, request: Request) -> Response:
        given = await body_of(request, CreateConnector)
        target = _target_of(given.initial_state)
        name = (given.name or "").strip()

        async def create() -> Response:
            await self._operations.create(name, texts(given.config), target)
            return self._made(name, 201)

        return await self._surface.change(request, create)

    async def _put(self, request: Request) -> Response:
        name = _name(request)
        config = texts(await body_of(request, ConnectorConfig))

        async def put() -> Response:
            _, is_new = await self._operations.put(name, config)
            return self._made(name, 201 if is_new else 200)

        return await self._surface.change(request, put)

    async def _patch(self, request: Request) -> Response:
        name = _name(request)
        changes = nullable_texts(await body_of(request, ConnectorConfig))

        async def patch() -> Response:
            await self._operations.patch(name, changes)
            return self._made(name, 200)

        return await self._surface.change(request, patch)

    def _made(self, name: str, status: int) -> Response:
        headers = {"location": f"/connectors/{quote(name, safe='')}"} if status == 201 else {}
        return json_response(self._surface.info(name), status=status, headers=headers)

    async def _delete(self, request: Request) -> Response:
        async def delete() -> Response:
            await self._operations.delete(_name(request))
            return Response(status_code=204)

        return await self._surface.change(request, delete)

    def _target(self, action: str, target: TargetState, status: int, summary: str) -> Endpoint:
        async def set_target(request: Request) -> Response:
            async def carry_out() -> Response:
                await self._operations.set_target(_name(request), target)
                return Response(status_code=status)

            return await self._surface.change(request, carry_out)

        return Endpoint(
            "PUT",
            f"/connectors/{{name}}/{action}",
            set_target,
            summary,
            (_FORWARD,),
            changes=True,
            responses=_answers(status, "It is on its way."),
            ignores_unknown=True,
        )

    async def _restart(self, request: Request) -> Response:
        name = _name(request)
        includes_tasks = _flag(request, _TASKS)
        only_failed = _flag(request, _FAILED)

        async def restart() -> Response:
            self._operations.config(name, UNKNOWN)
            shown = self._restarting(name, includes_tasks, only_failed)
            await self._operations.restart(RestartRequest(name, includes_tasks, only_failed))
            if not includes_tasks and not only_failed:
                return Response(status_code=204)
            return json_response(shown, status=202)

        return await self._surface.change(request, restart)

    def _restarting(self, name: str, includes_tasks: bool, only_failed: bool) -> dict[str, Any]:
        """Returns the status, with what is about to restart as such."""
        shown = self._surface.status(name)
        parts = [shown["connector"], *(shown["tasks"] if includes_tasks else [])]
        for part in parts:
            if not only_failed or part["state"] == State.FAILED.value:
                part["state"] = State.RESTARTING.value
                part.pop("trace", None)
        return shown

    async def _restart_task(self, request: Request) -> Response:
        task = _task(request)
        worker = self._surface.worker
        await self._surface.require_allowed(request)
        self._operations.config(task.connector, UNKNOWN)
        self._operations.require_task(task, "Unknown task: {}")
        if worker.restart_task(task):
            return Response(status_code=204)
        owner = None if worker.shares is None else worker.shares.owner(task)
        if owner is not None and owner != worker.url and FORWARDED not in request.headers:
            return await self._surface.forward(request, owner)
        if owner == worker.url:
            return Response(status_code=204)  # It is about to start.
        # The task exists, so this is 409, as in Kafka: a client knows that it may ask again.
        raise Problem(
            409, f"{task} has no worker at the moment, likely because of a rebalance: try again"
        )

    async def _reset_topics(self, request: Request) -> Response:
        name = _name(request)
        worker = self._surface.worker
        await self._surface.require_allowed(request)
        self._require_tracking()
        if not worker.resets_topics:
            raise Problem(403, "Topic tracking reset is disabled: topic.tracking.allow.reset=false")
        topics = worker.statuses.state.topics.get(name, set())
        worker.statuses.put([topic_forgotten(name, topic) for topic in topics])
        return Response(status_code=202)


_TARGETS: Final = (
    ("pause", TargetState.PAUSED, 202, "Pauses it; its tasks end and are kept."),
    ("resume", TargetState.STARTED, 202, "Lets it run."),
    ("stop", TargetState.STOPPED, 204, "Stops it; its tasks are removed, its offsets stay."),
)


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _task(request: Request) -> TaskId:
    return TaskId(_name(request), int(request.path_params["task"]))


def _flag(request: Request, parameter: Parameter) -> bool:
    given = request.query_params.getlist(parameter.name)
    return bool(parameter.parse(given[0])) if given else False


def _target_of(state: str | None) -> TargetState | None:
    if state is None:
        return None
    known = {
        "RUNNING": TargetState.STARTED,
        "PAUSED": TargetState.PAUSED,
        "STOPPED": TargetState.STOPPED,
    }
    if state.upper() not in known:
        raise Problem(400, f"initial_state is one of {', '.join(known)}, not {state!r}")
    return known[state.upper()]
