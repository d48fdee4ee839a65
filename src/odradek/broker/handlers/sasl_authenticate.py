"""SaslAuthenticate (v0-v2): one step of a SASL exchange.

A log-in is served before the dispatcher (`broker.authentication.sasl_gate`). A request that arrives
here comes over a listener without SASL, or from a client that has logged in already and whose
session does not lapse: it is answered with ILLEGAL_SASL_STATE, and changes nothing.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import (
    API,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


HANDLER: Final = Handler(API, handle, permission=OpenToAll("clients log in with it"))
