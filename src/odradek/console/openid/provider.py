"""Log-in at an OpenID provider by the authorization code flow with PKCE (RFC 6749, RFC 7636).

1. `begin` returns the provider's URL to which the console redirects the browser, and what the
   console must remember until the browser comes back. `state` shows that the response belongs to
   this browser, `nonce` that the ID token belongs to this log-in, and the verifier of PKCE makes a
   stolen code useless.
2. `finish` sends the code to the provider and gets the tokens, which never pass the browser. It
   checks the ID token: signature by the provider's keys (JWKS), issuer, audience, times, nonce.
3. The console sends one of the tokens to the brokers, which check it by their own rules.

Tokens are kept only in memory, and no message contains one. A message quotes a provider's response
only if it is an error, and errors have no tokens (RFC 6749, section 5.2).
"""

import asyncio
import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from odradek.console.http_json import HttpRefused, ask_json
from odradek.console.openid.settings import BadProvider, OpenIdSettings, check_address
from odradek.security.sasl.client.tokens import claims
from odradek.world import World

if TYPE_CHECKING:
    from odradek.security.sasl.server.tokens import SignedTokens

_DISCOVERY: Final = "/.well-known/openid-configuration"
_REFRESH_S: Final = 3600.0
_RANDOM_BYTES: Final = 32
_NAME_CLAIMS: Final = ("preferred_username", "email", "sub")
_DEFAULT_LIFETIME_S: Final = 300.0


class LogInFailed(Exception):
    """The provider refused the user, or its response cannot be trusted. The message is for the
    user, and says what to do."""


@dataclass(frozen=True, slots=True)
class PendingLogIn:
    """A log-in that has begun: the browser is at the provider. `then` is the page to show after
    it."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_url: str
    then: str
    at_s: float


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """What the provider granted a user: the token for the brokers, until when it is valid, and the
    refresh token, with which the console gets a newer one."""

    name: str
    token: str = field(repr=False)
    expires_s: float
    """The time at which the token expires, by the clock of the event loop."""
    refresh_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The provider's description of itself (OpenID Connect Discovery 1.0)."""

    authorization: str
    token: str
    keys: str
    end_session: str
    revocation: str
    takes_basic: bool
    names_itself: bool
    """Whether its responses must name the issuer (RFC 9207)."""
    at_s: float


class Provider:
    """The provider in one cluster's settings. `close` stops the refreshing of its keys."""

    def __init__(self, settings: OpenIdSettings, world: World | None = None) -> None:
        self._settings = settings
        self._world = world or World()
        self._metadata: _Metadata | None = None
        self._id_tokens: SignedTokens | None = None

    @property
    def host(self) -> str:
        return self._settings.host

    async def begin(self, redirect_url: str, then: str) -> tuple[PendingLogIn, str]:
        """Returns what to remember, and the URL for the browser. `then` is the page to show after
        the log-in. Raises `LogInFailed`."""
        metadata = await self._describe()
        random = self._world.randomness.bytes
        state, nonce, verifier = (_encoded(random(_RANDOM_BYTES)) for _ in range(3))
        challenge = _encoded(hashlib.sha256(verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_url,
            "scope": self._settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in metadata.authorization else "?"
        begun = PendingLogIn(state, nonce, verifier, redirect_url, then, _now_s())
        return begun, f"{metadata.authorization}{mark}{urlencode(query)}"

    async def finish(self, begun: PendingLogIn, code: str, issuer: str) -> TokenGrant:
        """Exchanges a code for tokens. `issuer` is the one in the response (RFC 9207), or empty.
        Raises `LogInFailed`."""
        metadata = await self._describe()
        if (issuer or metadata.names_itself) and issuer != self._settings.issuer:
            raise LogInFailed("The response is from another provider. Begin the log-in again.")
        answer = await self._ask_for_tokens(
            metadata,
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": begun.redirect_url,
                "code_verifier": begun.verifier,
            },
        )
        id_token = str(answer.get("id_token", ""))
        await self._check(id_token, metadata, begun.nonce)
        found = claims(id_token)
        name = next((str(found[claim]) for claim in _NAME_CLAIMS if found.get(claim)), "")
        return self._granted(answer, id_token, name)

    async def renew(self, granted: TokenGrant) -> TokenGrant:
        """Returns a newer token of the same user. Raises `LogInFailed`."""
        metadata = await self._describe()
        form = {"grant_type": "refresh_token", "refresh_token": granted.refresh_token}
        answer = await self._ask_for_tokens(metadata, form)
        answer.setdefault("refresh_token", granted.refresh_token)
        id_token = str(answer.get("id_token", ""))
        if id_token:
            await self._check(id_token, metadata, None)
        return self._granted(answer, id_token, granted.name)

    async def revoke(self, granted: TokenGrant) -> None:
        """Revokes the refresh token of a user who logs out, if the provider can do that. Otherwise
        the tokens stay valid until they expire."""
        try:
            metadata = await self._describe()
            if metadata.revocation and granted.refresh_token:
                form = {"token": granted.refresh_token, "token_type_hint": "refresh_token"}
                await self._post(metadata, metadata.revocation, form)
        except (LogInFailed, HttpRefused, OSError):
            return

    async def end_url(self, then: str) -> str:
        """Returns the URL at which a browser ends its session at the provider, or "". The ID token
        is not in the URL, where others might see it, so the provider asks the user to confirm."""
        try:
            metadata = await self._describe()
        except LogInFailed:
            return ""
        if not metadata.end_session:
            return ""
        query = {"client_id": self._settings.client_id, "post_logout_redirect_uri": then}
        return f"{metadata.end_session}{'&' if '?' in metadata.end_session else '?'}" + urlencode(
            query
        )

    def close(self) -> None:
        if self._id_tokens is not None:
            self._id_tokens.close()

    # The provider

    async def _describe(self) -> _Metadata:
        """Returns the provider's description, which is fetched again after an hour."""
        known = self._metadata
        if known is not None and _now_s() - known.at_s < _REFRESH_S:
            return known
        issuer = self._settings.issuer
        try:
            answer = await ask_json("GET", issuer.rstrip("/") + _DISCOVERY)
            self._metadata = _metadata(answer, issuer)
        except (HttpRefused, OSError, BadProvider) as error:
            raise LogInFailed(
                f"The OpenID provider {issuer} cannot be reached: {error}. Try again, or correct"
                " odradek.openid.issuer of the console."
            ) from None
        return self._metadata

    async def _ask_for_tokens(self, metadata: _Metadata, form: dict[str, str]) -> dict[str, Any]:
        try:
            answer = await self._post(metadata, metadata.token, form)
        except HttpRefused as error:
            raise LogInFailed(f"The OpenID provider refused the log-in: {error}") from None
        except OSError as error:
            raise LogInFailed(f"The OpenID provider does not answer: {error}") from None
        if not isinstance(answer, dict):
            raise LogInFailed("The OpenID provider's response has no tokens.")
        return answer

    async def _post(self, metadata: _Metadata, url: str, form: dict[str, str]) -> Any:
        """Posts a form with the name of the client and, if it has one, its secret (RFC 6749,
        section 2.3.1)."""
        user, secret = self._settings.client_id, self._settings.client_secret
        headers = {}
        if secret and metadata.takes_basic:
            pair = f"{quote(user, safe='')}:{quote(secret, safe='')}".encode()
            headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        else:
            form = {**form, "client_id": user}
            if secret:
                form["client_secret"] = secret
        return await ask_json("POST", url, form=form, headers=headers)

    # Tokens

    async def _check(self, id_token: str, metadata: _Metadata, nonce: str | None) -> None:
        """Raises `LogInFailed` if an ID token is not for this console and this log-in."""
        # These need PyJWT, which a console without OpenID does not.
        from odradek.security.sasl.server.oauthbearer import BadToken  # noqa: PLC0415

        try:
            if self._id_tokens is None:
                self._id_tokens = self._checker(metadata.keys)
            checked = self._id_tokens.check(id_token)
            if isawaitable(checked):
                await checked
        except BadToken as error:
            raise LogInFailed(f"The ID token cannot be trusted: {error}.") from None
        found = claims(id_token)
        given = str(found.get("nonce", ""))
        if nonce is not None and not hmac.compare_digest(given.encode(), nonce.encode()):
            raise LogInFailed("The ID token belongs to another log-in. Begin the log-in again.")
        party = found.get("azp", self._settings.client_id)
        if party != self._settings.client_id:
            raise LogInFailed(f"The ID token was issued to another client, {party!r}.")

    def _checker(self, keys_url: str) -> "SignedTokens":
        from odradek.security.sasl.server.token_claims import ClaimRules  # noqa: PLC0415
        from odradek.security.sasl.server.tokens import SignedTokens  # noqa: PLC0415
        from odradek.security.sasl.server.verification_keys import (  # noqa: PLC0415
            VerificationKeys,
        )

        async def fetch() -> bytes:
            import json  # noqa: PLC0415 - at the first log-in

            try:
                return json.dumps(await ask_json("GET", keys_url)).encode()
            except HttpRefused as error:
                raise OSError(str(error)) from None

        rules = ClaimRules((self._settings.client_id,), self._settings.issuer)
        keys = VerificationKeys(fetch, keys_url, refresh_s=_REFRESH_S)
        return SignedTokens(keys, rules, self._world.clock.now_ms)

    def _granted(self, answer: dict[str, Any], id_token: str, name: str) -> TokenGrant:
        """Returns the grant with the token for the brokers: the ID token or the access token, as
        the settings say."""
        token = id_token
        if not self._settings.shows_id_token:
            token = str(answer.get("access_token", ""))
        if not token:
            raise LogInFailed("The OpenID provider's response has no token for the brokers.")
        lifetime_s = answer.get("expires_in")
        if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float):
            lifetime_s = _DEFAULT_LIFETIME_S
        refresh_token = str(answer.get("refresh_token") or "")
        return TokenGrant(name or "unknown", token, _now_s() + float(lifetime_s), refresh_token)


def _metadata(answer: Any, issuer: str) -> _Metadata:
    if not isinstance(answer, dict):
        raise BadProvider("its description is not a JSON object")
    if answer.get("issuer") != issuer:
        raise BadProvider(f"it calls itself {answer.get('issuer')!r}, which must be the same text")
    found = {}
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        found[name] = check_address(str(answer.get(name, "")), name)
    others = {}
    for name in ("end_session_endpoint", "revocation_endpoint"):
        others[name] = check_address(str(answer[name]), name) if answer.get(name) else ""
    methods = answer.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return _Metadata(
        found["authorization_endpoint"], found["token_endpoint"], found["jwks_uri"],
        others["end_session_endpoint"], others["revocation_endpoint"],
        "client_secret_basic" in methods,
        bool(answer.get("authorization_response_iss_parameter_supported")), _now_s(),
    )  # fmt: skip


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
