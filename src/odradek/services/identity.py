"""Who asks: the log-in that a request carries, which a service passes on to the brokers.

`PassedOnLogIn` is what the guards of `web` ask before every endpoint. It lets a request in when
the brokers have accepted its log-in, so a name in the access log is one that the brokers know.

What a request shows becomes a log-in of Kafka's:

    Authorization: Basic     SASL with that user and password (PLAIN or SCRAM, as brokers have it)
    Authorization: Bearer    SASL OAUTHBEARER with that token
    Authorization: DelegationToken    a delegation token of the brokers, base64 of ID:HMAC (SCRAM)
    a client certificate     a delegation token of that principal (`tokens`, KIP-48, KIP-373)
    none of them             ANONYMOUS, if the brokers' listener has no SASL; else 401
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Scope

from odradek.security.tls.distinguished_names import distinguished_name
from odradek.web.guards import ANONYMOUS
from odradek.web.login import PEER

if TYPE_CHECKING:
    from odradek.services.client_pool import ClientPool

CALLER: Final = "odradek.caller"
"""The key in an ASGI scope of a caller that a service knows already, as by a session."""
_MAX_SECRET: Final = 64 * 1024
_SHOWN_OF_TOKEN: Final = "token"  # noqa: S105 - a word, not a token
_DELEGATION_SCHEME: Final = "DelegationToken"


class Kind(Enum):
    """How a caller proves who it is."""

    ANONYMOUS = "anonymous"
    PASSWORD = "password"  # noqa: S105 - the name of a kind
    TOKEN = "token"  # noqa: S105
    CERTIFICATE = "certificate"
    DELEGATION_TOKEN = "delegation token"  # noqa: S105
    """A token of the brokers for the caller (KIP-48): the name is its id, the secret its HMAC."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What a request shows of who sent it. Neither `repr` nor an error shows the secret."""

    kind: Kind
    name: str
    secret: str = field(default="", repr=False)


NOBODY: Final = Caller(Kind.ANONYMOUS, ANONYMOUS)


def caller_of(authorization: str | None, peer: Mapping[str, Any] | None = None) -> Caller | None:
    """Returns who a request is from, or None if what it shows cannot be read.

    A certificate is used only if there is no `Authorization`: who shows both means the latter.
    """
    if authorization is None:
        name = distinguished_name(peer) if peer else ""
        return NOBODY if not name else Caller(Kind.CERTIFICATE, name)
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and 0 < len(value) <= _MAX_SECRET:
        return Caller(Kind.TOKEN, _SHOWN_OF_TOKEN, value)
    if scheme.lower() == _DELEGATION_SCHEME.lower():
        return _by_pair(Kind.DELEGATION_TOKEN, value)
    return _by_pair(Kind.PASSWORD, value) if scheme.lower() == "basic" else None


def authorization_of(caller: Caller) -> str:
    """Returns what `caller_of` reads: how one service shows the log-in of its caller to another.
    Nothing for a caller whose log-in cannot be shown, such as a certificate."""
    if caller.kind is Kind.TOKEN:
        return f"Bearer {caller.secret}"
    scheme = {Kind.PASSWORD: "Basic", Kind.DELEGATION_TOKEN: _DELEGATION_SCHEME}.get(caller.kind)
    if scheme is None:
        return ""
    pair = f"{caller.name}:{caller.secret}".encode()
    return f"{scheme} {base64.b64encode(pair).decode()}"


def _by_pair(kind: Kind, value: str) -> Caller | None:
    try:
        name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    if not colon or not name or not password or "\x00" in name + password:
        return None
    return Caller(kind, name, password)


class PassedOnLogIn:
    """The log-in of a service that acts as its callers."""

    error_code = 40101

    def __init__(self, pool: "ClientPool", *, is_required: bool, takes_tokens: bool) -> None:
        self._pool = pool
        self.is_required = is_required
        self.challenge = "Bearer" if takes_tokens else 'Basic realm="kafka", charset="UTF-8"'

    async def principal(
        self, authorization: str | None, peer: Mapping[str, Any] | None
    ) -> str | None:
        """Returns the name of a caller whom the brokers have let in, or None.

        Brokers that cannot be reached are another error, which is raised.
        """
        caller = caller_of(authorization, peer)
        if caller is None or not self._pool.accepts(caller):
            return None
        if not await self._pool.is_let_in(caller):
            return None
        return self._pool.user_of(caller)


def caller_in(scope: Scope, *, is_required: bool) -> Caller:
    """Returns the caller of a request that the guards have let in.

    Brokers without a log-in (`is_required` is false) are asked as ANONYMOUS, whatever a request
    shows: a password that nobody checks proves nothing.
    """
    if not is_required:
        return NOBODY
    known: Caller | None = scope.get(CALLER)
    if known is not None:
        return known
    for name, value in scope["headers"]:
        if name == b"authorization":
            return caller_of(value.decode("latin-1"), scope.get(PEER)) or NOBODY
    return caller_of(None, scope.get(PEER)) or NOBODY
