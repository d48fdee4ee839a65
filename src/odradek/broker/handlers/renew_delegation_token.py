"""RenewDelegationToken (v1-v2): moves the end of a token to a later time, up to its maximum.

The owner and the renewers of a token may renew it. Whoever knows the HMAC of a token that is not
theirs learns that it exists, and no more.
"""

from typing import Final

from odradek.broker.delegation_requests import (
    NO_TIME_MS,
    require_tokens,
    require_trusted_connection,
)
from odradek.broker.handlers import Handler
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.messages.renew_delegation_token import (
    API,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    try:
        require_trusted_connection(services, context)
        token = await require_tokens(services).renew(
            bytes(request.hmac), context.connection.principal, request.renew_period_ms
        )
    except ApiError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME_MS)
    context.note_subject(token.token_id)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)


HANDLER: Final = Handler(
    API, handle, permission=OpenToAll("the owner and the renewers of a token may renew it")
)
