"""DescribeDelegationToken (v1-v3): the tokens of the owners that are asked for, or of all.

A client sees the tokens that it owns, has requested or may renew, those that it may DESCRIBE, and
those of users whose tokens it may describe (DESCRIBE_TOKENS, KIP-373). With each token comes its
secret, as in Kafka: who may describe a token can log in with it. Tokens that have expired are shown
until the controller removes them.
"""

from typing import Final

from odradek.broker.delegation_requests import require_tokens, require_trusted_connection
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.messages.describe_delegation_token import (
    API,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.security.delegation_tokens import TokenInformation
from odradek.world.timeslice import Timeslice


async def handle(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    response = DescribeDelegationTokenResponse()
    try:
        require_trusted_connection(services, context)
        tokens = require_tokens(services)
        owners = None
        if request.owners is not None:
            owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
        found = [] if owners == set() else await tokens.all()
    except ApiError as error:
        response.error_code = error.code
        return response
    timeslice = Timeslice.of_running_loop()
    for token in found:
        if timeslice.is_over():
            await timeslice.next_turn()
        is_asked_for = owners is None or token.concerns(owners)
        if is_asked_for and _is_visible(context, token):
            response.tokens.append(_description(token, tokens.hmac_of(token.token_id)))
    return response


def _is_visible(context: RequestContext, token: TokenInformation) -> bool:
    return (
        token.concerns({str(context.connection.principal)})
        or context.authorize_without_logging(
            Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id
        )
        or context.authorize_without_logging(
            Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner)
        )
    )


def _description(token: TokenInformation, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.principal_type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(
                principal_type=renewer.principal_type, principal_name=renewer.name
            )
            for renewer in token.renewers
        ],
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "DESCRIBE on each token, or DESCRIBE_TOKENS on its owner, the user; none if the client"
        " owns it, has requested it or may renew it"
    ),
)
