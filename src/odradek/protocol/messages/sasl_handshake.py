"""SaslHandshake: the client chooses a SASL mechanism.

After version 0 the tokens of the mechanism follow as they are. After version 1 they are sent in
SaslAuthenticate requests.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request):
    mechanism: str = string()


class SaslHandshakeResponse(Response):
    error_code: int = int16()
    mechanisms: list[str] = array(string)


# After version 1 the tokens of the mechanism are sent in SaslAuthenticate requests.
API: Final = Api(17, SaslHandshakeRequest, SaslHandshakeResponse, max_version=1)
