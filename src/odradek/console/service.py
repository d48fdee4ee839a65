"""The console: which page is at which path, and what runs beside the pages."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from odradek import __version__
from odradek.console.asking import PAGE, Pages, theme_of
from odradek.console.clusters import Cluster, client_kinds
from odradek.console.pages.access import AccessPages
from odradek.console.pages.audit import AuditPages
from odradek.console.pages.balance import BalancePages
from odradek.console.pages.broker_settings import BrokerSettingPages
from odradek.console.pages.brokers import BrokerPages
from odradek.console.pages.connectors import ConnectorPages
from odradek.console.pages.groups import GroupPages
from odradek.console.pages.history import HistoryPages
from odradek.console.pages.log_in import LogInPages
from odradek.console.pages.many_topics import ManyTopicsPages
from odradek.console.pages.messages import MessagePages
from odradek.console.pages.overview import OverviewPages
from odradek.console.pages.pipelines import PipelinePages
from odradek.console.pages.placement import PlacementPages
from odradek.console.pages.quotas import QuotaPages
from odradek.console.pages.redriving import RedrivePages
from odradek.console.pages.roles import RolePages
from odradek.console.pages.schemas import SchemaPages
from odradek.console.pages.sql import SqlPages
from odradek.console.pages.topic import TopicPages
from odradek.console.pages.topics import TopicListPages
from odradek.console.pages.transactions import TransactionPages
from odradek.console.rendering import HEADERS, Renderer
from odradek.console.sessions import COOKIE, Session, Sessions
from odradek.console.settings import ConsoleSettings
from odradek.services.client_pool import ClientPool
from odradek.services.metrics import ServiceMetrics
from odradek.services.running import OPEN_PATHS, Service
from odradek.web.endpoints import Endpoint
from odradek.web.guards import Policy
from odradek.web.login import Login
from odradek.web.problems import Problem
from odradek.web.serving import Listener

if TYPE_CHECKING:
    from odradek.console.asking import PageRequest

_NAVIGATION: Final = (
    ("overview", "Overview", "", "o"),
    ("brokers", "Brokers", "/brokers", "b"),
    ("topics", "Topics", "/topics", "t"),
    ("groups", "Groups", "/groups", "g"),
    ("transactions", "Transactions", "/transactions", "x"),
    ("schemas", "Schemas", "/schemas", "s"),
    ("connectors", "Connectors", "/connectors", "c"),
    ("sql", "SQL", "/sql", "l"),
    ("pipelines", "Pipelines", "/pipelines", "p"),
    ("balance", "Balance", "/balance", "r"),
    ("access", "Access", "/access", "a"),
    ("audit", "Audit", "/audit", "u"),
    ("quotas", "Quotas", "/quotas", "q"),
)
"""The sections: name, label, path, and the key after `g` that leads there."""
_PAGES: Final[tuple[type[Pages], ...]] = (
    LogInPages,
    OverviewPages,
    HistoryPages,
    BrokerPages,
    BrokerSettingPages,
    TopicListPages,
    ManyTopicsPages,
    TopicPages,
    MessagePages,
    RedrivePages,
    GroupPages,
    TransactionPages,
    SchemaPages,
    ConnectorPages,
    SqlPages,
    PipelinePages,
    BalancePages,
    PlacementPages,
    AccessPages,
    RolePages,
    AuditPages,
    QuotaPages,
)
_TITLES: Final = {
    400: "This cannot be done",
    403: "Not allowed",
    404: "There is no such page",
    405: "There is no such page",
    421: "The console has another name",
    503: "The console is busy",
    504: "This took too long",
}


class ConsoleService(Service):
    title = "Odradek console"

    def __init__(self, settings: ConsoleSettings) -> None:
        super().__init__(settings)
        self.console_settings = settings
        self.renderer = Renderer()
        self.sessions = Sessions(settings.odradek_session_ms / 1000)
        masks = settings.masks()
        self.clusters: dict[str, Cluster] = {}
        for name, one in settings.clusters().items():
            pool = ClientPool(one.client_properties(), kinds=client_kinds(one))
            self.clusters[name] = Cluster(one, pool, masks)
        self._pages = [kind(self) for kind in _PAGES]
        # Health checks and metrics of the service are about the first cluster.
        self.pool = self.first.pool
        self.metrics = ServiceMetrics(self.title, self.pool)
        self.is_local = True
        """Whether only those reach the console who may change what nobody logs in to."""

    @property
    def first(self) -> Cluster:
        return next(iter(self.clusters.values()))

    def endpoints(self) -> list[Endpoint]:
        endpoints = [
            Endpoint("GET", "/", self._home, "Leads to the first cluster.", produces=(PAGE,)),
            Endpoint(
                "GET", "/static/{name}", self._static, "Styles, scripts and pictures.",
                produces=("text/css", "text/javascript", "image/svg+xml"), ignores_unknown=True,
            ),
            Endpoint(
                "GET", "/favicon.ico", self._icon, "The picture of the tab.",
                produces=("image/svg+xml",),
            ),
        ]  # fmt: skip
        for pages in self._pages:
            endpoints += pages.endpoints()
        return endpoints

    def policy(self, listener: Listener) -> Policy:
        """Sessions, and who may change something, are checked by the pages themselves: the guards
        let everybody ask for one."""
        policy = self.console_settings.policy(listener, Login(), OPEN_PATHS)
        self.is_local = policy.is_loopback or policy.lets_anonymous_change
        policy.lets_anonymous_change = True
        policy.show = self._show
        policy.lets_links_in = True
        return policy

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        others = list(self.clusters.values())[1:]
        sweeping = [asyncio.create_task(cluster.pool.run()) for cluster in others]
        try:
            yield
        finally:
            for pages in self._pages:
                await pages.close()
            for task in sweeping:
                task.cancel()
            await asyncio.gather(*sweeping, return_exceptions=True)
            for cluster in self.clusters.values():
                await cluster.watchers.close()
            for cluster in others:
                await cluster.pool.close()

    # Sessions

    def session(self, request: Request) -> tuple[Session, bool]:
        """Returns the session of a request, and whether it is a new one."""
        known = self.sessions.find(request.cookies.get(COOKIE))
        return (known, False) if known is not None else (self.sessions.new(), True)

    def with_cookie(self, response: Response, request: Request, session: Session) -> Response:
        response.set_cookie(
            COOKIE, session.name, httponly=True, samesite="lax", path="/",
            secure=self._is_https(request),
        )  # fmt: skip
        return response

    def _is_https(self, request: Request) -> bool:
        """Returns whether browsers call the console by https, at a proxy if not here."""
        advertised = self.console_settings.advertised_listeners.lower()
        return request.url.scheme == "https" or advertised.startswith("https:")

    # Pages

    def page(
        self,
        request: Request,
        template: str,
        context: Mapping[str, Any],
        status: int = 200,
        asked: "PageRequest | None" = None,
    ) -> Response:
        """Returns a page in the frame that all pages have."""
        session = asked.session if asked is not None else None
        cluster = asked.cluster if asked is not None else self._cluster_of(request)
        frame = {
            "version": __version__,
            "cluster": cluster,
            "clusters": list(self.clusters.values()),
            "base": f"/c/{cluster.name}",
            "navigation": _NAVIGATION,
            "section": "",
            "theme": theme_of(request),
            "csrf": session.csrf if session is not None else "",
            "messages": session.take_messages() if session is not None else [],
            "user": asked.log_in.name if asked is not None else "",
            "here": request.url.path,
            "asked": asked,
            "query_fields": {},
        }
        return self.renderer.page(template, {**frame, **context}, status)

    def error_page(
        self, request: Request, status: int, title: str, message: str, advice: str
    ) -> Response:
        context = {"title": title, "message": message, "advice": advice, "retry": True}
        return self.page(request, "error.html", context, status)

    def _cluster_of(self, request: Request) -> Cluster:
        name = request.scope.get("path_params", {}).get("cluster")
        return self.clusters.get(str(name), self.first)

    def _show(self, problem: Problem, scope: Scope) -> Response:
        request = Request(scope)
        title = _TITLES.get(problem.status, "Something went wrong")
        message = problem.message
        if problem.status == 404 and scope["path_params"] == {}:
            message = "Nothing is at this address. The navigation leads to what there is."
        response = self.error_page(request, problem.status, title, message, "")
        response.headers.update(problem.headers)
        return response

    async def _home(self, request: Request) -> Response:
        return RedirectResponse(f"/c/{self.first.name}", 303, dict(HEADERS))

    async def _static(self, request: Request) -> Response:
        found = self.renderer.static.response(request.path_params["name"])
        if found is None:
            raise Problem(404, "there is no such file")
        return found

    async def _icon(self, request: Request) -> Response:
        found = self.renderer.static.response("mark.svg")
        assert found is not None
        return found
