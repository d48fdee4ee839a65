"""CreateDelegationToken (v1-v3): a token for the client itself, or for another user.

A token for another user needs CREATE_TOKENS on that user (KIP-373). Owners and renewers are users;
unlike in Kafka an owner of another type is refused, because a log-in by the token would make a user
of it. Tokens are not given to clients whose connection is PLAINTEXT, that are anonymous on a TLS
connection, or that have logged in by a token themselves.
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
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_delegation_token import (
    API,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.security.principals import USER, Principal


async def handle(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = context.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
        if owner.is_same_user(requester):
            # So the token has the groups of its owner.
            owner = requester
    response = CreateDelegationTokenResponse(
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
    )
    try:
        _require_permission(services, context, owner)
        renewers = [
            _user(renewer.principal_type, renewer.principal_name) for renewer in request.renewers
        ]
        _user(owner.principal_type, owner.name)
        tokens = require_tokens(services)
        token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except ApiError as error:
        response.error_code = error.code
        response.issue_timestamp_ms = NO_TIME_MS
        response.expiry_timestamp_ms = NO_TIME_MS
        response.max_timestamp_ms = NO_TIME_MS
        return response
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id, response.hmac = token.token_id, tokens.hmac_of(token.token_id)
    return response


def _require_permission(services: Services, context: RequestContext, owner: Principal) -> None:
    require_trusted_connection(services, context)
    if owner.is_same_user(context.connection.principal):
        return
    if not context.authorize(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def _user(principal_type: str, name: str) -> Principal:
    if principal_type != USER or not name:
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    return Principal(principal_type, name)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("CREATE_TOKENS on the user, if it is not the client itself"),
)
