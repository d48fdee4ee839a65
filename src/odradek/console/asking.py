"""Requests for pages of the console: the user, the cluster and the form of each.

All pages handle a request in the same steps:

1. They find the cluster by the path, and the session by the cookie; without a cookie they begin a
   session.
2. If the brokers need a log-in and the session has none, they redirect the browser to the log-in
   page.
3. They refuse a form without the session's token (CSRF), and a change of a read-only cluster.
4. They make the page with the Kafka clients of the user, so the brokers decide what it shows.
5. If Kafka returns an error, they show a page that says what is wrong and what to do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odradek.client.admin.admin import Admin
from odradek.client.cluster_view import Topic
from odradek.client.errors import BrokerUnreachable, ClientError, CorruptRecords, TimedOut
from odradek.console.clusters import Cluster
from odradek.console.openid.provider import LogInFailed
from odradek.console.openid.renewing import renewed_log_in
from odradek.console.rendering import HEADERS, path_segment
from odradek.console.sessions import COOKIE, NOT_NEEDED, LogIn, Session
from odradek.console.watching import Watcher
from odradek.protocol.errors import AuthorizationError, KafkaError, UnknownTopic
from odradek.services.client_pool import CallerClients
from odradek.services.kafka_problems import explain
from odradek.services.running import unreachable
from odradek.web.endpoints import Endpoint
from odradek.web.media import EVENTS
from odradek.web.problems import Problem

if TYPE_CHECKING:
    from odradek.console.service import ConsoleService

logger = logging.getLogger("odradek.console")

FORM: Final = "application/x-www-form-urlencoded"
PAGE: Final = "text/html"
CLUSTER: Final = "/c/{cluster}"
THEME_COOKIE: Final = "odradek-theme"
_THEMES: Final = ("light", "dark")
_MAX_FIELDS: Final = 5000
_LARGE_FORM_BYTES: Final = 200_000
_SEE_OTHER: Final = 303
_ASK_AGAIN_S: Final = 0.2


class BadForm(Exception):
    """A form with a wrong field. The message names the field, and says what to write."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, or of a query string."""

    fields: list[tuple[str, str]]

    def text(self, name: str, default: str = "") -> str:
        return next((value.strip() for key, value in self.fields if key == name), default)

    def raw(self, name: str) -> str:
        """Returns a value with its spaces and line breaks."""
        return next((value for key, value in self.fields if key == name), "")

    def many(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name and value != ""]

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self.fields)

    def number(
        self, name: str, label: str, *, at_least: int = 0, at_most: int = 2**63 - 1
    ) -> int | None:
        """Returns a whole number, or None if the field is empty."""
        text = self.text(name).replace(",", "").replace("_", "")
        if not text:
            return None
        try:
            value = int(text) if len(text) < 25 else at_most + 1
        except ValueError:
            raise BadForm(f"{label}: {text[:40]!r} is not a whole number") from None
        if not at_least <= value <= at_most:
            raise BadForm(f"{label}: from {at_least:,} to {at_most:,}")
        return value

    def needed(self, name: str, label: str) -> str:
        value = self.text(name)
        if not value:
            raise BadForm(f"{label} is missing")
        return value


@dataclass(slots=True)
class PageRequest:
    """A request for a page, with its cluster, its session, its form and the clients of the user."""

    console: "ConsoleService"
    request: Request
    cluster: Cluster
    session: Session
    log_in: LogIn
    clients: CallerClients
    form: Form
    query: Form
    path: dict[str, Any] = field(default_factory=dict)

    @property
    def admin(self) -> Admin:
        return self.clients.admin

    @property
    def watcher(self) -> Watcher:
        return self.cluster.watchers.of(self.log_in.caller)

    def url(self, *parts: object, **query: object) -> str:
        """Returns the URL of a page of this cluster."""
        path = "/".join(["/c", self.cluster.name, *map(path_segment, parts)])
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(given, doseq=True)}" if given else path

    def page(self, template: str, section: str, status: int = 200, **context: Any) -> Response:
        """Returns a page. `section` is the entry of the navigation that it belongs to."""
        given = {"section": section, "query_fields": dict(self.query.fields), **context}
        return self.console.page(self.request, template, given, status, self)

    def go(self, url: str, kind: str = "", text: str = "") -> Response:
        """Sends the browser on after a form, with a message for the next page."""
        if text:
            self.session.say(kind, text)
        return RedirectResponse(url, _SEE_OTHER, dict(HEADERS))

    def changed(self) -> None:
        """Notes that something was changed, so figures from before are not shown any more."""
        self.watcher.note_change()

    async def topic(self, name: str) -> Topic:
        """Returns a topic, or raises what the brokers say. One that was made a moment ago may be
        unknown to some of the brokers, so it is asked for again."""
        while True:
            found = (await self.admin.describe_topics([name]))[name]
            if not isinstance(found, KafkaError):
                return found
            if not isinstance(found, UnknownTopic) or not self.watcher.has_just_changed:
                raise found
            await asyncio.sleep(_ASK_AGAIN_S)


Page = Callable[[PageRequest], Awaitable[Response]]


# What code raises that reads an answer of another shape than it expects.
_NOT_UNDERSTOOD: Final = (TypeError, AttributeError, LookupError, ValueError, RecursionError)


class Pages:
    """The pages of one subject. Subclasses say which there are."""

    shown_service: tuple[str, str] | None = None
    """The service beside the brokers that these pages show, if there is one: what it is called, and
    the setting with its address."""

    def __init__(self, console: "ConsoleService") -> None:
        self.console = console

    def endpoints(self) -> list[Endpoint]:
        raise NotImplementedError

    async def close(self) -> None:
        """Ends what these pages have begun; called when the console stops."""

    def shows(
        self,
        path: str,
        page: Page,
        summary: str,
        *,
        produces: tuple[str, ...] = (PAGE,),
        is_stream: bool = False,
        needs_brokers: bool = True,
    ) -> Endpoint:
        """Declares a page that is looked at. One that needs no brokers shows what is known while
        none answers."""
        return Endpoint(
            "GET", CLUSTER + path, self._handled(page, needs_brokers), summary, produces=produces,
            is_stream=is_stream, ignores_unknown=True,
        )  # fmt: skip

    def changes(
        self, path: str, page: Page, summary: str, *, produces: tuple[str, ...] = (PAGE,)
    ) -> Endpoint:
        """Declares where a form is sent."""
        return Endpoint(
            "POST", CLUSTER + path, self._handled(page), summary, changes=True,
            media_types=(FORM,), produces=produces,
        )  # fmt: skip

    def _handled(
        self, page: Page, needs_brokers: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        shown = page if self.shown_service is None else self._understanding(page)

        async def handle(request: Request) -> Response:
            return await answer(self.console, request, shown, needs_brokers)

        return handle

    def _understanding(self, page: Page) -> Page:
        """Returns a page that says so if the service answered with JSON of another kind, as a
        program of another kind does at an address that is wrong."""

        async def understand(asked: PageRequest) -> Response:
            try:
                return await page(asked)
            except (BadForm, UnicodeEncodeError):
                raise
            except _NOT_UNDERSTOOD as error:
                name, setting = self.shown_service or ("", "")
                logger.warning("an answer of the %s was not understood", name, exc_info=error)
                raise Problem(
                    502,
                    f"the {name} gave an answer that this page does not understand"
                    f" ({type(error).__name__}: {str(error)[:100]}). Is {setting} of the console"
                    " the address of such a service?",
                ) from None

        return understand


async def answer(
    console: "ConsoleService", request: Request, page: Page, needs_brokers: bool = True
) -> Response:
    """Answers a request with a page of a cluster."""
    cluster = console.clusters.get(str(request.path_params["cluster"]))
    if cluster is None:
        names = ", ".join(console.clusters)
        raise Problem(404, f"there is no such cluster here; the console knows {names}")
    session, is_new = console.session(request)
    log_in = session.log_ins.get(cluster.name) if cluster.needs_log_in else NOT_NEEDED
    if log_in is None:
        return console.with_cookie(_to_log_in(request, cluster), request, session)
    form = await read_form(request)
    _check_form(console, request, cluster, session, form)
    try:
        log_in = await renewed_log_in(cluster, session, log_in)
    except LogInFailed as error:
        session.log_ins.pop(cluster.name, None)
        session.say("bad", f"{error} Log in again.")
        return _to_log_in(request, cluster)
    query = Form(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    try:
        if needs_brokers and cluster.watchers.is_unsure(log_in.caller):
            await _require_brokers(cluster)
        async with cluster.pool.clients(log_in.caller) as clients:
            asked = PageRequest(
                console, request, cluster, session, log_in, clients, form, query,
                dict(request.path_params),
            )  # fmt: skip
            response = await _answered(asked, page)
    except Problem as problem:
        if problem.status == 401 and cluster.needs_log_in:
            session.log_ins.pop(cluster.name, None)
            session.say("bad", "The brokers no longer accept this log-in. Log in again.")
            return _to_log_in(request, cluster)
        raise
    except (ClientError, KafkaError, OSError, TimeoutError) as error:
        # The brokers could not be asked whether the log-in is still good.
        shown = trouble(error, cluster)
        response = console.error_page(request, *shown)
    return console.with_cookie(response, request, session) if is_new else response


async def _require_brokers(cluster: Cluster) -> None:
    """Raises at once if no broker takes a connection: clients would try again for seconds."""
    reason = await unreachable(cluster.servers)
    if reason is not None:
        raise BrokerUnreachable(reason)


async def _answered(asked: PageRequest, page: Page) -> Response:
    try:
        return await page(asked)
    except Problem as problem:
        if problem.status == 401:
            raise
        title = {404: "Not found", 403: "Not allowed"}.get(problem.status, "This cannot be shown")
        return _error(asked, problem.status, title, problem.message, "")
    except BadForm as error:
        return _error(asked, 400, "Please check the form", str(error), "Go back and correct it.")
    except (ClientError, KafkaError, OSError, TimeoutError) as error:
        return _error(asked, *trouble(error, asked.cluster))


def _error(asked: PageRequest, status: int, title: str, message: str, advice: str) -> Response:
    if EVENTS in asked.request.headers.get("accept", ""):
        return Response(message, status, dict(HEADERS), "text/plain")
    return asked.page(
        "error.html", "", status, title=title, message=message, advice=advice,
        retry=asked.request.method == "GET",
    )  # fmt: skip


def trouble(error: Exception, cluster: Cluster) -> tuple[int, str, str, str]:
    """Returns the status of an error, a title, what is wrong, and what to do."""
    problem = explain(error)
    words = problem.message if problem is not None else str(error) or type(error).__name__
    status = problem.status if problem is not None else 502
    if isinstance(error, AuthorizationError):
        advice = (
            "Ask who manages the cluster for the permission. The page Access explains what decides."
        )
        return 403, "Not allowed", f"The brokers refuse this: {words}", advice
    if isinstance(error, CorruptRecords):
        advice = "Other records are there: choose an offset or a time after this batch."
        return 422, "These records cannot be read", words, advice
    if isinstance(error, UnknownTopic):
        advice = (
            "It may have been deleted, or you may not see it. The list of topics shows what there"
            " is."
        )
        return 404, "There is no such topic", words, advice
    if isinstance(error, BrokerUnreachable | OSError | TimedOut | TimeoutError):
        advice = (
            "Start the brokers, or correct bootstrap.servers of the console. This page works again"
            " as soon as a broker answers."
        )
        message = f"The console asked {cluster.servers}: {words}"
        return 503, "The brokers do not answer", message, advice
    return status, "The brokers answered with an error", words, ""


def _to_log_in(request: Request, cluster: Cluster) -> Response:
    then = request.url.path
    if request.method != "GET":
        then = f"/c/{cluster.name}"
    elif request.url.query:
        then += f"?{request.url.query}"
    url = f"/log-in/{cluster.name}?then={quote(then, safe='')}"
    return RedirectResponse(url, _SEE_OTHER, dict(HEADERS))


async def read_form(request: Request) -> Form:
    """Returns the fields of a form; none for a request without one."""
    if request.method != "POST":
        return Form([])
    body = await request.body()
    try:
        if len(body) < _LARGE_FORM_BYTES:
            return _parsed(body)
        # Megabytes take seconds, in which others are answered.
        return await asyncio.to_thread(_parsed, body)
    except ValueError:
        raise Problem(400, "the form cannot be read") from None


def _parsed(body: bytes) -> Form:
    return Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))


def _check_form(
    console: "ConsoleService", request: Request, cluster: Cluster, session: Session, form: Form
) -> None:
    if request.method != "POST":
        return
    check_token(session, form)
    if cluster.is_read_only:
        raise Problem(403, "this console is read-only: it changes nothing (odradek.read.only)")
    if not (cluster.needs_log_in or console.is_local):
        raise Problem(
            403,
            "other machines can reach this console, and the brokers need no log-in, so everybody"
            " could change everything: write authentication.method=NONE into its file if that is"
            " meant",
        )


def check_token(session: Session, form: Form) -> None:
    """Raises if a form was not sent by a page of this session."""
    if not session.is_own(form.text("csrf")):
        raise Problem(
            403, "this form is from another session; go back, load the page again and send it again"
        )


def theme_of(request: Request) -> str:
    """Returns the theme that the user chose, or nothing for that of the system."""
    theme = request.cookies.get(THEME_COOKIE, "")
    return theme if theme in _THEMES else ""


def session_cookie(request: Request) -> str | None:
    return request.cookies.get(COOKIE)
