"""SaslHandshake: choose a mechanism.

After version 0 bare SASL tokens follow on the connection; after version 1 they are wrapped
in SaslAuthenticate.
"""

from odradek.protocol.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
