"""Logging in at an OpenID provider: away to it, back from it, and newer tokens.

The token that the provider gives is shown to the brokers (OAUTHBEARER), which decide whose it is
and what the user may do. Where they give delegation tokens it is exchanged for one, as a password
is; else it stays in the session, in memory, and is replaced before it ends.
"""

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odradek.client.errors import ClientError
from odradek.console.asking import PAGE, trouble
from odradek.console.clusters import Cluster
from odradek.console.openid.provider import LogInFailed, Provider
from odradek.console.rendering import HEADERS
from odradek.console.sessions import LogIn
from odradek.protocol.errors import KafkaError
from odradek.services.identity import Caller, Kind
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem

if TYPE_CHECKING:
    from odradek.console.pages.log_in import LogInPages
    from odradek.console.service import ConsoleService

logger = logging.getLogger("odradek.console")

_PATH: Final = "/log-in/{cluster}/openid"
_REFUSED: Final = (
    "The provider let you in, and the brokers refuse its token. They must check tokens of the"
    " same provider, with the audience that these have: sasl.oauthbearer.expected.audience."
)


class OpenIdPages:
    """The two pages of a log-in at a provider. `forms` shows the page that a log-in ends at if it
    fails, and exchanges tokens."""

    def __init__(self, console: "ConsoleService", forms: "LogInPages") -> None:
        self._console = console
        self._forms = forms

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET", f"{_PATH}/begin", self._begin, "Leads to the OpenID provider.",
                produces=(PAGE,), ignores_unknown=True,
            ),
            Endpoint(
                "GET", _PATH, self._back, "Comes back from it.", produces=(PAGE,),
                ignores_unknown=True,
            ),
        ]  # fmt: skip

    async def _begin(self, request: Request) -> Response:
        cluster, provider = self._cluster(request)
        session, _ = self._console.session(request)
        here = f"{self._base(request)}/log-in/{cluster.name}/openid"
        try:
            begun, url = await provider.begin(here, request.query_params.get("then", ""))
        except LogInFailed as error:
            return self._forms.page(request, cluster, session, str(error), 503)
        session.begin(begun)
        response = RedirectResponse(url, 303, {**HEADERS, "cache-control": "no-store"})
        return self._console.with_cookie(response, request, session)

    def _base(self, request: Request) -> str:
        """Returns how browsers call the console; behind a proxy the settings say it."""
        known = self._console.console_settings.advertised_listeners.rstrip("/")
        return known or str(request.base_url).rstrip("/")

    async def _back(self, request: Request) -> Response:
        cluster, provider = self._cluster(request)
        session, _ = self._console.session(request)
        query = request.query_params
        begun = session.take_begun(query.get("state", ""))
        if begun is None:
            problem = "This log-in was not begun in this browser, or too long ago. Begin it again."
            return self._forms.page(request, cluster, session, problem, 400)
        try:
            if error := query.get("error"):
                words = query.get("error_description") or error
                raise LogInFailed(f"The OpenID provider did not let you in: {words[:200]}")
            granted = await provider.finish(begun, query.get("code", ""), query.get("iss", ""))
            caller = Caller(Kind.TOKEN, granted.name, granted.token)
            if not await cluster.pool.is_let_in(caller):
                raise LogInFailed(_REFUSED)
        except LogInFailed as error:
            return self._forms.page(request, cluster, session, str(error), 401)
        except (ClientError, KafkaError, OSError, TimeoutError) as error:
            status, title, message, advice = trouble(error, cluster)
            shown = f"{title}. {message} {advice}"
            return self._forms.page(request, cluster, session, shown, status)
        exchanged = await self._forms.exchanged(cluster, caller)
        log_in = LogIn(exchanged, granted.name, granted)
        return self._forms.let_in(request, cluster, session, log_in, begun.then)

    def _cluster(self, request: Request) -> tuple[Cluster, Provider]:
        cluster = self._console.clusters.get(str(request.path_params["cluster"]))
        if cluster is None or cluster.provider is None:
            raise Problem(404, "this cluster has no log-in by OpenID Connect")
        return cluster, cluster.provider


def begin_url(cluster: Cluster, then: str) -> str:
    """Returns the link of the log-in page."""
    return f"/log-in/{cluster.name}/openid/begin?then={quote(then, safe='')}"
