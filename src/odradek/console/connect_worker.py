"""The Connect worker of a cluster, asked by its REST interface (`connect.url`).

With `connect.basic.auth.user.info` the console logs in at the worker with that user. Else it passes
on the log-in of its own user, as all services do (docs/decisions/0064): a password, or a token. In
either case the brokers are asked first who may change something, because a worker without a log-in
knows nothing of the console's users.
"""

from typing import Any, Final
from urllib.parse import quote

from odradek.console.asking import PageRequest
from odradek.console.http_json import HttpRefused, ask_json
from odradek.console.rights import authorization, named, require_write
from odradek.web.problems import Problem

CONNECT: Final = ("Connect worker", "connect.url")
OURS: Final = "odradek"
_NOT_OFFERED: Final = frozenset({404, 405, 501})


class WorkerRefused(Exception):
    """The worker answered with an error; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def connector_path(name: str, *rest: str) -> str:
    return "/".join(["/connectors", quote(name, safe=""), *rest])


async def ask_worker(
    asked: PageRequest, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0
) -> Any:
    """Asks the worker. Raises `WorkerRefused`, or a `Problem` if there is no worker."""
    settings = asked.cluster.settings
    if not asked.cluster.has_connect:
        raise Problem(404, "no Kafka Connect is configured: set connect.url")
    url = settings.connect_url.rstrip("/") + path
    try:
        return await ask_json(
            method, url, body=body, headers=_log_in(asked), timeout_s=timeout_s,
            tls=asked.cluster.tls,
        )  # fmt: skip
    except HttpRefused as error:
        if error.status == 401:
            raise Problem(
                502,
                "the Connect worker wants another log-in; set connect.basic.auth.user.info of the"
                " console to a user that it knows",
            ) from None
        raise WorkerRefused(error.status, named(asked, str(error))) from None
    except OSError as error:
        raise Problem(
            503,
            f"the Connect worker at {settings.connect_url} does not answer ({error});"
            " start it, or correct connect.url of the console",
        ) from None


def answered(error: WorkerRefused) -> Problem:
    """Returns what a page says of an error of the worker. One of the worker's own is not ours."""
    status = error.status if error.status < 500 else 502
    return Problem(status, f"the Connect worker answered: {error}")


async def see(asked: PageRequest, path: str) -> Any:
    """Returns what the worker shows; an error of it becomes that of the page."""
    try:
        return await ask_worker(asked, "GET", path)
    except WorkerRefused as error:
        raise answered(error) from None


async def see_if_offered(asked: PageRequest, path: str) -> Any:
    """The same for what not every worker has; None if this one has it not."""
    try:
        return await ask_worker(asked, "GET", path)
    except WorkerRefused as error:
        if error.status in _NOT_OFFERED:
            return None
        raise answered(error) from None


async def is_ours(asked: PageRequest) -> bool:
    """Returns whether the worker is Odradek's, which shows previews and logs."""
    return (await see(asked, "/") or {}).get("commit") == OURS


async def require_right(asked: PageRequest) -> None:
    """Raises if the user may not change connectors. The worker cannot tell: it sees the console,
    not its user, and may listen on this machine without a log-in. So the brokers are asked what a
    worker with a log-in asks them (docs/decisions/0075-log-ins-of-a-worker.md)."""
    topic = asked.cluster.settings.connect_config_storage_topic
    await require_write(asked, topic, "may not change connectors")


def _log_in(asked: PageRequest) -> dict[str, str]:
    shown = authorization(asked, asked.cluster.settings.connect_basic_auth_user_info)
    return {"authorization": shown} if shown else {}
