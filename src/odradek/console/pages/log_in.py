"""Logging in as a Kafka principal, and logging out.

The brokers check the password. It is then exchanged for a delegation token of the user (KIP-48)
where the brokers give tokens, so that the password is in memory for the length of one request only.
The token ends by itself, and at once when the user logs out. Brokers without tokens leave no
choice: the password stays in the session, in memory, until the session ends.
"""

import logging
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from odradek.client.admin.admin import Admin
from odradek.client.errors import ClientError
from odradek.console.asking import FORM, PAGE, Form, Pages, check_token, read_form, trouble
from odradek.console.clusters import Cluster
from odradek.console.pages.openid_log_in import OpenIdPages, begin_url
from odradek.console.rendering import HEADERS
from odradek.console.sessions import LogIn, Session
from odradek.protocol.errors import KafkaError
from odradek.services.identity import Caller, Kind
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem

logger = logging.getLogger("odradek.console")

_PATH: Final = "/log-in/{cluster}"
_MAX_FORM_BYTES: Final = 200_000
"""Nobody has logged in yet who sends this form, and to read one of megabytes takes seconds. A
token has 64 kB at most."""
_REFUSED: Final = "The brokers refused the log-in. Check the name and the password."


class LogInPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET", _PATH, self._ask, "The page to log in.", produces=(PAGE,),
                ignores_unknown=True,
            ),
            Endpoint(
                "POST", _PATH, self._log_in, "Logs in.", changes=True, media_types=(FORM,),
                produces=(PAGE,), ignores_unknown=True, max_body_bytes=_MAX_FORM_BYTES,
            ),
            Endpoint(
                "POST", "/log-out/{cluster}", self._log_out, "Logs out.", changes=True,
                media_types=(FORM,), produces=(PAGE,), max_body_bytes=_MAX_FORM_BYTES,
            ),
            *OpenIdPages(self.console, self).endpoints(),
        ]  # fmt: skip

    async def _ask(self, request: Request) -> Response:
        session, is_new = self.console.session(request)
        cluster = self._cluster(request)
        end_url = ""
        if cluster.provider is not None and "out" in request.query_params:
            # The console's session has ended; that at the provider goes on until the user ends it.
            end_url = await cluster.provider.end_url(str(request.url.replace(query="")))
        response = self.page(request, cluster, session, end_url=end_url)
        return self.console.with_cookie(response, request, session) if is_new else response

    async def _log_in(self, request: Request) -> Response:
        cluster = self._cluster(request)
        session, _ = self.console.session(request)
        form = await read_form(request)
        check_token(session, form)
        caller = _caller(cluster, form)
        if caller is None:
            return self.page(request, cluster, session, "Give a name and a password.", 400)
        try:
            if not await cluster.pool.is_let_in(caller):
                return self.page(request, cluster, session, _REFUSED, 401)
        except (ClientError, KafkaError, OSError, TimeoutError) as error:
            status, title, message, advice = trouble(error, cluster)
            return self.page(request, cluster, session, f"{title}. {message} {advice}", status)
        name = caller.name if caller.kind is Kind.PASSWORD else "token"
        log_in = LogIn(await self.exchanged(cluster, caller), name)
        then = request.query_params.get("then", "")
        return self.let_in(request, cluster, session, log_in, then)

    def let_in(
        self, request: Request, cluster: Cluster, session: Session, log_in: LogIn, then: str
    ) -> Response:
        """Notes a log-in in the session, under a new name, and leads to where the user was."""
        renewed = self.console.sessions.log_in(session, cluster.name, log_in)
        response = RedirectResponse(_own_path(then, cluster), 303, dict(HEADERS))
        return self.console.with_cookie(response, request, renewed)

    async def exchanged(self, cluster: Cluster, caller: Caller) -> Caller:
        """Returns a token of the user in place of the password, or of the token of somebody else,
        if the brokers give one that their listener takes."""
        lifetime_ms = cluster.settings.odradek_session_ms
        try:
            async with cluster.pool.clients(caller) as clients:
                token = await clients.admin.create_delegation_token(max_lifetime_ms=lifetime_ms)
            by_token = Caller(Kind.DELEGATION_TOKEN, token.token_id, token.password)
            if await cluster.pool.is_let_in(by_token):
                return by_token
        except (ClientError, KafkaError, Problem) as error:
            logger.info("the brokers of %s give no delegation tokens: %s", cluster.name, error)
        return caller

    async def _log_out(self, request: Request) -> Response:
        cluster = self._cluster(request)
        session, _ = self.console.session(request)
        check_token(session, await read_form(request))
        log_in = self.console.sessions.log_out(session, cluster.name)
        if log_in is not None and not self.console.sessions.is_used(cluster.name, log_in.caller):
            cluster.watchers.forget(log_in.caller)
            await _end_token(cluster, log_in.caller)
        url = f"/log-in/{cluster.name}"
        if cluster.provider is not None and log_in is not None and log_in.granted is not None:
            await cluster.provider.revoke(log_in.granted)
            url += "?out=1"
        return RedirectResponse(url, 303, dict(HEADERS))

    def _cluster(self, request: Request) -> Cluster:
        cluster = self.console.clusters.get(str(request.path_params["cluster"]))
        if cluster is None or not cluster.needs_log_in:
            raise Problem(404, "this cluster has no log-in")
        return cluster

    def page(
        self,
        request: Request,
        cluster: Cluster,
        session: Session,
        problem: str = "",
        status: int = 200,
        *,
        end_url: str = "",
    ) -> Response:
        then = request.query_params.get("then", "")
        context = {
            "provider": cluster.provider,
            "begin_url": begin_url(cluster, then),
            "end_url": end_url,
            "csrf": session.csrf,
            "messages": session.take_messages(),
            "problem": problem,
            "takes_passwords": cluster.settings.takes_passwords,
            "then": then,
        }
        return self.console.page(request, "log_in.html", context, status)


def _caller(cluster: Cluster, form: Form) -> Caller | None:
    if not cluster.settings.takes_passwords:
        token = form.text("token")
        return Caller(Kind.TOKEN, "token", token) if token else None
    name, password = form.text("name"), form.raw("password")
    if not name or not password or "\x00" in name + password:
        return None
    return Caller(Kind.PASSWORD, name, password)


def _own_path(then: str, cluster: Cluster) -> str:
    """Returns where to go after the log-in: only to a page of this cluster."""
    base = f"/c/{cluster.name}"
    is_own = then == base or then.startswith((f"{base}/", f"{base}?"))
    return then if is_own and not set(then) & set("\\\r\n") else base


async def _end_token(cluster: Cluster, caller: Caller) -> None:
    """Ends the token of a user who logs out; if that fails it ends by itself."""
    if caller.kind is not Kind.DELEGATION_TOKEN:
        return
    with suppress(ClientError, KafkaError, Problem, OSError):
        async with cluster.pool.clients(caller) as clients:
            await _expire(clients.admin, caller)


async def _expire(admin: Admin, caller: Caller) -> None:
    import base64  # noqa: PLC0415 - at a log-out

    await admin.expire_delegation_token(base64.b64decode(caller.secret))
