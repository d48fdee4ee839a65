"""What all endpoints share: bodies, errors, and passing changes on to the worker that leads.

Every worker answers every request. Questions are answered from its own state. A change is made by
the leader: another worker passes the request on, with the log-in that it came with, and answers
when its own state has the change, so whoever asks it next sees it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from odradek.connect.engine.context import is_source
from odradek.connect.engine.engine import TaskId
from odradek.connect.errors import ConnectError, DataError, InvalidConfig
from odradek.connect.worker.config_store import NotLeader
from odradek.connect.worker.operations import NO_STATUS, Conflict, NotFound, Operations, WrongState
from odradek.connect.worker.preview import Preview
from odradek.connect.worker.status_state import Status
from odradek.services.forwarding import FORWARDED, OFFSET, Answer, Forwarder, Unreachable
from odradek.services.kafka_problems import explain as explain_kafka
from odradek.web.bodies import decode_json
from odradek.web.endpoints import Parameter
from odradek.web.problems import Problem

_log = logging.getLogger("odradek.connect")

Scalar = str | int | float | bool | None
ConnectorConfig = dict[str, Scalar]
CarryOut = Callable[[], Awaitable[Response]]
Allow = Callable[[Request], Awaitable[None]]

_PASSED_ON: Final = ("authorization", "content-type", "accept")
_OWN_STATE_S: Final = 10.0
_WAIT_S: Final = 0.05
_REBALANCING: Final = (
    "Cannot complete request momentarily due to no known leader, likely because a rebalance was"
    " underway."
)
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NotFound, 404),
    (Conflict, 409),
    (WrongState, 400),
    (InvalidConfig, 400),
    (DataError, 400),
    (NotLeader, 409),
    (ConnectError, 503),
)


def explain(error: Exception) -> Problem | None:
    """Returns what a caller is told of an error; codes are HTTP's, as in Kafka Connect."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return Problem(status, str(error) or type(error).__name__)
    found = explain_kafka(error)
    return None if found is None else Problem(found.status, found.message)


async def body_of(request: Request, kind: Any) -> Any:
    """Returns the JSON body of a request. Everything that is wrong with it is 400."""
    try:
        return decode_json(await request.body(), kind)
    except Problem as problem:
        raise Problem(400, problem.message) from None


def texts(config: Mapping[str, Scalar]) -> dict[str, str]:
    """Returns a configuration as text; what is null is left out."""
    return {name: _text(value) for name, value in config.items() if value is not None}


def nullable_texts(config: Mapping[str, Scalar]) -> dict[str, str | None]:
    return {name: None if value is None else _text(value) for name, value in config.items()}


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


COUNT: Final = Parameter("count", int, 10, "How many records, at most 1000.")


def preview_count(request: Request) -> int:
    """Returns how many records a preview shows."""
    text = request.query_params.get(COUNT.name)
    count = 10 if text is None else int(COUNT.parse(text))
    if not 1 <= count <= 1_000:
        raise Problem(400, f"count is between 1 and 1000, not {count}")
    return count


class Surface:
    """What endpoints are given."""

    def __init__(
        self,
        operations: Operations,
        preview: Preview,
        forwarder: Forwarder,
        timeout_s: float,
        allow: Allow,
    ) -> None:
        """`allow` raises a `Problem` if who asks may not change connectors."""
        self.operations = operations
        self.worker = operations.worker
        self.preview = preview
        self._forwarder = forwarder
        self._timeout_s = timeout_s
        self._allow = allow
        self.forwarded = 0

    async def require_allowed(self, request: Request) -> None:
        """Raises a `Problem` if who asks may not change connectors."""
        await self._allow(request)

    async def change(self, request: Request, carry_out: CarryOut) -> Response:
        """Makes a change here if this worker leads, or lets the leader make it."""
        await self.require_allowed(request)
        is_forwarded = FORWARDED in request.headers
        body = await request.body()
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    answer = await self._try(request, carry_out, body, is_forwarded)
                    if answer is not None:
                        return answer
                    await asyncio.sleep(_WAIT_S)
        except TimeoutError:
            raise Problem(409, _REBALANCING) from None

    async def _try(
        self, request: Request, carry_out: CarryOut, body: bytes, is_forwarded: bool
    ) -> Response | None:
        """Returns the answer, or None if it is not known who leads."""
        shares = self.worker.shares
        if self.worker.is_leading:
            try:
                response = await carry_out()
            except NotLeader:
                return None
            response.headers[OFFSET] = str(self.worker.store.position)
            return response
        if is_forwarded:
            raise Problem(409, _REBALANCING)
        if shares is None or shares.is_leader:
            return None
        answer = await self._forward(request, shares.leader_url, body)
        if answer is None or (answer.status == 409 and b"rebalance" in answer.body):
            return None
        return await self._as_own(answer)

    async def forward(self, request: Request, url: str) -> Response:
        """Returns the answer of another worker to the same request."""
        answer = await self._forward(request, url, await request.body())
        if answer is None:
            raise Problem(409, _REBALANCING)
        return await self._as_own(answer)

    async def _forward(self, request: Request, url: str, body: bytes) -> Answer | None:
        headers = {
            name: request.headers[name] for name in _PASSED_ON if name in request.headers
        } | {FORWARDED: "true"}
        target = request.scope["raw_path"].decode("latin-1")
        if request.url.query:
            target += f"?{request.url.query}"
        self.forwarded += 1
        try:
            return await self._forwarder.send(url, request.method, target, headers, body)
        except Unreachable as error:
            _log.warning("the worker at %s does not answer: %s", url, error)
            if error.is_unknown:
                raise Problem(
                    503, "the leader ended while it made the change: look, and try again"
                ) from None
            return None

    async def _as_own(self, answer: Answer) -> Response:
        """Returns an answer of the leader, when this worker's state has the change."""
        offset = answer.headers.get(OFFSET, "")
        if offset.isdecimal():
            try:
                async with asyncio.timeout(_OWN_STATE_S):
                    await self.worker.store.read_to(int(offset))
            except TimeoutError:
                _log.warning("this worker is behind the leader by more than a moment")
        headers = {name: answer.headers[name] for name in ("location",) if name in answer.headers}
        return Response(
            answer.body, answer.status, headers, media_type=answer.headers.get("content-type")
        )

    # What connectors look like

    def kind_of(self, name: str) -> str:
        """Returns `source` or `sink`, or `unknown` if the class is not installed here."""
        try:
            return "source" if is_source(self.operations.config(name)) else "sink"
        except InvalidConfig:
            return "unknown"

    def info(self, name: str) -> dict[str, Any]:
        count = len(self.operations.task_configs(name))
        return {
            "name": name,
            "config": self.worker.secrets.shown(self.operations.config(name)),
            "tasks": [{"connector": name, "task": number} for number in range(count)],
            "type": self.kind_of(name),
        }

    def status(self, name: str) -> dict[str, Any]:
        self.operations.config(name, NO_STATUS)
        count = len(self.operations.task_configs(name))
        return {
            "name": name,
            "connector": _shown(self.worker.status_of_connector(name)),
            "tasks": [self.task_status(TaskId(name, number)) for number in range(count)],
            "type": self.kind_of(name),
        }

    def task_status(self, task: TaskId) -> dict[str, Any]:
        return {"id": task.number, **_shown(self.worker.status_of_task(task))}


def _shown(status: Status) -> dict[str, Any]:
    shown = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version is not None:
        shown["version"] = status.version
    if status.trace is not None:
        shown["trace"] = status.trace
    return shown
