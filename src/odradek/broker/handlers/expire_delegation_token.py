"""ExpireDelegationToken (v1-v2): lets a token end after a time, or at once with a negative time.

The owner and the renewers of a token may do that. Unlike in Kafka, where nobody else can end the
token of a user who has left, so may a client with ALTER on the cluster, for users, if it ends the
token at once.
"""

from typing import Final

from odradek.broker.delegation_requests import (
    NO_TIME_MS,
    require_tokens,
    require_trusted_connection,
)
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.expire_delegation_token import (
    API,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.security.delegation_tokens import TokenInformation
from odradek.security.roles import Area


async def handle(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    try:
        require_trusted_connection(services, context)
        token = await _expire(services, context, request)
    except ApiError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME_MS)
    context.note_subject(token.token_id)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)


async def _expire(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> TokenInformation:
    tokens, principal = require_tokens(services), context.connection.principal
    hmac, period_ms = bytes(request.hmac), request.expiry_time_period_ms
    try:
        return await tokens.expire(hmac, principal, period_ms, may_revoke_all=False)
    except ApiError as error:
        is_foreign = error.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        # Without an authorizer everybody could end the tokens of everybody.
        if not is_foreign or period_ms >= 0 or services.authorizer is None:
            raise
        if not context.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, Area.USERS):
            raise
    return await tokens.expire(hmac, principal, period_ms, may_revoke_all=True)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "ALTER on the cluster, to end at once what the client neither owns nor may renew",
        Area.USERS,
    ),
)
