"""Admin calls about delegation tokens.

    token = await admin.create_delegation_token()
    async with Producer(bootstrap_servers=..., **token.login()) as producer: ...

A service that has found out who its user is, by a certificate or an OpenID token, asks for a token
of that user (`owner="User:ada"`, for which it needs CreateTokens on `User:ada`), and opens clients
with `token.login()`: the brokers then see the user and not the service.
"""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel
from odradek.client.errors import SettingsError
from odradek.protocol.errors import error_for
from odradek.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


class DelegationToken(NamedTuple):
    """A token and its secret, the HMAC. Principals are written as in `User:ada`, and times are of
    the wall clock of the broker. `repr` does not show the secret."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """The HMAC in base64, as tools print it: the password of a log-in with this token."""
        import base64  # noqa: PLC0415 - most admin clients have no tokens

        return base64.b64encode(self.hmac).decode()

    def login(self, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Returns the settings by which a client logs in with this token. The listener must have
        the mechanism, SCRAM-SHA-256 or SCRAM-SHA-512."""
        return {
            "sasl_mechanism": mechanism,
            "sasl_jaas_config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{self.token_id}" password="{self.password}" tokenauth="true";',
        }

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, owner={self.owner!r})"


class DelegationTokenCalls(AdminChannel):
    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        """Creates a token for whoever this client has logged in as, or for another `owner`, as in
        `User:ada`. `renewers` may renew and end it, as its owner may. It can be renewed for
        `max_lifetime_ms`; -1 is as long as the brokers allow."""
        given = tuple(arguments.several(str, renewers, "create_delegation_token()", "renewers"))
        request = CreateDelegationTokenRequest(
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, given)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = _principal(owner)
        response = await self.controller_request(request, CreateDelegationTokenResponse)
        if response.error_code:
            raise error_for(response.error_code)
        found = f"{response.principal_type}:{response.principal_name}"
        requester = (
            f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
        )
        return DelegationToken(
            response.token_id,
            bytes(response.hmac),
            found,
            # Brokers before Kafka 3.3 do not say it: there is no other requester.
            found if requester == ":" else requester,
            given,
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    async def renew_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int = -1
    ) -> int:
        """Lets a token, or the one with this HMAC, end `period_ms` from now, if its maximum and the
        brokers allow it; -1 is as late as the brokers allow. Returns when it ends, in ms."""
        response = await self.controller_request(
            RenewDelegationTokenRequest(hmac=_hmac(token), renew_period_ms=period_ms),
            RenewDelegationTokenResponse,
        )
        if response.error_code:
            raise error_for(response.error_code)
        return response.expiry_timestamp_ms

    async def expire_delegation_token(
        self, token: DelegationToken | bytes, period_ms: int = -1
    ) -> int:
        """Lets a token, or the one with this HMAC, end `period_ms` from now, or at once. Returns
        when it ends, in ms. Connections that have logged in with it stay as they are."""
        response = await self.controller_request(
            ExpireDelegationTokenRequest(hmac=_hmac(token), expiry_time_period_ms=period_ms),
            ExpireDelegationTokenResponse,
        )
        if response.error_code:
            raise error_for(response.error_code)
        return response.expiry_timestamp_ms

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Returns the tokens that these owners, requesters or renewers have, as in `User:ada`, or
        all that this client may see."""
        request = DescribeDelegationTokenRequest(owners=None)
        if owners is not None:
            given = arguments.several(str, owners, "describe_delegation_tokens()", "owners")
            request.owners = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, given)
            ]
        response = await self.request(request, DescribeDelegationTokenResponse)
        if response.error_code:
            raise error_for(response.error_code)
        return [_described(token) for token in response.tokens]


def _hmac(token: DelegationToken | bytes) -> bytes:
    return token.hmac if isinstance(token, DelegationToken) else bytes(token)


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise SettingsError(f"'{text}' is not a principal: write type:name, as in User:ada")
    return kind, name


def _described(token: DescribedDelegationToken) -> DelegationToken:
    owner = f"{token.principal_type}:{token.principal_name}"
    requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        owner,
        owner if requester == ":" else requester,
        tuple(f"{one.principal_type}:{one.principal_name}" for one in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )
