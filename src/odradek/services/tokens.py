"""Delegation tokens for callers who show a certificate (KIP-48, KIP-373).

A certificate proves to the service who the caller is, and cannot be shown to the brokers, because
the caller's private key stays with the caller. So the service asks the brokers for a token of that
user, and logs in with the token:

1. The caller's distinguished name becomes a name of a user by `ssl.principal.mapping.rules`.
2. The service creates a token whose owner is that user. For that alone it has a log-in of its own
   (`odradek.tokens.`), whose user needs CreateTokens on the users that it may stand for.
3. The clients of the caller log in with the token, so the brokers see the caller and not the
   service, with the caller's permissions.

A token belongs to one entry of the client pool. It ends by itself after `lifetime_ms`; the pool
makes a new entry with a new token when half of that has passed, and ends the token when it closes
the entry. Only owners and renewers may end a token, therefore the service is its renewer. It learns
its own name from the first token that it creates.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.client.admin.admin import Admin
from odradek.client.admin.delegation_tokens import DelegationToken
from odradek.client.errors import AuthenticationFailed, ClientError
from odradek.protocol.errors import AuthenticationError, AuthorizationError, KafkaError
from odradek.security.jaas import jaas_line
from odradek.security.tls.principal_mapping import NoRuleMatches, PrincipalMapping
from odradek.web.problems import Problem

_FIRST_LIFETIME_MS: Final = 1000
_END_TIMEOUT_S: Final = 5.0
_FORBIDDEN: Final = 40301
_CANNOT: Final = 50002


def token_log_in(token_id: str, password: str, mechanism: str) -> dict[str, object]:
    """Returns the properties by which a client logs in with a token. Tokens need SCRAM, so a
    listener of another `mechanism` is asked for SCRAM-SHA-512."""
    mechanism = mechanism.upper()
    # Quoted, because both may be what a caller has sent: a password with another username= in it
    # would log in as one token, and be taken for the caller of another.
    options = {"username": token_id, "password": password, "tokenauth": "true"}
    return {
        "sasl.mechanism": mechanism if mechanism.startswith("SCRAM-") else "SCRAM-SHA-512",
        "sasl.jaas.config": jaas_line(
            "org.apache.kafka.common.security.scram.ScramLoginModule", options
        ),
    }


class TokenLogIn(NamedTuple):
    """The properties by which a client logs in with a token, and how long they are good."""

    token: DelegationToken
    properties: Mapping[str, object]
    lifetime_s: float


class TokenIssuer:
    """Creates and ends tokens, with the log-in of the service."""

    def __init__(self, properties: Mapping[str, object], rules: str, lifetime_ms: int) -> None:
        """`properties` are those of the client that creates tokens."""
        self._properties = properties
        self._mapping = PrincipalMapping(rules)
        self._lifetime_ms = lifetime_ms
        self._mechanism = str(properties.get("sasl.mechanism", ""))
        self._admin: Admin | None = None
        self._own_principal: str | None = None

    def user(self, distinguished_name: str) -> str | None:
        """Returns the user that a certificate stands for; None if no rule says it."""
        try:
            return self._mapping.name(distinguished_name) or None
        except NoRuleMatches:
            return None

    async def log_in(self, distinguished_name: str) -> TokenLogIn:
        """Creates a token. Raises a `Problem` if the brokers do not let the service do that."""
        owner = f"User:{self.user(distinguished_name)}"
        try:
            token = await self._create(owner)
        except AuthorizationError:
            raise Problem(
                403,
                f"the service may not act as {owner}: its user needs CreateTokens on {owner}",
                code=_FORBIDDEN,
            ) from None
        except (AuthenticationFailed, AuthenticationError):
            raise Problem(
                500, "the brokers refuse the log-in odradek.tokens.* of the service", code=_CANNOT
            ) from None
        properties = token_log_in(token.token_id, token.password, self._mechanism)
        return TokenLogIn(token, properties, (token.expires_ms - token.issued_ms) / 1000)

    async def _create(self, owner: str) -> DelegationToken:
        if self._admin is None:
            self._admin = Admin(self._properties)
        if self._own_principal is None:
            first = await self._admin.create_delegation_token(
                owner=owner, max_lifetime_ms=_FIRST_LIFETIME_MS
            )
            self._own_principal = first.requester
        return await self._admin.create_delegation_token(
            owner=owner, renewers=[self._own_principal], max_lifetime_ms=self._lifetime_ms
        )

    async def end(self, token: DelegationToken) -> None:
        """Ends a token that nobody needs any more; if that fails it ends by itself."""
        with suppress(ClientError, KafkaError, TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_S):
                if self._admin is not None:
                    await self._admin.expire_delegation_token(token)

    async def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
