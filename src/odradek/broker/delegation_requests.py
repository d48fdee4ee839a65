"""What requests about delegation tokens have in common: from whom they are accepted at all."""

from typing import TYPE_CHECKING, Final

from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from odradek.cluster.delegation_tokens import DelegationTokens

NO_TIME_MS: Final = -1
"""The times of a token in an answer that has an error."""


def require_trusted_connection(services: Services, context: RequestContext) -> None:
    """Raises `ApiError` for a client that may not ask for tokens: nobody has authenticated it, its
    secrets would be sent in the clear on a PLAINTEXT connection, or it has logged in by a token.
    Otherwise a token could be prolonged for ever by tokens that are made with it."""
    connection = context.connection
    protocol = services.settings.broker.security_protocol(connection.listener)
    if (
        connection.is_by_token
        or protocol == "PLAINTEXT"
        or (protocol == "SSL" and connection.principal.is_same_user(ANONYMOUS))
    ):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def require_tokens(services: Services) -> "DelegationTokens":
    """Raises `ApiError` if there are no tokens."""
    if services.tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return services.tokens
