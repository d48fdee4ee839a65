"""OAUTHBEARER (RFC 7628): the client shows a token that somebody else has signed.

A bad token is answered with a JSON object, as the RFC wants; the client sends one more byte, and
then the log-in fails. Who knows which tokens are good is a `TokenChecker` (`tokens`,
`unsecured_tokens`).
"""

import json
import re
from collections.abc import Awaitable
from inspect import isawaitable
from typing import Final, Protocol

from odradek.security.sasl.server.exchange import Login, LoginFailed, Step

_FIRST: Final = re.compile(
    "n,(?:a=(?P<authzid>[^,]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)*)\x01?", re.DOTALL
)
# A token has at most half of this (`tokens`); extensions are short.
_MAX_MESSAGE_BYTES: Final = 128 * 1024
_SEPARATOR: Final = "\x01"
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_~+/.A-Za-z0-9]+=*)", re.IGNORECASE)
_INVALID_TOKEN: Final = json.dumps({"status": "invalid_token"}, separators=(",", ":"))


class BadToken(Exception):
    """A token that is not accepted; the text says why, for the log of the broker."""


class TokenChecker(Protocol):
    def check(self, token: str) -> Login | Awaitable[Login]:
        """Returns whose token it is. Raises `BadToken`, at once or when awaited."""
        ...

    def close(self) -> None: ...


class OAuthBearer:
    name = "OAUTHBEARER"

    def __init__(self, checker: TokenChecker) -> None:
        self._checker = checker

    def begin(self) -> "OAuthBearerExchange":
        return OAuthBearerExchange(self._checker)

    def close(self) -> None:
        self._checker.close()


class OAuthBearerExchange:
    def __init__(self, checker: TokenChecker) -> None:
        self._checker = checker
        # Why the token was refused; the client may only give up then.
        self._refusal: str | None = None

    def respond(self, token: bytes) -> Step | Awaitable[Step]:
        if self._refusal is not None:
            raise LoginFailed(self._refusal, _INVALID_TOKEN)
        if len(token) > _MAX_MESSAGE_BYTES:
            raise LoginFailed("the message of OAUTHBEARER is too long")
        found = _FIRST.fullmatch(token.decode(errors="replace"))
        if found is None:
            raise LoginFailed("the message of OAUTHBEARER is malformed")
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR) if pair)
        bearer = _BEARER.fullmatch(pairs.pop("auth", ""))
        if bearer is None:
            raise LoginFailed("the message of OAUTHBEARER has no token")
        try:
            login = self._checker.check(bearer["token"])
        except BadToken as error:
            return self._refuse(error)
        if isawaitable(login):
            return self._later(found["authzid"] or "", login, pairs)
        return _step(found["authzid"] or "", login, pairs)

    async def _later(
        self, authorization_id: str, login: Awaitable[Login], extensions: dict[str, str]
    ) -> Step:
        try:
            return _step(authorization_id, await login, extensions)
        except BadToken as error:
            return self._refuse(error)

    def _refuse(self, error: BadToken) -> Step:
        self._refusal = str(error)
        return Step(_INVALID_TOKEN.encode())


def _step(authorization_id: str, login: Login, extensions: dict[str, str]) -> Step:
    if authorization_id and authorization_id != login.name:
        raise LoginFailed(
            "the client wants to be somebody else",
            f"Authentication failed: Client requested an authorization id ({authorization_id}) that"
            f" is different from the token's principal name ({login.name})",
            login.name,
        )
    return Step(b"", Login(login.name, login.expires_at_ms, login.groups, extensions))
