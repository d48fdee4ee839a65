"""SaslHandshake (v0-v1): the client chooses a SASL mechanism.

A log-in is served before the dispatcher (`broker.authentication.sasl_gate`). A request that arrives
here comes over a listener without SASL, or from a client that has logged in already and whose
session does not lapse: it is answered with ILLEGAL_SASL_STATE, and changes nothing.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import OpenToAll
from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_handshake import (
    API,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def handle(
    services: Services, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
    )


HANDLER: Final = Handler(API, handle, permission=OpenToAll("clients log in with it"))
